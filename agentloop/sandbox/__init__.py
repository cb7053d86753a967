"""Commands of the caller, shut off from network, files and other processes."""

from agentloop.sandbox.run import OUTPUT_BYTES, Ran, SandboxError, run_commands

__all__ = ["OUTPUT_BYTES", "Ran", "SandboxError", "run_commands"]
