"""Is this folder a model that mlx-lm can load? Looks at files and headers, never at weights."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from mlx_spec.events import Problem

AGAIN = "Fetch or import the model again."


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object out of a file. Raises `Problem` naming the file."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as e:
        raise Problem(f"{path} is missing.", AGAIN) from e
    except (OSError, ValueError) as e:
        raise Problem(f"{path} cannot be read as JSON ({e}).", AGAIN) from e
    if not isinstance(data, dict):
        raise Problem(f"{path} holds no JSON object.", AGAIN)
    return data


def header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file. Raises `Problem` if the file is shorter than it says."""
    size = path.stat().st_size
    try:
        with path.open("rb") as f:
            (length,) = struct.unpack("<Q", f.read(8))
            if length > size:
                raise ValueError("its header is cut off")
            data: dict[str, Any] = json.loads(f.read(length))
    except (OSError, ValueError, struct.error) as e:
        raise Problem(f"{path} is no safetensors file: {e}.", AGAIN) from e
    end = max((int(t["data_offsets"][1]) for k, t in data.items() if k != "__metadata__"), default=0)
    if 8 + length + end != size:
        raise Problem(f"{path} is cut off: it has {size:,} bytes, its header says {8 + length + end:,}.", AGAIN)
    return data


def weight_files(folder: Path) -> list[Path]:
    """The shards, all of them. Raises `Problem` if one is missing."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        names = sorted(set(read_json(index).get("weight_map", {}).values()))
        missing = [n for n in names if not (folder / n).is_file()]
        if missing:
            raise Problem(f"{folder} lacks {len(missing)} of its {len(names)} shards, {missing[0]} first.", AGAIN)
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise Problem(f"{folder} holds no weights (model*.safetensors).", "Choose a folder that mlx-lm can load.")
    return files


def check_folder(folder: Path) -> None:
    """Raise `Problem` with the first thing that keeps mlx-lm from loading `folder`."""
    if not folder.is_dir():
        raise Problem(f"{folder} is no folder.", "Choose a model folder, a GGUF file or a hub id.")
    if not (folder / "config.json").exists():
        raise Problem(
            f"{folder} is no model: it has no config.json.",
            "Choose a folder that mlx-lm can load, or a GGUF file.",
        )
    if "model_type" not in read_json(folder / "config.json"):
        raise Problem(f"{folder / 'config.json'} does not name a model_type.", AGAIN)
    for file in weight_files(folder):
        header(file)
    if not any((folder / n).exists() for n in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        raise Problem(f"{folder} has no tokenizer.", AGAIN)
