"""The child of `local_server`: serves one model until its parent goes away.

Usage: python -P local_child.py, with one line of JSON on stdin: the settings of a model to
serve with xllamacpp in this process (`runtimes.child_settings`), or `argv` and `env` of a server to start.
It leads its process group, and ends all of it when stdin closes: the parent is gone then.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

STOP_SECONDS = 5.0
KEPT_OUTPUT = 4000  # bytes of what a server said last


def main() -> int:
    """Start the server, say where it listens or how it ended, and wait until stdin closes."""
    settings = json.loads(sys.stdin.readline())
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # llama.cpp logs to stdout
    if "argv" in settings:
        return _keep(settings, out)
    port = _serve(settings)
    _say(out, port=port)
    sys.stdin.read()
    os._exit(0)  # llama.cpp's threads may hold a normal exit up


def _say(out: Any, **facts: object) -> None:
    out.write(json.dumps(facts) + "\n")
    out.flush()


def _keep(settings: dict[str, Any], out: Any) -> int:
    """Run a server's own program beside us, and end it with our parent."""
    try:
        server = subprocess.Popen(
            settings["argv"],
            env={**os.environ, **settings["env"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as exc:
        _say(out, failed=f"{settings['argv'][0]} can't be started: {exc.strerror}")
        return 1
    _say(out, started=server.pid)
    said = bytearray()
    threading.Thread(target=_listen, args=(server, said, out), daemon=True).start()
    sys.stdin.read()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(0, signal.SIGKILL)
    return 0


def _listen(server: subprocess.Popen[bytes], said: bytearray, out: Any) -> None:
    """Keep the end of what the server says, and tell it when the server ends by itself."""
    if server.stdout is None:
        raise AssertionError("the server was started with a pipe")
    while block := os.read(server.stdout.fileno(), 65536):
        said += block
        del said[:-KEPT_OUTPUT]
    lines = said.decode("utf-8", "replace").strip().splitlines()
    _say(out, ended=server.wait(), said=lines[-1][-300:] if lines else "")


def _serve(settings: dict[str, Any]) -> int:
    """Serve with xllamacpp in this process; gives the port."""
    import xllamacpp

    flash = {"auto": "AUTO", "on": "ENABLED", "off": "DISABLED"}[settings["flash_attention"]]
    params = xllamacpp.CommonParams()
    params.model.path = settings["gguf"]
    params.model_alias = {settings["model"]}
    params.hostnames = [settings["host"]]
    params.port = settings["port"]
    params.api_keys = [settings["key"]]
    params.n_ctx = settings["context"]
    params.n_parallel = settings["parallel"]
    params.n_gpu_layers = settings["gpu_layers"]
    params.flash_attn_type = getattr(xllamacpp.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{flash}")
    params.cache_type_k = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{settings['cache_type_k'].upper()}")
    params.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{settings['cache_type_v'].upper()}")
    # half of the cores: llama.cpp's threads spin, and a busy machine starves them all
    params.cpuparams.n_threads = max(1, (os.cpu_count() or 2) // 2)
    params.sampling.seed = 0
    params.verbosity = -1
    server = xllamacpp.Server(params)
    _KEPT.append(server)
    return int(str(server.listening_address).rpartition(":")[2].strip("/"))


_KEPT: list[object] = []  # a server that nothing refers to stops


if __name__ == "__main__":
    raise SystemExit(main())
