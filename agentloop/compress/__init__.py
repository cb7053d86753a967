"""Stage 7: claims from ranked candidates, and the pack that carries them."""

from agentloop.compress.build import BuiltPack, Details, EvidenceId, build_pack
from agentloop.compress.claims import draft_claims

__all__ = ["BuiltPack", "Details", "EvidenceId", "build_pack", "draft_claims"]
