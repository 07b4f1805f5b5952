"""Weights on disk, written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx

from .files import replacing


def write_tensors(path: Path, tensors: Mapping[str, mx.array], about: Mapping[str, str] | None = None) -> None:
    """A safetensors file at `path` with `about` for its metadata. Raises OSError, which mlx does not say of a disk."""
    mx.eval(list(tensors.values()))
    with replacing(path) as part:
        saved = part.with_name(part.name + ".safetensors")  # mlx writes to no other name
        try:
            mx.save_safetensors(str(saved), dict(tensors), dict(about or {}))
            saved.replace(part)
        except RuntimeError as e:
            raise OSError(str(e)) from e
        finally:
            saved.unlink(missing_ok=True)
