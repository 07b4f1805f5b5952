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
HUB_FILES = ["*.json", "model*.safetensors", "*.model", "*.txt", "*.jinja", "*.py"]


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
    named = ", ".join(catalogue())
    raise Problem(
        f'There is no model "{name}".',
        f"Give one of {named}, a model folder, a GGUF file or a hub id (owner/name).",
    )


def from_hub(repo: str, progress: Progress) -> Path:
    """A hub repository's snapshot in the shared hub cache, downloaded if it is not there."""
    import huggingface_hub
    from huggingface_hub import errors

    try:
        folder = Path(huggingface_hub.snapshot_download(repo, allow_patterns=HUB_FILES, local_files_only=True))
        check_folder(folder)
        return folder
    except (OSError, ValueError, Problem):
        pass  # not there, or not whole
    progress("download", repo, 0, 0)
    try:
        folder = Path(huggingface_hub.snapshot_download(repo, allow_patterns=HUB_FILES))
    except errors.RepositoryNotFoundError as e:
        raise Problem(
            f"The hub has no model {repo}, or it is not open to you.",
            "Check its name, or log in with `hf auth login`.",
        ) from e
    except OSError as e:
        if e.errno == 28:
            raise Problem(f"The disk is too full for {repo}.", "Make room and try again.") from e
        raise Problem(f"{repo} could not be fetched from the hub ({type(e).__name__}).", "Check the network.") from e
    except Exception as e:  # the hub's client raises its transport's own errors
        raise Problem(f"{repo} could not be fetched from the hub ({type(e).__name__}).", "Check the network.") from e
    check_folder(folder)
    return folder
