"""Which language a question is in, its function words, and stems.

Stems are taken at query time: the index keeps words as they are, and a question's word is looked up with
all words of the index that share its stem (`lexical.py`). One index so serves every language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import tantivy

# The commonest function words: enough to tell languages apart and to leave out of a query.
# Lists are our own, written from the grammar of each language.
_FUNCTION_WORDS: dict[str, str] = {
    "english": (
        "a about after all also am an and any are as at be because been before being between both but "
        "by can could did do does doing during each else every few for from further had has have having "
        "he her here hers him his how i if in into is it its itself just let me more most much my no "
        "nor not of off on once only or other our out over own please same she should so some such than "
        "that the their them then there these they this those through to too under until up us very was "
        "we were what when where whether which while who whom whose why will with within without would "
        "yes yet you your yours"
    ),
    "polish": (
        "a aby ale albo bardzo bez bo by być był była było były byli będzie będą ci co czego czemu czy "
        "czym dla dlaczego do gdy gdzie go i ich ile im inne iż ja jak jaka jaki jakie jakiego jakiej "
        "jakim jakimi jakich jako jego jej jest jestem jeszcze jeśli jeżeli już kiedy kim kogo komu kto "
        "która które którego której którą którym który których którzy lub ma mają mi mnie mu my na nad "
        "nam nas nasz nie nich nim niż o od on ona one oni ono oraz po pod poza przed przez przy są się "
        "skąd sobie ta tak także tam te tego tej ten to tu ty tych tylko tym tymi u w we wam was wasz "
        "wszystko wtedy więc z za ze że został została zostało zostały"
    ),
    "german": (
        "aber alle als also am an auch auf aus bei bin bis bist da damit dann das dass dein dem den "
        "denn der des die dies diese dieser dieses doch dort du durch ein eine einem einen einer eines "
        "er es etwas für gegen hat hatte habe haben hier ich ihm ihn ihr ihre im in ist ja kann kein "
        "keine können man mehr mein mit nach nicht noch nur ob oder ohne sehr sein seine sich sie sind "
        "so über um und uns unter vom von vor wann war waren warum was weil welche welcher welches wenn "
        "wer werden wie wieso wir wird wo wurde wurden zu zum zur"
    ),
    "french": (
        "a ai au aux avec ce ces cet cette comment dans de des du elle en est et été être eu il ils je "
        "la le les leur lui ma mais me même mes mon ne nos notre nous on ou où par pas pour pourquoi qu "
        "quand que quel quelle quels quelles qui quoi sa sans se ses si son sont sur ta te tes toi ton "
        "tu un une vos votre vous"
    ),
    "spanish": (
        "a al algo ante como cómo con cuál cuáles cuando cuándo cuánto de del desde donde dónde el ella "
        "ellos en entre era es esa ese eso esta está están este esto estos fue ha hay la las le les lo "
        "los más me mi mis muy no nos o para pero por porque qué que quién se ser si sí sin sobre son "
        "su sus también te tiene tu un una uno unos y ya yo"
    ),
    "italian": (
        "a al alla anche che chi ci come con cosa da dal dalla dei del della delle di dove e è ed era "
        "gli ha hanno i il in io la le lo loro ma mi nei nel nella non o per perché più quale quali "
        "quando quanto quello questa questo se si sia sono su sua suo tra un una uno"
    ),
    "portuguese": (
        "a ao aos as até com como da das de do dos e é ela ele em entre era essa esse esta está este eu "
        "foi há isso isto já mais mas me mesmo meu na não nas no nos o os ou para pela pelo por porque "
        "qual quais quando quanto que quem se sem ser seu são só sua também tem um uma você onde"
    ),
    "dutch": (
        "aan al als bij dat de deze die dit door een en er geen haar hebben heeft het hij hoe hun ik in "
        "is je kan maar meer met mijn naar niet nog of om onder ook op over te tot uit van veel voor "
        "waar waarom wanneer wat we welke werd wie wij wordt ze zich zij zijn zo"
    ),
    "swedish": (
        "alla att av blev de den denna det där då efter eller en ett finns från för ha hade han har hur "
        "i in inte jag kan man med mot men mycket ni nu när och om på sig sin ska som så till under upp "
        "ut vad var varför vem vi vid vilka vilken vilket än är"
    ),
    "czech": (
        "a aby ale ani až bez bude by byl byla bylo být co což do i jak jaká jaké jaký je jeho její jen "
        "jsem jsou k kde kdo kdy která které který má mezi na nad ne nebo není o od po pod pro proč "
        "proto před při s se si sv ta tak také tam ten tento to tu u už v ve více však z za ze že"
    ),
    "russian": (
        "а без более был была были было быть в вам вас весь во вот все всё вы где да для до его ее её "
        "если есть еще же за и из или им их к как какая какие какой когда кто ли между мне мы на над не "
        "него нет но о об он она они от по под почему при с со так также там то только ты у уже что "
        "чтобы это эта эти этот я"
    ),
    "turkish": (
        "ama bir bu bunu çok da daha de değil diye en gibi hangi her için ile ise kaç ki kim mi mı mu "
        "mü ne neden nasıl nerede o olan olarak oldu sonra şu ve veya ya"
    ),
}

STOP = {name: frozenset(text.split()) for name, text in _FUNCTION_WORDS.items()}
_MARKS = {
    "polish": re.compile("[ąęłńśźż]|(?:ć|ó)"),
    "czech": re.compile("[ěřůť]"),
    "german": re.compile("[äöüß]"),
    "russian": re.compile("[а-яё]"),
    "turkish": re.compile("[ığş]"),
    "swedish": re.compile("[åä]"),
    "french": re.compile("[çœèêàù]"),
    "spanish": re.compile("[ñ¿¡]"),
    "portuguese": re.compile("[ãõ]"),
}
_TANTIVY_TEXT = (
    "arabic danish dutch english finnish french german greek hungarian italian norwegian portuguese romanian "
    "russian spanish swedish tamil turkish"
)
_TANTIVY = frozenset(_TANTIVY_TEXT.split())
_UNACCENTED = str.maketrans(
    "ąćęłńóśźżěščřžýáíéúůäöüßàâçèêëîïôûùñãõåğış", "acelnoszzescrzyaieuuaousaaceeeiiouunaoagis"
)


def detect(text: str, unclear: str = "english") -> str:
    """The language of a question by its function words and letters; `unclear` when nothing speaks.

    A word with its accents left out counts half, so that Polish typed on an English keyboard is found.
    """
    found = re.findall(r"[^\W\d_]+", text.lower())
    scores: dict[str, float] = {}
    for name, stop in STOP.items():
        plain = _plain_stop(name)
        score = sum(1.0 if w in stop else 0.5 if w in plain else 0.0 for w in found)
        marks = _MARKS.get(name)
        if marks is not None:
            score += sum(0.75 for w in found if marks.search(w))
        scores[name] = score
    best = max(scores, key=lambda name: (scores[name], name == "english"))
    if not scores[best]:
        return unclear
    return best if scores[best] > scores["english"] else "english"


@lru_cache(maxsize=32)
def _plain_stop(language: str) -> frozenset[str]:
    return frozenset(w.translate(_UNACCENTED) for w in STOP[language])


def is_function_word(word: str, language: str) -> bool:
    """Whether a lower-case word carries no content in a language, or in English.

    Questions about code are often English words in another language's frame, and the other way round.
    """
    if word in STOP["english"]:
        return language == "english" or len(word) > 1
    return language != "english" and (word in STOP[language] or word in _plain_stop(language))


Stemmer = Callable[[Sequence[str]], list[str]]
"""Stems of lower-case words without spaces, in order."""


_AGENT = 8


def _agentless(stem: str) -> str:
    """English stems keep the agent's `-or` (detector, connector, executor, processor); code needs it off."""
    return stem[:-2] if len(stem) >= _AGENT and stem.endswith(("tor", "sor")) else stem


@lru_cache(maxsize=32)
def stemmer(language: str) -> Stemmer:
    """The Snowball stemmer of a language: tantivy's where it has one, else snowballstemmer's.

    Languages without either keep their words.
    """
    if language in _TANTIVY:
        analyzer = (
            tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
            .filter(tantivy.Filter.stemmer(language))
            .build()
        )
        if language == "english":
            return lambda found: [_agentless(stem) for stem in analyzer.analyze(" ".join(found))]
        return lambda found: analyzer.analyze(" ".join(found))
    import snowballstemmer  # Polish, Czech and more; pure Python, so only where tantivy has none

    if language not in snowballstemmer.algorithms():
        return list
    snowball = snowballstemmer.stemmer(language)
    return lambda found: list(snowball.stemWords(found))
