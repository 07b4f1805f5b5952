"""Deleting a model from this disk: ours and the hub cache's, never those of other programs."""

from __future__ import annotations

import shutil
from pathlib import Path

from mlx_spec.events import Problem

from . import fetch, paths
from .on_disk import PLACES, OnDisk


def what_goes(model: OnDisk) -> Path:
    """The file or folder that a deletion removes. Raises `Problem` where it is not ours to remove."""
    if not model.ours:
        place = PLACES[model.place]
        raise Problem(f"{model.title} belongs to {place}.", f"Delete it there; {place} would miss it.")
    if model.place != "hub":
        return _inside(model.path, (paths.models_dir(), paths.downloads_dir()))
    for folder in (model.path, *model.path.parents):
        if folder.parent == fetch.cache_dir() and folder.name.startswith("models--"):
            if model.form == "gguf" and len(list(folder.glob("snapshots/*/**/*.gguf"))) > 1:
                return model.path  # the others stay
            return folder
    raise Problem(f"{model.path} is not in the hub's cache.", "Delete it by hand.")


def _inside(path: Path, places: tuple[Path, ...]) -> Path:
    if any(path.parent == place for place in places):
        return path
    raise Problem(f"{path} is not one of Outrider's own folders.", "Delete it by hand.")


def delete(model: OnDisk) -> int:
    """Remove it for good and return the bytes that came free. Raises `Problem` where that cannot be done."""
    path = what_goes(model)
    try:
        size = _bytes(path)
        if path.is_symlink() and model.place == "hub":  # a file of a snapshot: its blob goes with it
            path.resolve().unlink(missing_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as e:
        raise Problem(f"{path} could not be deleted: {e.strerror}.", "Check its permissions.") from e
    return size


def _bytes(path: Path) -> int:
    """What is on the disk: links are not counted, but for the one that is asked about."""
    if path.is_dir():
        return sum(f.stat().st_size for f in path.rglob("*") if f.is_file() and not f.is_symlink())
    return path.stat().st_size
