"""What a log says: timestamps, severity, templates, traces, phases, the root failure."""
