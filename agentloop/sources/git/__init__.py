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
from agentloop.sources.git.recent import UNCOMMITTED, RecentChanges, recent_changes
from agentloop.sources.git.touched import Touched, touched_lines

__all__ = [
    "UNCOMMITTED",
    "CommitChange",
    "FileChange",
    "History",
    "HistoryLimits",
    "Hunk",
    "RecentChanges",
    "Touched",
    "blob_at",
    "history",
    "open_store",
    "recent_changes",
    "touched_lines",
]
