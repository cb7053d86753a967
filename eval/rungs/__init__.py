"""The rungs of the ladder: plain baselines, and the engine through its public API."""
