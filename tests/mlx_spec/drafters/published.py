"""Tiny random EAGLE heads, written as their makers publish them: names, nesting, counting and files are theirs."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

Array = np.ndarray[Any, Any]
VOCABULARY, WIDTH, SAID = 320, 64, 200


def config(**more: Any) -> dict[str, Any]:
    return {
        "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 96, "vocab_size": VOCABULARY, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "max_position_embeddings": 512, "hidden_act": "silu", **more,
    }  # fmt: skip


def spoken(seed: int = 5) -> Array:
    """The target's ids (Vd,) of the tokens that a head of EAGLE-3 can say."""
    return np.sort(np.random.default_rng(seed).permutation(VOCABULARY)[:SAID])


def layer(i: int, d: int, read: int, bias: bool, normed: bool = True) -> dict[str, tuple[int, ...]]:
    """Shapes of a Llama layer whose attention reads rows of `read` features: 4 heads of queries, 2 of keys."""
    sizes: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (d, read), "self_attn.k_proj.weight": (d // 2, read),
        "self_attn.v_proj.weight": (d // 2, read), "self_attn.o_proj.weight": (d, d),
        "mlp.gate_proj.weight": (96, d), "mlp.up_proj.weight": (96, d), "mlp.down_proj.weight": (d, 96),
        "post_attention_layernorm.weight": (d,),
    }  # fmt: skip
    if bias:
        sizes |= {f"self_attn.{p}_proj.bias": (d if p == "q" else d // 2,) for p in "qkv"}
    if normed:
        sizes["input_layernorm.weight"] = (d,)
    return {f"layers.{i}.{name}": size for name, size in sizes.items()}


def filled(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    made = {}
    for name, size in shapes.items():
        value = rng.normal(size=size)
        if len(size) > 1:
            value *= 1.2 / size[-1] ** 0.5
        elif "norm" in name:
            value = 1 + 0.3 * value
        made[name] = value.astype(np.float32)
    return made


def eagle3(
    d: int = WIDTH, layers: int = 1, bias: bool = False, norm_each: bool = False, norm_whole: bool = False,
    own: bool = False, mapped: bool = True, seed: int = 1,
) -> dict[str, Array]:  # fmt: skip
    """Tensors of a head over three states of WIDTH features."""
    shapes: dict[str, tuple[int, ...]] = {"fc.weight": (d, 3 * WIDTH), "norm.weight": (d,)}
    shapes |= {"lm_head.weight": (SAID if mapped else VOCABULARY, d), "layers.0.hidden_norm.weight": (d,)}
    for i in range(layers):
        shapes |= layer(i, d, d if i else 2 * d, bias)
    if norm_each:
        shapes |= {f"fc_norm.{i}.weight": (WIDTH,) for i in range(3)}
    if norm_whole:
        shapes["input_norm.weight"] = (3 * WIDTH,)
    if own:
        shapes["embed_tokens.weight"] = (VOCABULARY, d)
    made = filled(shapes, seed)
    if mapped:
        made["d2t"] = spoken() - np.arange(SAID)
        made["t2d"] = np.isin(np.arange(VOCABULARY), spoken())
    return made


def eagle1(
    layers: int = 1, bias: bool = True, normed: bool = False, own: bool = False, seed: int = 1
) -> dict[str, Array]:
    """Tensors of a head of the first EAGLE; `normed` ones have a norm in front of the first attention."""
    shapes: dict[str, tuple[int, ...]] = {"fc.weight": (WIDTH, 2 * WIDTH)}
    if bias:
        shapes["fc.bias"] = (WIDTH,)
    for i in range(layers):
        shapes |= layer(i, WIDTH, WIDTH, False, normed or i > 0)
    if own:
        shapes["embed_tokens.weight"] = (VOCABULARY, WIDTH)
    return filled(shapes, seed)


def midlayer(tensors: Mapping[str, Array]) -> dict[str, Array]:
    return {n.replace("layers.0.", "midlayer."): v for n, v in tensors.items()}


def save(folder: Path, tensors: Mapping[str, Array], settings: Any, torch: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    if torch:
        torch_file(folder / "pytorch_model.bin", tensors)
    else:
        mx.save_safetensors(str(folder / "model.safetensors"), {n: mx.array(v) for n, v in tensors.items()})
    (folder / "config.json").write_text(settings if isinstance(settings, str) else json.dumps(settings))
    return folder


STORAGES = {
    "f4": "Float", "f8": "Double", "f2": "Half", "i8": "Long", "i4": "Int", "i2": "Short", "i1": "Char", "b1": "Bool",
    "u1": "Byte", "u2": "BFloat16",
}  # fmt: skip


def torch_file(path: Path, tensors: Mapping[str, Array]) -> None:
    """What torch.save writes of a table of tensors, byte by byte: a zip of raw numbers and a pickle of the table.
    numpy has no bfloat16: its bits stand for it."""
    program = b"\x80\x02ccollections\nOrderedDict\n)R("
    for i, (name, value) in enumerate(tensors.items()):
        kind = STORAGES[value.dtype.str[1:]]
        storage = text("storage") + f"ctorch\n{kind}Storage\n".encode() + text(str(i)) + text("cpu")
        program += text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + storage + number(value.size) + b"tQ"
        strides = tuple(s // value.itemsize for s in value.strides)
        program += number(0) + row(value.shape) + row(strides) + b"\x89ccollections\nOrderedDict\n)RtR"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program + b"u.")
        for i, value in enumerate(tensors.values()):
            archive.writestr(f"archive/data/{i}", value.tobytes("A"))
        archive.writestr("archive/version", "3\n")


def program_file(path: Path, program: bytes) -> None:
    """A torch file whose pickle is `program`."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program)


def calling(module: str, name: str, argument: str) -> bytes:
    """A pickle that calls `module.name(argument)`."""
    return f"c{module}\n{name}\n(".encode() + text(argument) + b"tR."


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def row(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(number(v) for v in values) + b"t"
