"""What a log says: timestamps, severity, templates, traces, phases, the root failure.

Nothing is imported here: most requests hold no log.
"""
