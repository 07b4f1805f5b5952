"""What is on this disk and can be used in place: LM Studio's folders, Ollama's store, the hub's cache, our own.

Folders in MLX's form load as they are; GGUF files go through the importer at their first use, the file stays where it
is. What cannot be used is listed, too, with the reason. Reads names and headers, never weights.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlx_spec.events import Problem

from . import fetch, loadable, paths
from .folder import check_folder, read_json
from .gguf_head import FILE_TYPES, read_head
from .local import LocalModel, folder_bytes, local_models
from .search import gguf_label, gguf_why_not

PLACES = {
    "imported": "Outrider",
    "hub": "the hub's cache",
    "download": "Outrider's downloads",
    "lmstudio": "LM Studio",
    "ollama": "Ollama",
}
OLLAMA_MODEL = "application/vnd.ollama.image.model"
DEEPEST = 4  # folders below a model folder of another program that are looked into


@dataclass(frozen=True, slots=True)
class OnDisk:
    """`source` is what `locate` takes; `place` a key of PLACES; `form` "folder" or "gguf". `why_not` says why it cannot
    be used, "" if it can; `note` what happens at its first use. `ours`: it may be deleted here."""

    source: str
    title: str
    path: Path
    bytes: int
    place: str
    form: str
    quantization: str = ""
    why_not: str = ""
    note: str = ""
    ours: bool = False


def on_disk() -> list[OnDisk]:
    """All models on this disk: ours, then the hub's cache, then those of other programs. Each file once."""
    found = [of_local(model) for model in local_models() if model.path is not None]
    return found + elsewhere({one.path.resolve() for one in found})


def elsewhere(seen: set[Path] | None = None) -> list[OnDisk]:
    """What `local_models` does not know: GGUF files, and all of other programs, but for the files that are `seen`."""
    seen = set() if seen is None else seen
    found = []
    for one in (*_hub_ggufs(), *_downloads(), *_lm_studio(), *_ollama()):
        real = one.path.resolve()
        if real not in seen:
            seen.add(real)
            found.append(one)
    return found


def of_local(model: LocalModel) -> OnDisk:
    """One that `local_models` knows."""
    assert model.path is not None
    place = "imported" if model.kind == "imported" else "hub"
    return _folder(model.path, model.name, model.title, place, True)


def _folder(folder: Path, source: str, title: str, place: str, ours: bool) -> OnDisk:
    why, quantization, size = "", "", 0
    try:
        size = folder_bytes(folder)
        config = read_json(folder / "config.json")
        entry = config.get("quantization")
        bits = entry.get("bits") if isinstance(entry, dict) else None
        quantization = f"{bits}-bit" if isinstance(bits, int) else ""
        why = loadable.why_not(config)
        if not why:
            check_folder(folder)
    except Problem as problem:
        why = problem.message
    except (OSError, ValueError, KeyError, TypeError) as e:
        why = f"Its files cannot be read ({e})."
    return OnDisk(source, title, folder, size, place, "folder", quantization, why, ours=ours)


def _gguf(file: Path, title: str, place: str, ours: bool = False) -> OnDisk | None:
    """A GGUF file, explained; None for one that is gone."""
    try:
        size = file.stat().st_size
    except OSError:
        return None
    label, why, name = gguf_label(file.name), "", ""
    try:
        head = read_head(file)
        label = FILE_TYPES.get(head.get("general.file_type", -1), label)
        name = str(head.get("general.name") or "")
        why = gguf_why_not(str(head.get("general.architecture")))
    except Problem as problem:
        why = problem.message
    if re.search(r"-\d{5}-of-\d{5}\.gguf$", file.name):
        why = why or "It is one of several parts of a model, which cannot be put together yet."
    note = "Imported at its first use; the file stays where it is, and the import takes about as much room again."
    return OnDisk(
        str(file), title or name or file.name, file, size, place, "gguf", label, why, "" if why else note, ours=ours
    )


def _hub_ggufs() -> Iterator[OnDisk]:
    cache = fetch.cache_dir()
    for repo in sorted(cache.glob("models--*")) if cache.is_dir() else ():
        name = repo.name.removeprefix("models--").replace("--", "/", 1)
        for file in sorted(repo.glob("snapshots/*/**/*.gguf")):
            one = _gguf(file, f"{name.split('/')[-1]} · {file.name}", "hub", ours=True)
            if one is not None:
                yield one


def _downloads() -> Iterator[OnDisk]:
    for file in sorted(paths.downloads_dir().glob("*.gguf")):
        one = _gguf(file, file.name, "download", ours=True)
        if one is not None:
            yield one


# ------------------------------------------------------------------------------------------- other programs


def lm_studio_folders() -> list[Path]:
    """Where LM Studio keeps models: the folder that is set there, and its usual ones."""
    home = Path.home()
    places = [home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models"]
    for settings in (home / ".lmstudio" / "settings.json", home / ".cache" / "lm-studio" / "settings.json"):
        try:
            chosen = json.loads(settings.read_text("utf-8")).get("downloadsFolder")
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(chosen, str) and chosen:
            places.insert(0, Path(chosen).expanduser())
    return [p for p in dict.fromkeys(places) if p.is_dir()]


def _lm_studio() -> Iterator[OnDisk]:
    """owner/model/, each a folder in MLX's form or one with GGUF files."""
    for base in lm_studio_folders():
        for folder in _walk(base, DEEPEST):
            title = str(folder.relative_to(base)) if folder != base else folder.name
            if (folder / "config.json").is_file():
                yield _folder(folder, str(folder), title, "lmstudio", False)
                continue
            for file in sorted(folder.glob("*.gguf")):
                if "mmproj" not in file.name.lower():
                    one = _gguf(file, f"{title} · {file.name}", "lmstudio")
                    if one is not None:
                        yield one


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    yield folder
    try:
        below = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError:
        return
    for one in below if depth else ():
        yield from _walk(one, depth - 1)


def ollama_folder() -> Path:
    """Where Ollama keeps its store."""
    if given := os.environ.get("OLLAMA_MODELS"):
        return Path(given).expanduser()
    return Path.home() / ".ollama" / "models"


def _ollama() -> Iterator[OnDisk]:
    """manifests/HOST/OWNER/NAME/TAG say which blob is the model; the blob is a GGUF file without an ending."""
    base = ollama_folder()
    for manifest in sorted(base.glob("manifests/*/*/*/*")) if base.is_dir() else ():
        name = f"{manifest.parent.name}:{manifest.name}"
        if manifest.parent.parent.name != "library":
            name = f"{manifest.parent.parent.name}/{name}"
        for layer in _layers(manifest):
            digest = str(layer.get("digest", ""))
            if layer.get("mediaType") == OLLAMA_MODEL and re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
                one = _gguf(base / "blobs" / digest.replace(":", "-"), name, "ollama")
                if one is not None:
                    yield one


def _layers(manifest: Path) -> list[dict[str, Any]]:
    try:
        layers = json.loads(manifest.read_text("utf-8"))["layers"]
        return [layer for layer in layers if isinstance(layer, dict)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
