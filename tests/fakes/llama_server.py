"""A stand-in for llama.cpp's `llama-server`: the same arguments, 503 while it loads, one scripted answer.

Usage: python llama_server.py --model FILE --alias NAME --host HOST --port PORT ..., the key in LLAMA_API_KEY.
The model file is a JSON object, or a GGUF with such a file `.json` beside it: `load_seconds`, `alias`
(another name than asked for), `die` (a last word), `log` (a file that gets a line a start).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve()


def program(folder: Path) -> Path:
    """An executable `llama-server` in a folder."""
    path = folder / "llama-server"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{SCRIPT}" "$@"\n')
    path.chmod(0o755)
    return path


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--model", "--alias", "--host", "--ctx-size", "--parallel", "--n-gpu-layers"):
        parser.add_argument(name, required=True)
    for name in ("--flash-attn", "--cache-type-k", "--cache-type-v"):
        parser.add_argument(name)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--jinja", action="store_true")
    args = parser.parse_args()
    model = Path(args.model)
    with model.open("rb") as file:
        real = file.read(4) == b"GGUF"
    script = json.loads((model.with_name(model.name + ".json") if real else model).read_text())
    key = os.environ["LLAMA_API_KEY"]
    assert not any(key in word for word in sys.argv)
    if "log" in script:
        with open(script["log"], "a", encoding="utf-8") as log:
            log.write(" ".join(sys.argv[1:]) + "\n")
    if "die" in script:
        sys.exit(script["die"])
    ready = time.monotonic() + script.get("load_seconds", 0)
    served = script.get("alias", args.alias)

    class Handler(BaseHTTPRequestHandler):
        def _send(self, status: int, value: dict[str, Any]) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _refused(self) -> bool:
            if time.monotonic() < ready:
                self._send(503, {"error": {"message": "Loading model"}})
            elif self.headers.get("Authorization") != f"Bearer {key}":
                self._send(401, {"error": {"message": "Invalid API Key"}})
            else:
                return False
            return True

        def do_GET(self) -> None:
            if not self._refused():
                self._send(200, {"object": "list", "data": [{"id": served}]})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if self._refused():
                return
            content = json.dumps({"action": "answer", "claims": [], "answer": []})
            message = {"role": "assistant", "content": content}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
            self._send(200, {"id": "x", "model": served, "choices": [choice], "usage": usage})

        def log_message(self, *args: Any) -> None:
            return

    ThreadingHTTPServer((args.host, args.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
