"""Carrying out a `Plan`: its files into the hub's own cache, each whole and checked or not there.

The cache's layout is the hub client's (blobs by their hash, a snapshot of links for each commit), so other programs
find what was fetched here and the other way round. Files come resumably; each is compared with the hash that the hub
names, large ones by SHA-256, small ones by git's. The snapshot appears when all of them are there.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlx_spec.events import Problem

from . import hub
from .download import BLOCK, Progress, Refused, disk_full, stream
from .repo import Plan, RepoFile

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # a disk that knows none, such as exFAT
SPARE = 256 << 20  # bytes of the disk that stay free


def cache_dir() -> Path:
    """The hub's cache (HF_HUB_CACHE, HF_HOME)."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def repo_dir(repo: str) -> Path:
    """Where the cache keeps a repository."""
    return cache_dir() / f"models--{repo.replace('/', '--')}"


def cached(repo: str) -> Path | None:
    """The snapshot of a repository's main branch that is in the cache."""
    base = repo_dir(repo)
    try:
        folder = base / "snapshots" / (base / "refs" / "main").read_text().strip()
    except (OSError, ValueError):
        return None
    return folder if folder.is_dir() else None


def snapshot(plan: Plan) -> Path:
    """Where the files of a plan will be, as links."""
    return repo_dir(plan.repo) / "snapshots" / plan.commit


def result(plan: Plan) -> Path:
    """What there is once the plan is carried out: the folder, or the GGUF file."""
    return snapshot(plan) / plan.file if plan.file else snapshot(plan)


def blob(plan: Plan, file: RepoFile) -> Path:
    return repo_dir(plan.repo) / "blobs" / file.mark


def partial(plan: Plan, file: RepoFile) -> Path:
    """What of a file has come so far."""
    return repo_dir(plan.repo) / "blobs" / f"{file.mark}.outrider"


def here(plan: Plan) -> int:
    """Bytes of a plan that are on the disk already."""
    return sum(_have(plan, file) for file in plan.files)


def is_here(plan: Plan) -> bool:
    """Whether nothing of it is left to fetch."""
    return all(_size(snapshot(plan) / f.path) == f.bytes for f in plan.files)


def _have(plan: Plan, file: RepoFile) -> int:
    whole = _size(blob(plan, file))
    return file.bytes if whole == file.bytes else min(max(_size(partial(plan, file)), 0), file.bytes)


def _size(path: Path) -> int:
    """Bytes of a file; -1 where it is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def check_disk(plan: Plan, promised: int = 0) -> None:
    """Raise `Problem` unless the disk takes what is left of the plan, beside `promised` bytes of others."""
    left = plan.bytes - here(plan)
    place = repo_dir(plan.repo)
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free
    if left + promised + SPARE > free:
        raise Problem(
            f"The disk is too full for {plan.source}: {left / 1e9:.1f} GB are to come"
            + (f" beside {promised / 1e9:.1f} GB of other downloads" if promised else "")
            + f", {free / 1e9:.1f} GB are free.",
            "Make room, or delete a model that is not used.",
        )


def fetch(plan: Plan, progress: Progress) -> Path:
    """Fetch what is missing and return the folder, or the GGUF file.

    `progress` is called with bytes of the whole plan; what it raises ends the fetching, and the next call goes on from
    there. Raises `Problem`.
    """
    from huggingface_hub import constants

    if not is_here(plan):
        if constants.HF_HUB_OFFLINE:
            raise hub.offline()
        check_disk(plan)
        before = 0
        for file in plan.files:
            fetch_file(plan, file, progress, before)
            before += file.bytes
    try:
        link(plan)
    except OSError as e:
        raise Problem(f"{snapshot(plan)} cannot be written: {e.strerror}.", "Check its permissions.") from e
    return result(plan)


def fetch_file(plan: Plan, file: RepoFile, progress: Progress, before: int) -> None:
    """One file of the plan into the blobs, if it is not there. `before`: bytes of the plan that are done with it."""
    target, part = blob(plan, file), partial(plan, file)

    def tell(stage: str, _what: str, done: int, _total: int) -> None:
        come = min(done, file.bytes) if stage == "download" else file.bytes
        progress(stage, plan.source, before + come, plan.bytes)

    tell("download", "", _have(plan, file), 0)
    if _size(target) == file.bytes:
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with alone(part, plan.source):
            if _size(part) > file.bytes:
                part.unlink()
            if file.bytes == 0:
                part.touch()
            elif _size(part) < file.bytes:
                stream(hub.file_url(plan.repo, file.path, plan.commit), part, plan.source, tell, hub.headers())
            check(part, file, plan, tell)
            os.replace(part, target)
    except Refused as e:
        raise hub.refusal(e.code, f"{file.path} of {plan.repo}") from e
    except OSError as e:
        if e.errno == errno.ENOSPC:
            raise disk_full(target.parent, plan.bytes - here(plan)) from e
        raise Problem(f"{target.parent} cannot be written: {e.strerror or e}.", "Check the disk.") from e


def check(part: Path, file: RepoFile, plan: Plan, progress: Progress) -> None:
    """Compare what came with the hub's hash. Raises `Problem`, and removes it, where it is another."""
    size = part.stat().st_size
    if file.sha256:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)  # git's own way
    done = 0
    with part.open("rb") as f:
        while chunk := f.read(BLOCK * 16):
            digest.update(chunk)
            done += len(chunk)
            progress("check", plan.source, done, size)
    if size != file.bytes or digest.hexdigest() != file.mark:
        part.unlink()
        raise Problem(
            f"{file.path} of {plan.repo} came damaged: its hash is not the one that the hub names.",
            "It was removed; try again. If it comes the same way again, the mirror or the proxy changes it.",
        )


@contextmanager
def alone(part: Path, what: str) -> Iterator[None]:
    """Be the only program that writes this part."""
    lock = part.with_suffix(".lock")
    with lock.open("w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            raise Problem(f"{what} is being downloaded already, by another window or command.", "Wait for it.") from e
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def link(plan: Plan) -> None:
    """The snapshot's links, and the note of which commit the main branch is."""
    folder = snapshot(plan)
    for file in plan.files:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink() or place.exists():
            continue
        try:
            place.symlink_to(os.path.relpath(blob(plan, file), place.parent))
        except OSError as e:
            if e.errno not in NO_LINKS:
                raise
            os.replace(blob(plan, file), place)  # as the hub's client does on such disks
    note = repo_dir(plan.repo) / "refs" / "main"
    note.parent.mkdir(parents=True, exist_ok=True)
    if not plan.file or not note.exists():  # one file of it is no reason to leave another snapshot
        note.write_text(plan.commit)


def forget(plan: Plan) -> None:
    """Remove what has come of a plan that was given up; files that are whole and linked stay."""
    for file in plan.files:
        partial(plan, file).unlink(missing_ok=True)
    if not is_here(plan):
        linked = {p.resolve() for p in repo_dir(plan.repo).glob("snapshots/*/**/*") if p.is_symlink()}
        for file in plan.files:
            if (whole := blob(plan, file)).resolve() not in linked:
                whole.unlink(missing_ok=True)
    for place in ("blobs", "refs", "snapshots", ""):
        try:
            (repo_dir(plan.repo) / place).rmdir()
        except OSError:  # it holds something, or never was
            continue
