"""Claims that are true or false of a passage, to measure `agentloop.loop.support`."""
