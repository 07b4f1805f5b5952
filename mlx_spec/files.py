"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import mlx.core as mx


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to, which becomes `path` once all is written: a crash or a full disk leaves what
    was there before. Raises OSError as the writing does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


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
