"""What a definition looks like in each language: the data of `outline`.

A pattern is matched after a line's indentation. The last group that took part names the definition, and
the group's name is its kind. `ID` stands for an identifier. Quantifiers are possessive (`*+`) or bounded,
so that a line is read once.
"""

from __future__ import annotations

# ruff: noqa: E501
# A pattern stays on one line, as long as it is.
from collections.abc import Mapping

_ID = r"[A-Za-z_$\x80-\xff][\w$\x80-\xff]*+"

ALIASES: Mapping[str, str] = {
    "c++": "cpp", "cxx": "cpp", "c#": "csharp", "c_sharp": "csharp", "cs": "csharp", "js": "javascript",
    "jsx": "javascript", "ts": "typescript", "py": "python", "rb": "ruby", "rs": "rust", "sh": "bash",
    "shell": "bash", "zsh": "bash", "golang": "go", "kt": "kotlin", "objective-c": "objc", "ex": "elixir",
    "hs": "haskell", "ml": "ocaml", "protobuf": "proto", "terraform": "hcl", "makefile": "make", "pl": "perl",
    "md": "markdown", "restructuredtext": "rst", "tex": "latex", "yml": "yaml", "bat": "batch",
    "objectivec": "objc", "docker": "dockerfile", "jsonl": "json", "cython": "python", "pyi": "python",
}  # fmt: skip
"""Other spellings of a language's name."""


def canonical(language: str) -> str:
    """The one name of a language: lower case, aliases resolved."""
    name = language.lower()
    return ALIASES.get(name, name)


_NOT_A_TYPE = (
    r"(?!(?:return|new|else|throw|if|for|while|switch|catch|case|await|yield|do|assert|delete|goto|in|typeof|"
    r"using|lock|import|package|from|export|function|super|this|print|echo|not|and|or|elif|except|try)\b)"
)
_BODY = r"(?=[^;{}]{0,400}\{)"
_CALLABLE = (
    r"(?:async\b[ \t]*+)?(?:function\b|ID[ \t]*+=>|(?:<[^>\n]{1,80}>)?\([^;]{0,300}?\)[^;()\n]{0,80}=>)"
)
_ECMA = (
    r"(?:(?:export|default|declare|abstract|async|public|private|protected|static|readonly|override)[ \t]++)*+(?:"
    r"function\b[ \t]*+\*?[ \t]*+(?P<function>ID)"
    r"|class[ \t]++(?P<class>ID)|interface[ \t]++(?P<interface>ID)|(?:const[ \t]++)?enum[ \t]++(?P<enum>ID)"
    r"|type[ \t]++(?P<type>ID)(?=[ \t]*+[<=])|(?:namespace|module)[ \t]++(?P<module>ID)"
    r"|(?:const|let|var)[ \t]++(?P<arrow>ID)(?=[^=;\n]{0,200}=[ \t]*+" + _CALLABLE + r")"
    r"|(?:module\.)?exports\.(?P<export>ID)[ \t]*+=(?!=)"
    r"|(?:ID\.)*+(?P<member>ID)[ \t]*+=[ \t]*+" + _CALLABLE +
    r"|(?P<pair>ID)[ \t]*+:[ \t]*+" + _CALLABLE +
    r"|" + _NOT_A_TYPE + r"(?:(?:get|set)[ \t]++|\*[ \t]*+)?#?(?P<method>ID)[ \t]*+(?:<[^>\n]{0,80}>)?"
    r"\((?=[^;{}\n]{0,300}\)[ \t]*+(?::[^;{}()\n]{1,120})?\{)"
    r")"
)  # fmt: skip
_C = (
    r"(?:typedef[ \t]++)?(?:struct[ \t]++(?P<struct>ID)" + _BODY + r"|union[ \t]++(?P<union>ID)" + _BODY +
    r"|enum[ \t]++(?P<enum>ID)" + _BODY + r"|\#[ \t]*+define[ \t]++(?P<macro>ID)"
)  # fmt: skip
_C_FUNCTION = (
    r"|"
    + _NOT_A_TYPE
    + r"(?:[A-Za-z_][\w \t*&:<>,\[\]]*[ \t*&>])?(?P<function>(?:[A-Za-z_~][\w]*::)*~?[A-Za-z_]\w*+)"
    r"[ \t]*+\((?=[^;{}]{0,400}\)[^;{}()=]{0,100}\{)"
)
_MODIFIERS = (
    r"(?:(?:public|private|protected|internal|static|final|abstract|sealed|synchronized|native|default|virtual|"
    r"override|async|partial|readonly|unsafe|extern|open|data|inline|case|implicit|lazy|suspend|operator|inner|"
    r"companion|annotation|value|tailrec|infix|actual|expect|enum(?=[ \t]++class)|strictfp|transient|volatile|"
    r"fileprivate|mutating|required|convenience|indirect|weak|new(?=[ \t]++[\w<>\[\]]++[ \t]++\w)|external|late|covariant|factory|base|mixin"
    r"(?=[ \t]++class)|@\w++)[ \t]++)*+"
)
_JVM = (
    _MODIFIERS + r"(?:class[ \t]++(?P<class>ID)|interface[ \t]++(?P<interface>ID)|enum[ \t]++(?P<enum>ID)|"
    r"record[ \t]++(?P<record>ID)|@interface[ \t]++(?P<annotation>ID)|struct[ \t]++(?P<struct>ID)|"
    r"namespace[ \t]++(?P<module>[\w.]++)|mixin[ \t]++(?P<mixin>ID)|extension[ \t]++(?P<extension>ID)|"
    r"delegate[ \t]++[\w<>\[\]?]++[ \t]++(?P<type>ID)"
    r"|" + _NOT_A_TYPE + r"(?:<[^>\n]{1,80}>[ \t]++)?(?:[\w.]++(?:<[^;(){}\n]{0,120}>)?[\[\]?]*+[ \t]++)?"
    r"(?P<method>ID)[ \t]*+(?:<[^>\n]{0,80}>)?\((?=[^;{}]{0,400}\)[^;{}()=]{0,160}(?:\{|=>)))"
)

GENERIC = (
    r"(?:(?:export|public|private|static|async|pub|local)[ \t]++)*+(?:(?:def|function|func|fn|fun|sub|proc|method)"
    r"[ \t]++(?P<function>ID)|class[ \t]++(?P<class>ID)(?=[ \t]*+[({:\r\n])|"
    r"(?:struct|interface|trait|module|enum|contract)[ \t]++(?P<type>ID)(?=[ \t]*+[({:\r\n]))"
)
"""For a language without a pattern of its own."""

_RAW: Mapping[str, str] = {
    "python": r"def[ \t]++(?P<function>ID)|class[ \t]++(?P<class>ID)|async[ \t]++def[ \t]++(?P<coroutine>ID)"
    r"|(?<![ \t])(?P<variable>ID)(?=[ \t]*+(?::[^=\n]{1,200})?=(?!=))",
    "javascript": _ECMA,
    "go": r"func[ \t]++(?:\([^)\n]*+\)[ \t]*+)?(?P<function>ID)|type[ \t]++(?P<type>ID)|(?<![ \t])(?:var|const)[ \t]++(?P<constant>ID)",
    "rust": r"(?:pub(?:\([^)\n]*+\))?[ \t]++)?(?:(?:default|const|async|unsafe|extern(?:[ \t]++\"[^\"\n]*+\")?)[ \t]++)*+"
    r"(?:fn[ \t]++(?P<function>ID)|struct[ \t]++(?P<struct>ID)|enum[ \t]++(?P<enum>ID)|trait[ \t]++(?P<trait>ID)"
    r"|union[ \t]++(?P<union>ID)|type[ \t]++(?P<type>ID)|mod[ \t]++(?P<module>ID)|macro_rules![ \t]*+(?P<macro>ID)"
    r"|impl\b(?:<[^{\n]{0,120}?>)?[ \t]++(?:[^{\n]{0,160}[ \t]for[ \t]++)?(?:[\w:]*::)?&?(?P<impl>ID)"
    r"|static[ \t]++(?:mut[ \t]++)?(?P<static>ID))"
    r"|(?:pub(?:\([^)\n]*+\))?[ \t]++)?const[ \t]++(?P<constant>ID)(?=[ \t]*+:)",
    "java": _JVM,
    "kotlin": _MODIFIERS + r"(?:fun[ \t]++(?:<[^>\n]*+>[ \t]*+)?(?:[\w<>?*, ]*\.)?(?P<function>ID)(?=[ \t]*+\()"
    r"|(?:enum[ \t]++)?class[ \t]++(?P<class>ID)|(?:fun[ \t]++)?interface[ \t]++(?P<interface>ID)"
    r"|object[ \t]++(?P<object>ID)|typealias[ \t]++(?P<type>ID)|(?<![ \t])(?:const[ \t]++)?va[lr][ \t]++(?P<variable>ID))",
    "c": _C + _C_FUNCTION + r")",
    "cpp": _C + r"|(?:template[ \t]*+<[^\n]{0,160}>[ \t]*+)?class[ \t]++(?:[A-Z_]++[ \t]++)?(?P<class>ID)" + _BODY
    + r"|(?:inline[ \t]++)?namespace[ \t]++(?P<module>[\w:]++)|using[ \t]++(?P<type>ID)(?=[ \t]*+=)" + _C_FUNCTION + r")",
    "ruby": r"(?:private[ \t]++|public[ \t]++|protected[ \t]++)?def[ \t]++(?:self\.)?(?P<method>[\w]++[?!=]?|[^\s\w]++)"
    r"|class[ \t]++(?P<class>[A-Z][\w:]*+)|module[ \t]++(?P<module>[A-Z][\w:]*+)|(?P<constant>[A-Z][A-Z0-9_]++)(?=[ \t]*+=)",
    "php": r"(?:(?:public|private|protected|static|final|abstract|readonly)[ \t]++)*+(?:function[ \t]++&?(?P<function>ID)"
    r"|class[ \t]++(?P<class>ID)|interface[ \t]++(?P<interface>ID)|trait[ \t]++(?P<trait>ID)|enum[ \t]++(?P<enum>ID)"
    r"|const[ \t]++(?:ID[ \t]++)?(?P<constant>ID)(?=[ \t]*+=))",
    "scala": _MODIFIERS + r"(?:def[ \t]++(?P<function>ID)|class[ \t]++(?P<class>ID)|object[ \t]++(?P<object>ID)"
    r"|trait[ \t]++(?P<trait>ID)|type[ \t]++(?P<type>ID)|enum[ \t]++(?P<enum>ID)|given[ \t]++(?P<given>ID)"
    r"|(?<![ \t])va[lr][ \t]++(?P<variable>ID))",
    "swift": _MODIFIERS + r"(?:(?:class[ \t]++)?func[ \t]++(?P<function>ID)|class[ \t]++(?P<class>ID)|struct[ \t]++(?P<struct>ID)"
    r"|enum[ \t]++(?P<enum>ID)|protocol[ \t]++(?P<protocol>ID)|extension[ \t]++(?P<extension>[\w.]++)"
    r"|typealias[ \t]++(?P<type>ID)|actor[ \t]++(?P<actor>ID)|(?P<init>init)(?=[?!]?[ \t]*+[(<])"
    r"|(?<![ \t])(?:let|var)[ \t]++(?P<variable>ID))",
    "bash": r"function[ \t]++(?P<function>[\w:.-]++)|(?P<named>[A-Za-z_][\w:.-]*+)[ \t]*+\([ \t]*+\)"
    r"|(?<![ \t])(?:export[ \t]++|readonly[ \t]++)?(?P<variable>[A-Z_][A-Z0-9_]*+)(?==)",
    "lua": r"(?:local[ \t]++)?(?:function[ \t]++(?P<function>[\w.:]++)|(?P<named>[\w.]++)[ \t]*+=[ \t]*+function\b)",
    "elixir": r"(?:defp?|defmacrop?|defguardp?|defdelegate)[ \t]++(?P<function>[\w]++[?!]?)"
    r"|(?:defmodule|defprotocol|defimpl)[ \t]++(?P<module>[\w.]++)",
    "haskell": r"(?<![ \t])(?:(?P<function>[a-z_][\w']*+)[ \t]*+::|(?:data|newtype|type(?:[ \t]++family)?)[ \t]++(?P<type>[A-Z][\w']*+)"
    r"|class[ \t]++(?:[^\n=]{0,100}=>[ \t]*+)?(?P<class>[A-Z][\w']*+)|instance[ \t]++(?P<instance>[A-Z][\w']*+)"
    r"|module[ \t]++(?P<module>[\w.]++))",
    "ocaml": r"(?:let|and)[ \t]++(?:rec[ \t]++)?(?P<value>[a-z_][\w']*+)(?!\s*+,)|type[ \t]++(?:nonrec[ \t]++)?(?:'\w++[ \t]++|\([^)\n]*+\)[ \t]++)?(?P<type>[a-z_][\w']*+)"
    r"|module[ \t]++(?:type[ \t]++|rec[ \t]++)?(?P<module>[A-Z][\w']*+)|val[ \t]++(?P<signature>[a-z_][\w']*+)"
    r"|external[ \t]++(?P<external>[a-z_][\w']*+)|exception[ \t]++(?P<exception>[A-Z][\w']*+)|class[ \t]++(?P<class>[a-z_][\w']*+)",
    "sql": r"(?i)create[ \t]++(?:or[ \t]++replace[ \t]++)?(?:(?:temp|temporary|unique|materialized|unlogged|definer[ \t]*+=[ \t]*+\S++)[ \t]++)*+"
    r"(?:table|view|function|procedure|trigger|index|type|schema|sequence|database|role|extension|package(?:[ \t]++body)?)[ \t]++"
    r"(?:concurrently[ \t]++)?(?:if[ \t]++not[ \t]++exists[ \t]++)?(?P<table>[\w.\"`\[\]$]++)",
    "perl": r"sub[ \t]++(?P<function>[\w:]++)|package[ \t]++(?P<module>[\w:]++)",
    "r": r"(?P<function>[\w.]++)[ \t]*+(?:<-|=)[ \t]*+function\b|setClass\([\"'](?P<class>\w++)",
    "julia": r"(?:function|macro)[ \t]++(?P<function>[\w.!]++)|(?:mutable[ \t]++)?struct[ \t]++(?P<struct>\w++)"
    r"|(?:bare)?module[ \t]++(?P<module>\w++)|abstract[ \t]++type[ \t]++(?P<type>\w++)|(?<![ \t])(?P<short>[\w!]++)\([^()\n]{0,200}\)[ \t]*+=(?!=)",
    "zig": r"(?:pub[ \t]++)?(?:export[ \t]++|inline[ \t]++|extern[ \t]++)*+fn[ \t]++(?P<function>\w++)"
    r"|(?:pub[ \t]++)?(?:const|var)[ \t]++(?P<constant>\w++)(?=[^=\n]{0,100}=)|test[ \t]++\"(?P<test>[^\"\n]{1,80})",
    "erlang": r"(?<![ \t])(?P<function>[a-z]\w*+)(?=\([^\n]{0,200}(?:->|when))|-module\((?P<module>\w++)|-record\((?P<record>\w++)|-type[ \t]++(?P<type>\w++)",
    "clojure": r"\((?:def\w*+|ns)[ \t]++(?:\^\S++[ \t]++)*+(?P<definition>[^\s()\[\]]++)",
    "scheme": r"\(define(?:-\w++)*+[ \t]++\(*+(?P<definition>[^\s()\[\]]++)|\(struct[ \t]++(?P<struct>[^\s()\[\]]++)",
    "proto": r"message[ \t]++(?P<message>\w++)|service[ \t]++(?P<service>\w++)|rpc[ \t]++(?P<rpc>\w++)|enum[ \t]++(?P<enum>\w++)",
    "graphql": r"(?:extend[ \t]++)?(?:type|input|enum|interface|union|scalar)[ \t]++(?P<type>\w++)|(?:query|mutation|subscription|fragment)[ \t]++(?P<operation>\w++)|directive[ \t]++@(?P<directive>\w++)",
    "hcl": r"(?:resource|data)[ \t]++\"[^\"\n]*+\"[ \t]++\"(?P<resource>[^\"\n]++)|(?:module|variable|output|provider)[ \t]++\"(?P<block>[^\"\n]++)",
    "make": r"(?<![ \t])(?P<target>[A-Za-z0-9_./%$(){}-]++)[ \t]*+:(?![=:])|(?<![ \t])(?:export[ \t]++|override[ \t]++)?(?P<variable>[A-Za-z_]\w*+)[ \t]*+[:?+]?=",
    "cmake": r"(?i)(?:function|macro)[ \t]*+\([ \t]*+(?P<function>\w++)|(?:add_executable|add_library|add_custom_target|add_test|option|project)[ \t]*+\([ \t]*+(?P<target>[\w.:-]++)",
    "vim": r"(?:function|fun|func)!?[ \t]++(?P<function>[\w:#.<>]++)|command!?[ \t][^\n]{0,60}?[ \t](?P<command>[A-Z]\w++)",
    "powershell": r"(?i)(?:function|filter)[ \t]++(?P<function>[\w:-]++)|class[ \t]++(?P<class>\w++)|enum[ \t]++(?P<enum>\w++)",
    "solidity": r"(?:abstract[ \t]++)?(?:contract|library|interface)[ \t]++(?P<contract>ID)|function[ \t]++(?P<function>ID)|event[ \t]++(?P<event>ID)|modifier[ \t]++(?P<modifier>ID)|struct[ \t]++(?P<struct>ID)|enum[ \t]++(?P<enum>ID)|error[ \t]++(?P<error>ID)",
    "objc": _C + r"|@(?:interface|implementation|protocol)[ \t]++(?P<class>ID)|[-+][ \t]*+\([^)\n]{1,80}\)[ \t]*+(?P<method>ID)" + _C_FUNCTION + r")",
    "fortran": r"(?i)(?:(?:pure|elemental|recursive|integer|real|logical|character|type)\b(?:[ \t]*+\([^)\n]{0,60}\))?[ \t]++)*+(?:(?:subroutine|function)[ \t]++(?P<function>\w++)|(?:module|program|submodule)[ \t]++(?P<module>\w++))",
    "css": r"(?P<selector>[.#@]?[A-Za-z_:][\w:.#>\-]*+)(?=[^;{}\n]{0,160}\{)",
    "html": r"<h[1-6][^>\n]{0,120}>(?P<heading>[^<\n]{1,120})|<title>(?P<title>[^<\n]{1,120})",
    "dockerfile": r"(?i)from[ \t]++(?P<stage>\S++)(?:[ \t]++as[ \t]++(?P<named>\S++))?",
    "just": r"(?<![ \t])@?(?P<recipe>[A-Za-z_][\w-]*+)(?=[^:=\n]{0,100}:(?!=))",
    "nix": r"(?P<attribute>[A-Za-z_][\w.-]*+)(?=[ \t]*+=(?!=))",
}  # fmt: skip

_SAME: Mapping[str, str] = {
    "typescript": "javascript", "tsx": "javascript", "vue": "javascript", "svelte": "javascript",
    "astro": "javascript", "csharp": "java", "groovy": "java", "dart": "java", "starlark": "python",
    "racket": "scheme", "scss": "css", "less": "css", "xml": "html", "php_only": "php", "cuda": "cpp",
}  # fmt: skip

DEFINITIONS: Mapping[str, str] = {
    name: pattern.replace("ID", _ID)
    for name, pattern in {**_RAW, **{name: _RAW[like] for name, like in _SAME.items()}}.items()
}
GENERIC = GENERIC.replace("ID", _ID)

KINDS: Mapping[str, str] = {
    "arrow": "function", "coroutine": "function", "named": "function", "short": "function", "member": "method", "pair": "method", "export": "constant",
    "init": "method", "static": "constant", "signature": "value", "external": "function", "stage": "module",
    "rpc": "method", "block": "resource", "title": "heading", "variable": "constant", "attribute": "constant",
}  # fmt: skip
"""Group names that stand for another kind."""

IMPORT_REGION = (
    r"\n(?:import\b|from[ \t]+\S+[ \t]+import\b|use[ \t]|using[ \t]|\#[ \t]*include\b|require(?:_relative)?\b|"
    r"package[ \t]|extern[ \t]+crate\b|library\(|open[ \t]+[A-Z]|alias[ \t]|@import\b|part[ \t]|export[ \t]+\*|"
    r"export[ \t]+\{|(?:const|let|var)[ \t]+[^=\n]{1,200}=[ \t]*require\()"
)
"""A line, after a line end, that belongs to a file's import region in some language."""

_IMPORTS: Mapping[str, str] = {
    "python": r"^[ \t]*from[ \t]+([.\w]+)[ \t]+import\b|^[ \t]*import[ \t]+([\w., \t]+)",
    "javascript": r"\bfrom[ \t]*[\"']([^\"'\n]+)[\"']|^[ \t]*import[ \t]*[\"']([^\"'\n]+)[\"']|\b(?:require|import)\([ \t]*[\"']([^\"'\n]+)[\"']",
    "go": r"^[ \t]*(?:import[ \t]+)?(?:[\w.]+[ \t]+)?\"([\w./~-]+)\"[ \t]*(?://[^\n]*)?\r?$",
    "rust": r"^[ \t]*(?:pub(?:\([^)\n]*\))?[ \t]+)?use[ \t]+([\w:]+)|^[ \t]*(?:pub[ \t]+)?mod[ \t]+(\w+)[ \t]*;|^[ \t]*extern[ \t]+crate[ \t]+(\w+)",
    "java": r"^[ \t]*import[ \t]+(?:static[ \t]+)?([\w.*]+)",
    "kotlin": r"^[ \t]*import[ \t]+([\w.*`]+)",
    "scala": r"^[ \t]*import[ \t]+([\w.]+)",
    "groovy": r"^[ \t]*import[ \t]+(?:static[ \t]+)?([\w.*]+)",
    "csharp": r"^[ \t]*(?:global[ \t]+)?using[ \t]+(?:static[ \t]+)?(?:\w+[ \t]*=[ \t]*)?([\w.]+)[ \t]*;",
    "swift": r"^[ \t]*(?:@\w+[ \t]+)?import[ \t]+(?:(?:class|struct|func|enum|protocol)[ \t]+)?([\w.]+)",
    "dart": r"^[ \t]*(?:import|export|part)[ \t]+[\"']([^\"'\n]+)[\"']",
    "c": r"^[ \t]*\#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]",
    "objc": r"^[ \t]*\#[ \t]*(?:include|import)[ \t]*[<\"]([^>\"\n]+)[>\"]|^[ \t]*@import[ \t]+([\w.]+)",
    "ruby": r"^[ \t]*(?:require|require_relative|load)[ \t(]+[\"']([^\"'\n]+)[\"']",
    "php": r"^[ \t]*use[ \t]+(?:function[ \t]+|const[ \t]+)?([\w\\]+)|\b(?:require|include)(?:_once)?[ \t(]+[\"']([^\"'\n]+)[\"']",
    "bash": r"^[ \t]*(?:source|\.)[ \t]+[\"']?([^\s\"';]+)",
    "lua": r"\brequire[ \t(]*[\"']([^\"'\n]+)[\"']",
    "elixir": r"^[ \t]*(?:alias|import|use|require)[ \t]+([A-Z][\w.]*)",
    "haskell": r"^import[ \t]+(?:qualified[ \t]+)?([A-Z][\w.]*)",
    "ocaml": r"^[ \t]*(?:open|include)!?[ \t]+([A-Z][\w.]*)",
    "perl": r"^[ \t]*(?:use|require)[ \t]+([A-Z][\w:]*)",
    "r": r"\b(?:library|require)\([ \t]*[\"']?([\w.]+)",
    "julia": r"^[ \t]*(?:using|import)[ \t]+([\w., \t]+)",
    "zig": r"@import\(\"([^\"\n]+)\"\)",
    "erlang": r"^-(?:include|include_lib)\(\"([^\"\n]+)\"|^-import\((\w+)",
    "proto": r"^[ \t]*import[ \t]+(?:public[ \t]+|weak[ \t]+)?\"([^\"\n]+)\"",
    "solidity": r"^[ \t]*import[ \t]+(?:[^\"'\n;]{0,200}?from[ \t]+)?[\"']([^\"'\n]+)[\"']",
    "css": r"@(?:import|use|forward)[ \t]+(?:url\()?[\"']([^\"'\n]+)[\"']",
    "cmake": r"(?:^|\b)(?:include|find_package|add_subdirectory)\([ \t]*([\w./-]+)",
    "make": r"^-?include[ \t]+(\S+)",
    "powershell": r"(?i)^[ \t]*(?:Import-Module|using[ \t]+module)[ \t]+([\w./\\-]+)",
    "clojure": r"[\[(]([a-z][\w.-]*\.[\w.-]+)[ \t]+:(?:as|refer)\b",
}  # fmt: skip

_IMPORTS_LIKE: Mapping[str, str] = {"cpp": "c", **_SAME}

IMPORTS: Mapping[str, str] = {
    **{name: _IMPORTS[like] for name, like in _IMPORTS_LIKE.items() if like in _IMPORTS},
    **_IMPORTS,
}
"""What a file imports, by language. Every group that took part is a target."""
