"""The tensors of a `pytorch_model.bin`, read without running what is in it.

Such a file is a zip of raw numbers and one pickle, and a pickle is a program: loading it may do anything. This reader
follows the program but knows only the few calls of which a table of tensors is made; any other name in it is refused
before anything is called. Knows nothing of torch. Files from before 2020 (no zip) are refused, too.
"""

from __future__ import annotations

import math
import pickle
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

TYPES: dict[str, np.dtype[Any]] = {
    "FloatStorage": np.dtype("<f4"),
    "DoubleStorage": np.dtype("<f8"),
    "HalfStorage": np.dtype("<f2"),
    "BFloat16Storage": np.dtype("<u2"),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
    "ShortStorage": np.dtype("<i2"),
    "CharStorage": np.dtype("<i1"),
    "ByteStorage": np.dtype("<u1"),
    "BoolStorage": np.dtype("?"),
}
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    pickle.UnpicklingError,
    EOFError,
    LookupError,
    AttributeError,
    TypeError,
    OverflowError,
    MemoryError,
)


class _Kind:
    """Stands for a class of torch's storages."""

    def __init__(self, name: str) -> None:
        self.name = name


def tensors_of_bin(path: Path) -> dict[str, mx.array]:
    """The table of tensors in `path`. Raises ValueError where it is anything else, or wants to run code."""
    table = _table(path, _Reader)
    if not all(isinstance(v, mx.array) for v in table.values()):
        raise ValueError(f"{path.name} holds more than a table of tensors")
    return table


def names_of_bin(path: Path) -> list[str]:
    """The names of the tensors in `path`, of which none is read. Raises ValueError as `tensors_of_bin` does."""
    return list(_table(path, _Names))


def _table(path: Path, reader: type[_Reader]) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            programs = [n for n in archive.namelist() if n.endswith("/data.pkl") or n == "data.pkl"]
            if len(programs) != 1:
                raise ValueError(f"{path.name} holds no table of tensors")
            root = programs[0].removesuffix("data.pkl")
            with archive.open(programs[0]) as program:
                table = reader(program, lambda key: archive.read(f"{root}data/{key}")).load()
    except DAMAGED as e:
        raise ValueError(f"{path.name} is damaged, or no file of tensors ({e})") from e
    if not isinstance(table, dict) or not all(isinstance(k, str) for k in table):
        raise ValueError(f"{path.name} holds more than a table of tensors")
    return dict(table)


class _Reader(pickle.Unpickler):
    def __init__(self, file: Any, data: Callable[[str], bytes]) -> None:
        super().__init__(file)
        self._data = data

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if module == "torch" and name in TYPES:
            return _Kind(name)
        raise ValueError(f"it would run {module}.{name}, which is no tensor")

    def persistent_load(self, pid: Any) -> Any:
        what, kind, key, _, count = pid
        if what != "storage" or not isinstance(kind, _Kind):
            raise ValueError("it refers to something that is no tensor")
        raw = np.frombuffer(self._data(str(key)), TYPES[kind.name])
        if raw.size < int(count):
            raise ValueError("a tensor is cut short")
        return kind.name, raw


class _Names(_Reader):
    """Makes nothing of the tensors."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        return (lambda *_: None) if found is _tensor else found

    def persistent_load(self, pid: Any) -> Any:
        return None


def _tensor(storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> mx.array:
    """A tensor of a storage. Raises ValueError where it would reach outside."""
    name, raw = storage
    shape, steps = tuple(int(s) for s in size), tuple(int(s) for s in stride)
    if len(shape) != len(steps) or min((*shape, *steps, offset), default=0) < 0:
        raise ValueError("a tensor has an impossible shape")
    last = offset + sum((s - 1) * t for s, t in zip(shape, steps, strict=True))
    if 0 not in shape and (last >= raw.size or math.prod(shape) > raw.size):
        raise ValueError("a tensor reaches beyond its data")
    view = np.lib.stride_tricks.as_strided(raw[offset:], shape, tuple(t * raw.itemsize for t in steps))
    found = mx.array(np.ascontiguousarray(view).reshape(shape))
    return found.view(mx.bfloat16) if name == "BFloat16Storage" else found
