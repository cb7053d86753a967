"""`inspect_repo`: subsystems, entry points, calls, dependency edges, risks, and docs that disagree."""
