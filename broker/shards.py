"""How a broad request is split: shards of inputs, large folders cut into parts by their paths.

A part is a range of paths, so the parts of a folder hold whatever it holds when its shards run, and
nothing is in two of them. Files that lie together stay together.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Any

from agentloop.config import Caps, InputPart
from agentloop.request import CompressRequest, InputRef, InputRole, InputType, TaskType
from agentloop.sources.classify import guess
from agentloop.sources.git.meta import find_bare
from agentloop.sources.opening import Refused, open_dir, open_parent
from agentloop.sources.walk import Walk
from agentloop.types import FileKind
from broker.config import Settings

SIZE_SECONDS = 600.0  # how long a folder's size is believed; it decides whether to split, never what is read
SIZES_KEPT = 1000
WHOLE_TASKS = frozenset({TaskType.DEBUG, TaskType.PROPOSE_PATCH})
"""Tasks that follow a failure from a log through the code: a folder of theirs is not cut."""

Shard = tuple[InputPart, ...]
"""What one child job reads. A piece without bounds is a whole input."""


@dataclass(frozen=True, slots=True)
class Weight:
    """What an input asks of a worker."""

    files: int
    bytes: int

    def __add__(self, other: Weight) -> Weight:
        return Weight(self.files + other.files, self.bytes + other.bytes)


NO_WEIGHT = Weight(0, 0)


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """The most that one shard gets."""

    inputs: int
    files: int
    bytes: int

    @classmethod
    def of(cls, settings: Settings) -> ShardLimits:
        """The limits that the settings give."""
        return cls(settings.shard_inputs, settings.shard_files, settings.shard_mb << 20)

    def share(self, weight: Weight) -> float:
        """How much of a shard a weight fills; more than 1: it doesn't fit."""
        return max(weight.files / self.files, weight.bytes / self.bytes)


@dataclass(slots=True)
class Sizes:
    """Weights of inputs, as far as they matter, remembered for a while: a submit doesn't walk each time."""

    limits: ShardLimits
    _known: dict[str, tuple[float, Weight]] = field(default_factory=dict)

    def of(self, path: str) -> Weight:
        """The weight of a file or folder; a folder above the limits is looked at no further."""
        found = self._known.get(path)
        if found is not None and time.monotonic() - found[0] < SIZE_SECONDS:
            return found[1]
        weight = self._measure(path)
        if len(self._known) >= SIZES_KEPT:
            self._known.clear()
        self._known[path] = (time.monotonic(), weight)
        return weight

    def known(self, path: str) -> bool:
        """Whether `of` answers without a walk."""
        found = self._known.get(path)
        fresh = found is not None and time.monotonic() - found[0] < SIZE_SECONDS
        return fresh or not os.path.isdir(path)

    def _measure(self, path: str) -> Weight:
        try:
            if not os.path.isdir(path):
                return Weight(1, os.path.getsize(path))
        except OSError:
            return NO_WEIGHT
        files = total = 0
        for folder, below, names in os.walk(path):
            below[:] = [name for name in below if name != ".git"]
            for name in names:
                files += 1
                try:
                    total += os.lstat(os.path.join(folder, name)).st_size
                except OSError:
                    continue
            if self.limits.share(Weight(files, total)) > 1:
                break
        return Weight(files, total)

    def broad(self, request: CompressRequest) -> bool:
        """Whether a request is split. One with a baseline is not: all of it is compared with that."""
        refs = request.input_refs
        if any(ref.role is InputRole.BASELINE for ref in refs):
            return False
        if len(refs) > self.limits.inputs:
            return True
        if len(refs) == 1 and not _may_cut(request, refs[0]):
            return False
        whole = NO_WEIGHT
        for ref in refs:
            whole += self.of(ref.uri)
            if self.limits.share(whole) > 1:
                return True
        return False


def _may_cut(request: CompressRequest, ref: InputRef) -> bool:
    return (
        request.task_type not in WHOLE_TASKS and ref.type is not InputType.ARTIFACT and os.path.isdir(ref.uri)
    )


def plan_shards(
    request: CompressRequest, limits: ShardLimits, caps: Caps, roots: Sequence[str]
) -> list[Shard]:
    """The shards of a broad request, inputs in order; a folder that no shard holds is cut into like parts.

    What git ignores doesn't count. `roots` are the folders whose own links may be followed.
    """
    shards: list[list[InputPart]] = []
    weight = NO_WEIGHT
    for number, ref in enumerate(request.input_refs):
        files = list(_files_of(ref.uri, caps, roots)) if _may_cut(request, ref) else []
        mine = _sum(files) if files else Sizes(limits).of(ref.uri)
        if files and limits.share(mine) > 1:
            shards += [[part] for part in _cut(number, files, limits)]
            weight = Weight(limits.files, limits.bytes)  # nothing joins a part of a folder
            continue
        if not shards or len(shards[-1]) >= limits.inputs or limits.share(weight + mine) > 1:
            shards.append([])
            weight = NO_WEIGHT
        shards[-1].append(InputPart(number))
        weight += mine
    return [tuple(shard) for shard in shards]


def _sum(files: Iterable[tuple[str, int]]) -> Weight:
    sizes = [size for _, size in files]
    return Weight(len(sizes), sum(sizes))


def _cut(number: int, files: Sequence[tuple[str, int]], limits: ShardLimits) -> list[InputPart]:
    """Parts of like weight, each within the limits, as far as single files allow."""
    whole = limits.share(_sum(files))
    target = whole / ceil(whole)
    bounds: list[str] = []
    weight = NO_WEIGHT
    for path, size in files:
        more = weight + Weight(1, size)
        if weight.files and limits.share(more) > target:
            bounds.append(path)
            more = Weight(1, size)
        weight = more
    return [
        InputPart(number, first, before) for first, before in zip(["", *bounds], [*bounds, ""], strict=True)
    ]


def _files_of(path: str, caps: Caps, roots: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Paths and sizes of the files that discovery would read, in its order; none of a bare repository."""
    try:
        fd = _open_folder(path, roots)
    except (Refused, OSError):
        return
    try:
        if find_bare(fd):
            return
        walk = Walk(path, fd, caps.max_depth, caps.max_entries, lambda *_: None)
        for found in walk.files():
            try:
                size = os.stat(found.name, dir_fd=found.dir_fd, follow_symlinks=False).st_size
            except OSError:
                continue
            kind = guess(found.folder, found.name)
            if not kind.binary:
                yield found.path, size if kind.kind is FileKind.LOG else min(size, caps.max_file_bytes)
    finally:
        os.close(fd)


def _open_folder(path: str, roots: Sequence[str]) -> int:
    """A descriptor of a folder, no link followed but those of a root itself."""
    for root in roots:
        real = os.path.realpath(root)
        if path == real:
            return os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if path.startswith(real.rstrip("/") + "/"):
            parent = open_parent(path, real)
            try:
                return open_dir(os.path.basename(path), parent)
            finally:
                os.close(parent)
    raise FileNotFoundError(path)


def to_json(shards: Sequence[Shard]) -> list[list[dict[str, Any]]]:
    """Shards as `plan.shards` of a root job holds them."""
    return [[asdict(part) for part in shard] for shard in shards]


def from_json(value: Sequence[Sequence[Any]]) -> list[Shard]:
    """Shards of a root's plan; a database of an earlier release has bare numbers of inputs."""
    return [
        tuple(InputPart(part) if isinstance(part, int) else InputPart(**part) for part in shard)
        for shard in value
    ]


def child_request(request: Mapping[str, Any], shard: Shard) -> dict[str, Any]:
    """The request of a shard. A part has another hash than its folder, which the reducer compares."""
    refs = []
    for part in shard:
        ref = dict(request["input_refs"][part.input])
        if part.first or part.before:
            ref.pop("content_hash", None)
        refs.append(ref)
    return {**{k: v for k, v in request.items() if k != "idempotency_key"}, "input_refs": refs}


def child_parts(shard: Shard) -> tuple[InputPart, ...]:
    """The cut folders of a shard, numbered as its own request has them."""
    return tuple(
        replace(part, input=number) for number, part in enumerate(shard) if part.first or part.before
    )
