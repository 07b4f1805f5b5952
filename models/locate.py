"""From what a person calls a model to the folder that mlx-lm loads."""

from __future__ import annotations

import re
from pathlib import Path

from mlx_spec.events import Problem

from . import paths
from .catalogue import catalogue
from .download import Progress, fetch_entry
from .folder import check_folder

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
HUB_FILE = re.compile(r"([\w.-]+/[\w.-]+)/(.+\.gguf)", re.IGNORECASE)  # a GGUF file of a hub id


def silent(stage: str, what: str, done: int, total: int) -> None:
    """Progress for nobody."""


def locate(name: str, progress: Progress | None = None) -> Path:
    """The mlx-lm folder of a named model, a folder, a GGUF file or a hub id, fetched or imported if need be.

    Raises `Problem` with the reason and a remedy.
    """
    tell = progress or silent
    name = name.strip()
    if name in catalogue():
        from .gguf_import import import_gguf, imported

        entry = catalogue()[name]
        file = paths.downloads_dir() / entry.file
        if ready := imported(file, entry.sha256):
            return ready
        return import_gguf(fetch_entry(entry, paths.downloads_dir(), tell), tell, entry.sha256)
    path = Path(name).expanduser()
    if path.is_dir():
        check_folder(path)
        return path
    if path.is_file():
        from .gguf_import import import_gguf

        return import_gguf(path, tell)
    if HUB_ID.fullmatch(name) and not name.startswith((".", "/")):
        return from_hub(name, tell)
    if (parts := HUB_FILE.fullmatch(name)) and not name.startswith((".", "/", "~")):
        return from_hub_file(parts[1], parts[2], tell)
    named = ", ".join(catalogue())
    raise Problem(
        f'There is no model "{name}".',
        f"Give one of {named}, a model folder, a GGUF file or a hub id (owner/name).",
    )


def from_hub(repo: str, progress: Progress) -> Path:
    """A hub repository's snapshot in the shared hub cache, downloaded if it is not there."""
    from . import fetch
    from . import repo as repositories

    folder = fetch.cached(repo)
    if folder is not None:
        try:
            check_folder(folder)
            return folder
        except Problem:
            pass  # not whole: what is missing is fetched
    progress("download", repo, 0, 0)
    folder = fetch.fetch(repositories.folder_plan(repo), progress)
    check_folder(folder)
    return folder


def from_hub_file(repo: str, file: str, progress: Progress) -> Path:
    """The folder imported from a GGUF file of the hub, which is fetched if it is not there."""
    from . import fetch
    from . import repo as repositories
    from .gguf_import import import_gguf

    snapshot = fetch.cached(repo)
    if snapshot is not None and (snapshot / file).is_file():
        return import_gguf(snapshot / file, progress)
    progress("download", f"{repo}/{file}", 0, 0)
    return import_gguf(fetch.fetch(repositories.file_plan(repo, file), progress), progress)
