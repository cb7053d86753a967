"""The eval harness: golden sets, rungs, metrics, report."""
