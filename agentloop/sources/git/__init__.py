"""What git recorded, read from its files and objects: no git process, no configuration obeyed."""

from agentloop.sources.git.diff import FileChange, Hunk
from agentloop.sources.git.history import (
    CommitChange,
    History,
    HistoryLimits,
    blob_at,
    history,
    open_store,
)
from agentloop.sources.git.touched import Touched, touched_lines

__all__ = [
    "CommitChange",
    "FileChange",
    "History",
    "HistoryLimits",
    "Hunk",
    "Touched",
    "blob_at",
    "history",
    "open_store",
    "touched_lines",
]
