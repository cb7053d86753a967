"""A corpus after an edit: the same folders and names, a few files with other content.

What `discover` would find again is not looked for again: only the edited files are opened and read. Whatever
is out of the ordinary (a link, an archive, records, a file that is binary now) is left to `discover`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentloop.config import Caps, Policy
from agentloop.request import Classification, CompressRequest, InputRef
from agentloop.sources.discover import target_of, try_dir
from agentloop.sources.ignore import IGNORE_FILES
from agentloop.sources.labels import make_labels
from agentloop.sources.manifest import corpus_hash
from agentloop.sources.opening import Refused, open_dir, open_parent
from agentloop.sources.reader import Allowance, LaterError, Reader
from agentloop.types import Corpus, FileKind, InputInfo, SourceFile


def renewed(
    corpus: Corpus, edited: Mapping[str, Sequence[str]], request: CompressRequest, caps: Caps, policy: Policy
) -> Corpus | None:
    """The corpus with the edited files read again; None where that is not certainly what discovery gives.

    Args:
        edited: paths of files by input id. Every other file, and every name, must be as it was.
    """
    files, inputs = list(corpus.files), list(corpus.inputs)
    at = {(file.input_id, file.path): number for number, file in enumerate(files)}
    for number, ref in enumerate(request.input_refs):
        info, paths = inputs[number], edited.get(f"in{number + 1}", ())
        if not paths:
            continue
        found = _read(ref, info, paths, caps, policy) if info.is_dir else None
        if found is None:
            return None
        for file in found:
            place = at.get((file.input_id, file.path))
            if place is None or not (_plain(files[place]) and _plain(file)):
                return None
            files[place] = replace(file, index=place)
        inputs[number] = _told(info, ref, [f for f in files if f.input_id == info.input_id], policy)
    if sum(file.size for file in files) > caps.max_total_bytes:
        return None
    return replace(corpus, inputs=tuple(inputs), files=tuple(files))


def _plain(file: SourceFile) -> bool:
    return file.derived is None and file.archive is None and file.kind is not FileKind.RECORDS


def _read(
    ref: InputRef, info: InputInfo, paths: Sequence[str], caps: Caps, policy: Policy
) -> list[SourceFile] | None:
    """The files at some paths of a folder; None where one is not a plain file with content."""
    where = target_of(ref, info.input_id, policy)
    if where is None or any(path.rpartition("/")[2] in IGNORE_FILES for path in paths):
        return None
    path, trusted = where
    labels = make_labels(ref.classification or policy.default_classification, policy.classification_rules)
    allowance = Allowance(len(paths), caps.max_total_bytes, 0)
    reader = Reader(info.input_id, ref.type, path, caps, labels, allowance)
    try:
        parent = open_parent(path, trusted)
    except Refused:
        return None
    try:
        root = try_dir(path, os.path.basename(path), parent, trusted)
    finally:
        os.close(parent)
    if root is None:
        return None
    try:
        found = [_one(root, place, reader) for place in paths]
    except (Refused, LaterError):
        return None
    finally:
        os.close(root)
    return None if reader.notes or reader.members_left else [file for files in found for file in files]


def _one(root: int, path: str, reader: Reader) -> list[SourceFile]:
    """A file below an open folder, every folder on the way opened without following links."""
    folder, _, name = path.rpartition("/")
    fd = os.dup(root)
    try:
        for part in folder.split("/") if folder else []:
            below = open_dir(part, fd)
            os.close(fd)
            fd = below
        return reader.read_all(folder, name, fd)
    finally:
        os.close(fd)


def _told(info: InputInfo, ref: InputRef, files: Sequence[SourceFile], policy: Policy) -> InputInfo:
    """What is told of a folder whose files these are."""
    least = ref.classification or policy.default_classification
    levels: set[Classification] = {least, *(file.classification for file in files)}
    return replace(
        info, content_hash=corpus_hash(files), classification=max(levels, key=lambda level: level.rank)
    )
