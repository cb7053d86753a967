"""Archives with several members (zip, tar): each member is a file of its own, read where it lies."""

from agentloop.sources.archives.members import Entry, archive_kind, entries, may_be_archive, member_bytes
from agentloop.sources.archives.reading import Opened, Room, member_text, read_archive

__all__ = [
    "Entry",
    "Opened",
    "Room",
    "archive_kind",
    "entries",
    "may_be_archive",
    "member_bytes",
    "member_text",
    "read_archive",
]
