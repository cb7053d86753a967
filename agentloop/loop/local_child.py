"""The child of `local_server`: serves one GGUF until its parent goes away.

Usage: python -m agentloop.loop.local_child GGUF CONTEXT_TOKENS THREADS, the key as a line on stdin.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> int:
    """Start the server, print `{"port": N}`, and wait until stdin closes: the parent is gone then."""
    gguf, context, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    key = sys.stdin.readline().strip()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # llama.cpp logs to stdout
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.n_ctx = context
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.sampling.seed = 0
    params.verbosity = -1
    server = xllamacpp.Server(params)
    port = int(str(server.listening_address).rpartition(":")[2].strip("/"))
    out.write(json.dumps({"port": port}) + "\n")
    out.flush()
    sys.stdin.read()
    os._exit(0)  # llama.cpp's threads may hold a normal exit up


if __name__ == "__main__":
    raise SystemExit(main())
