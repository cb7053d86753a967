"""Earlier versions of files as sources: read as git objects, cited with the commit that holds them."""

from __future__ import annotations

from hashlib import sha256

from agentloop.sources.classify import classify, guess
from agentloop.sources.git import FileChange, open_store
from agentloop.types import Corpus, Memory, SourceFile

MAX_BYTES = 1_000_000  # as the history's own limit of what is compared line by line


class OldVersions:
    """The versions that drafts cite, numbered behind the files of the corpus."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._found: dict[tuple[str, str, str], SourceFile | None] = {}

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """All that were read, in the order of their numbers."""
        return tuple(file for file in self._found.values() if file is not None)

    def version(self, input_id: str, commit: str, change: FileChange) -> SourceFile | None:
        """The file before a change, as `commit` has it; None where it can't be read or is no text."""
        key = (input_id, commit, change.path)
        if key not in self._found:
            data = self._blob(input_id, change.old)
            self._found[key] = self._file(input_id, commit, change.path, data) if data else None
        return self._found[key]

    def _blob(self, input_id: str, oid: str) -> bytes:
        root = next(info.root for info in self._corpus.inputs if info.input_id == input_id)
        with open_store(root) as store:
            if isinstance(store, str) or not oid:
                return b""
            try:
                return store.blob(oid, MAX_BYTES)
            except (KeyError, ValueError):
                return b""

    def _file(self, input_id: str, commit: str, path: str, data: bytes) -> SourceFile | None:
        folder, _, name = path.rpartition("/")
        found = classify(guess(folder, name), data)
        if found.binary:
            return None
        info = next(info for info in self._corpus.inputs if info.input_id == input_id)
        now = next((f for f in self._corpus.files if f.input_id == input_id and f.path == path), None)
        return SourceFile(
            index=len(self._corpus.files) + len(self.files),
            input_id=input_id,
            path=path,
            kind=found.kind,
            language=found.language,
            mime=found.mime,
            size=len(data),
            content_hash="sha256:" + sha256(data).hexdigest(),
            classification=info.classification if now is None else now.classification,
            content=Memory(data),
            traits=found.traits,
            commit=commit,
            historic=True,
        )
