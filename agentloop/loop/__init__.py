"""The bounded tool loop and its brains."""

from agentloop.loop.claims import ModelClaim
from agentloop.loop.explore import LoopResult, explore
from agentloop.loop.messages import ChatModel

__all__ = ["ChatModel", "LoopResult", "ModelClaim", "explore"]
