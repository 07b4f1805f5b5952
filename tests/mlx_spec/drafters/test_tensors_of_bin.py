"""torch's files: every kind of number and of layout is read, nothing is run, and nothing is read from outside."""

from __future__ import annotations

import zipfile
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from mlx_spec.drafters.tensors_of_bin import names_of_bin, tensors_of_bin

from . import published
from .published import number, row, text


def one(path: Path, size: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, kind: str = "Float") -> Path:
    """A file with the numbers 0 to 5 and a tensor `w` of them."""
    storage = text("storage") + f"ctorch\n{kind}Storage\n".encode() + text("0") + text("cpu") + number(6)
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n((" + storage + b"tQ" + number(offset) + row(size) + row(strides)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}(" + text("w") + tensor + b"\x89NtRu.")
        archive.writestr("a/data/0", np.arange(6, dtype="f4").tobytes())
    return path


def test_every_kind_of_number(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    whole = rng.normal(size=(3, 4)) * 50
    tensors = {kind: whole.astype(kind) for kind in published.STORAGES if kind not in ("b1", "u1", "u2")}
    tensors |= {"b1": whole > 0, "u1": np.abs(whole).astype("u1"), "empty": np.zeros((0, 4), "f4"), "turned": whole.T}
    tensors["scalar"] = np.array(2.5, "f4")
    published.torch_file(tmp_path / "a.bin", tensors)
    found = tensors_of_bin(tmp_path / "a.bin")
    assert list(found) == names_of_bin(tmp_path / "a.bin") == list(tensors)
    for name, value in tensors.items():
        assert found[name].shape == value.shape
        np.testing.assert_allclose(np.array(found[name]).astype("f8"), value.astype("f8"), rtol=1e-6, err_msg=name)


def test_bfloat16(tmp_path: Path) -> None:
    values = mx.random.normal((5, 3)).astype(mx.bfloat16)
    raw = np.array(values.view(mx.uint16))
    published.torch_file(tmp_path / "a.bin", {"w": raw})
    found = tensors_of_bin(tmp_path / "a.bin")["w"]
    assert found.dtype == mx.bfloat16
    assert mx.array_equal(found, values)


def test_a_part_of_what_is_stored(tmp_path: Path) -> None:
    found = tensors_of_bin(one(tmp_path / "a.bin", (2, 2), (1, 2), offset=1))["w"]
    assert found.tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("size", "strides", "offset", "said"),
    [
        ((7,), (1,), 0, "beyond its data"),
        ((2,), (1,), 5, "beyond its data"),
        ((2, 3), (5, 1), 0, "beyond its data"),
        ((1000000, 1000000), (0, 0), 0, "beyond its data"),
        ((2,), (-1,), 5, "impossible shape"),
        ((-2,), (1,), 0, "impossible shape"),
        ((2,), (1,), -1, "impossible shape"),
        ((2, 3), (1,), 0, "impossible shape"),
    ],
)
def test_what_reaches_outside_is_refused(
    tmp_path: Path, size: tuple[int, ...], strides: tuple[int, ...], offset: int, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        tensors_of_bin(one(tmp_path / "a.bin", size, strides, offset))


@pytest.mark.parametrize(
    "program",
    [
        published.calling("builtins", "eval", "print(1)"),
        published.calling("builtins", "exec", "print(1)"),
        published.calling("subprocess", "getoutput", "true"),
        published.calling("torch", "load", "a"),
        published.calling("torch._utils", "_import_dotted_name", "os.system"),
        published.calling("collections", "namedtuple", "a"),
        b"\x80\x02}(" + text("w") + published.calling("os", "system", "true")[:-1] + b"u.",
    ],
)
@pytest.mark.parametrize("look", [tensors_of_bin, names_of_bin])
def test_what_would_run_something_is_refused(tmp_path: Path, program: bytes, look: object) -> None:
    published.program_file(tmp_path / "a.bin", program)
    with pytest.raises(ValueError, match="it would run"):
        look(tmp_path / "a.bin")  # type: ignore[operator]


@pytest.mark.parametrize(
    "program",
    [
        b"",
        b"\x80\x02",
        b"N.",
        b"](K\x01e.",
        b"}(K\x01K\x02u.",
        b"}(" + text("w") + b"K\x02u.",
        b"garbage",
        b"\x80\x09N.",
    ],
)
def test_what_is_no_table_of_tensors_is_refused(tmp_path: Path, program: bytes) -> None:
    published.program_file(tmp_path / "a.bin", program)
    with pytest.raises(ValueError, match=r"a\.bin (is damaged|holds)|unsupported pickle protocol"):
        tensors_of_bin(tmp_path / "a.bin")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")  # how such files began before they were zips
    with pytest.raises(ValueError, match=r"a\.bin is damaged, or no file of tensors"):
        tensors_of_bin(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", "")
    with pytest.raises(ValueError, match="no table of tensors"):
        tensors_of_bin(path)
    one(path, (6,), (1,), kind="Double")  # six numbers, of which the file has half the bytes
    with pytest.raises(ValueError, match="cut short"):
        tensors_of_bin(path)
