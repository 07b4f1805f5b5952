"""Which models are on this disk already."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlx_spec.events import Problem

from . import paths
from .catalogue import catalogue
from .folder import read_json


@dataclass(frozen=True, slots=True)
class LocalModel:
    """`name` is what `locate` takes; `kind` is "imported", "hub" or "catalogue" (not fetched yet)."""

    name: str
    title: str
    path: Path | None
    bytes: int
    kind: str


def local_models() -> list[LocalModel]:
    """Imported folders, then the hub cache's mlx models, then named models that are not here yet."""
    from .gguf_import import imported

    found: list[LocalModel] = []
    mine = {}
    for entry in catalogue().values():
        folder = imported(paths.downloads_dir() / entry.file, entry.sha256)
        mine[folder] = entry
        size = folder_bytes(folder) if folder else entry.bytes
        found.append(LocalModel(entry.name, entry.title, folder, size, "imported" if folder else "catalogue"))
    for folder in sorted(paths.models_dir().glob("*/")) if paths.models_dir().is_dir() else ():
        if folder in mine or folder.name.startswith(".") or not (folder / "config.json").exists():
            continue
        try:
            title = str(read_json(folder / "outrider.json").get("name", folder.name))
        except Problem:
            title = folder.name
        found.append(LocalModel(str(folder), title, folder, folder_bytes(folder), "imported"))
    found += hub_models()
    order = {"imported": 0, "hub": 1, "catalogue": 2}
    return sorted(found, key=lambda m: (order[m.kind], m.title.lower()))


def hub_models() -> list[LocalModel]:
    """Snapshots in the shared hub cache that hold safetensors and a config."""
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    found = []
    for repo in sorted(cache.glob("models--*")) if cache.is_dir() else ():
        name = repo.name.removeprefix("models--").replace("--", "/", 1)
        for snapshot in sorted((repo / "snapshots").glob("*/")):
            if (snapshot / "config.json").exists() and any(snapshot.glob("model*.safetensors")):
                found.append(LocalModel(name, name, snapshot, folder_bytes(snapshot), "hub"))
                break
    return found


def folder_bytes(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.iterdir() if f.is_file())
