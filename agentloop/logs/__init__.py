"""What a log says: timestamps, severity, templates, traces, phases, the root failure."""

from agentloop.logs.analysis import LogAnalysis, analyse
from agentloop.logs.drafts import log_drafts
from agentloop.logs.segment import segment

__all__ = ["LogAnalysis", "analyse", "log_drafts", "segment"]
