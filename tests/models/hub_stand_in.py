"""A hub on this machine: the list, the details and the files of models made up here; it can cut, lie and refuse."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "c0ffee" * 6 + "c0ff"


def blob_of(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class HubStandIn:
    """Models by id, each with its files. `cuts`: bytes after which a file's transfer is hung up, once for each entry.
    `statuses`: codes for the next answers whose path holds the key. `answers`: bodies in place of JSON, by path.
    `hold`: while it is set, files trickle; `lies`: paths whose last byte is another than the hub says."""

    def __init__(self) -> None:
        self.models: dict[str, dict[str, bytes]] = {}
        self.about: dict[str, dict[str, Any]] = {}
        self.cuts: list[int] = []
        self.statuses: dict[str, int] = {}
        self.answers: dict[str, bytes] = {}
        self.lies: set[str] = set()
        self.hold = threading.Event()
        self.moved_to = ""  # another server that the files lie on
        self.asked: list[tuple[str, dict[str, list[str]], dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None: ...  # a client that hangs up is what is tested

        self.http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.hold.clear()
        self.http.shutdown()
        self.http.server_close()

    def add(self, repo: str, files: dict[str, bytes], **about: Any) -> None:
        self.models[repo], self.about[repo] = files, about

    def paths(self) -> list[str]:
        return [path for path, *_ in self.asked]

    # ------------------------------------------------------------------------------------------- answering

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        parts = urllib.parse.urlsplit(request.path)
        path = urllib.parse.unquote(parts.path)
        self.asked.append((path, urllib.parse.parse_qs(parts.query), dict(request.headers)))
        for key, code in list(self.statuses.items()):
            if key in path:
                request.send_response(code)
                request.send_header("Retry-After", "7")
                request.send_header("Content-Length", "0")
                request.end_headers()
                return
        if path in self.answers:
            self.send(request, self.answers[path])
        elif path == "/api/models":
            self.send(request, json.dumps(self.listed(self.asked[-1][1])).encode())
        elif path.startswith("/api/models/") and (repo := path.removeprefix("/api/models/")) in self.models:
            self.send(request, json.dumps(self.entry(repo, blobs=True)).encode())
        elif "/resolve/" in path:
            self.file(request, path)
        else:
            request.send_error(404)

    def listed(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        words = query.get("search", [""])[0].lower().split()
        wanted = query.get("filter", [])
        found = [r for r in self.models if all(w in r.lower() for w in words)]
        entries = [self.entry(r) for r in found]
        return [e for e in entries if all(w in e["tags"] for w in wanted)][: int(query.get("limit", ["100"])[0])]

    def entry(self, repo: str, blobs: bool = False) -> dict[str, Any]:
        siblings: list[dict[str, Any]] = []
        for name, data in self.models[repo].items():
            one: dict[str, Any] = {"rfilename": name}
            if blobs:
                one |= {"size": len(data), "blobId": blob_of(data)}
                if name.endswith((".safetensors", ".gguf")):
                    one["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            siblings.append(one)
        return {"id": repo, "sha": COMMIT, "tags": [], "siblings": siblings, **self.about[repo]}

    def file(self, request: BaseHTTPRequestHandler, path: str) -> None:
        repo, _, rest = path[1:].partition("/resolve/")
        name = rest.partition("/")[2]
        data = self.models.get(repo, {}).get(name)
        if data is None:
            request.send_error(404)
            return
        if self.moved_to and not name.endswith("config.json"):
            request.send_response(302)
            request.send_header("Location", self.moved_to + urllib.parse.quote(path))
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        if name in self.lies:
            data = data[:-1] + bytes([data[-1] ^ 1])
        start = int((request.headers.get("Range") or "bytes=0-")[6:].rstrip("-"))
        if start >= len(data):
            request.send_error(416)
            return
        request.send_response(206 if request.headers.get("Range") else 200)
        request.send_header("Content-Length", str(len(data) - start))
        request.end_headers()
        end = start + self.cuts.pop(0) if self.cuts and len(data) > 10_000 else len(data)
        while start < end:
            if self.hold.is_set():
                request.wfile.write(data[start : start + 1000])
                start += 1000
                time.sleep(0.01)
            else:
                request.wfile.write(data[start:end])
                return

    def send(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


def model_files(weights: bytes = bytes(range(256)) * 400, **config: Any) -> dict[str, bytes]:
    """A small model folder: real enough for everything that reads headers."""
    import struct

    head = json.dumps({"w": {"dtype": "U8", "shape": [len(weights)], "data_offsets": [0, len(weights)]}}).encode()
    settings = {
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 4,
        "hidden_size": 8,
        "intermediate_size": 16,
        "vocab_size": 3,
        "max_position_embeddings": 2048,
        "quantization": {"bits": 4, "group_size": 64},
        **config,
    }
    tokenizer = {"model": {"vocab": {"a": 0, "b": 1, "c": 2}}, "added_tokens": []}
    return {
        "README.md": b"# A model",
        "config.json": json.dumps(settings).encode(),
        "model.safetensors": struct.pack("<Q", len(head)) + head + weights,
        "tokenizer.json": json.dumps(tokenizer).encode(),
        "modeling.py": b"raise SystemExit",
    }


def mlx_about(numbers: int = 1000, **about: Any) -> dict[str, Any]:
    """What the hub says of a model in MLX's form."""
    return {
        "tags": ["mlx", "safetensors", "qwen3", "4-bit", "license:apache-2.0"],
        "downloads": 1234,
        "likes": 5,
        "gated": False,
        "lastModified": "2026-05-04T03:02:01.000Z",
        "safetensors": {"parameters": {"U32": numbers, "BF16": 10}, "total": numbers + 10},
        **about,
    }


def wait_for(done: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait until `done`; AssertionError where it does not come."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
