"""The first few lines of a GGUF file: what it is, without reading its vocabulary or its weights, and without numpy.

The format: "GGUF", a version, the number of tensors and of facts, then facts (name, type, value). Reading stops at the
first array, which is where the vocabulary begins; what a person is told stands before it.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

from mlx_spec.events import Problem

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
MOST_FACTS = 1000
MOST_TEXT = 1 << 20
# general.file_type of the kinds that people meet.
FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 32: "BF16",
}  # fmt: skip


def read_head(file: Path) -> dict[str, Any]:
    """The facts before the first array. Raises `Problem` if `file` is no GGUF file or cannot be read."""
    facts: dict[str, Any] = {}
    try:
        with file.open("rb") as f:
            if f.read(4) != b"GGUF":
                raise Problem(f"{file} is no GGUF file.", "Choose a GGUF file, a model folder or a hub id.")
            version, _tensors, count = _take(f, "<IQQ")
            if version not in (2, 3):
                raise Problem(f"{file} is of GGUF version {version}, which is not read.", "Choose another file.")
            for _ in range(min(count, MOST_FACTS)):
                name = _text(f)
                (kind,) = _take(f, "<I")
                if kind == ARRAY:
                    break
                facts[name] = _text(f) if kind == STRING else _take(f, "<" + NUMBERS[kind])[0]
    except OSError as e:
        raise Problem(f"{file} cannot be read: {e.strerror}.", "Check its permissions.") from e
    except (struct.error, KeyError, UnicodeDecodeError, ValueError) as e:
        raise Problem(f"{file} is cut off or damaged.", "Download it again, or choose another file.") from e
    return facts


def _take(f: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack(form, f.read(struct.calcsize(form)))


def _text(f: BinaryIO) -> str:
    (length,) = _take(f, "<Q")
    if length > MOST_TEXT:
        raise ValueError("a text that is too long")
    data = f.read(length)
    if len(data) < length:
        raise ValueError("cut off")
    return data.decode("utf-8")
