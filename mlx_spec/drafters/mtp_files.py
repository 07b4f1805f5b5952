"""MTP heads on disk: in the shards of a model as its makers publish it, or split off as a folder of their own.

Qwen3-Next and after have them as `mtp.*`, DeepSeek-V3 and GLM-4.5 and after as the layer behind the last one. Most
conversions drop them and leave the settings that tell of them, so whether there is a head is told by its tensors.

Qwen's norms are stored less 1. A conversion to MLX adds it; some heads are the makers' own tensors beside a converted
model. Which they are is in the header of their file (`format`), or told by the settings of a folder of their own
(`model_type` ending in `_mtp`) or by names that only MLX has. It cannot be told from values: true weights are as
small as 0.27.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.utils import infer_quant_config

from ..anatomy import Anatomy, project
from ..events import Problem
from . import mtp
from .eagle_files import OTHER, settings

AGAIN = "Fetch it again."
FETCH = (
    "Fetch the files of the original model that hold its MTP tensors (its index names them), or its MTP head as a "
    "folder of its own, and choose that folder."
)
WRAPPERS = ("model.language_model.", "language_model.model.", "language_model.", "model.", "")
# Our names by the beginnings of theirs. Where two mean the same, the later is what the makers write.
QWEN = {
    "fc.": "join.",
    "pre_fc_norm_embedding.": "norm_token.",
    "pre_fc_norm_hidden.": "norm_state.",
    "norm.": "norm.",
    "embed_tokens.": "embed_tokens.",
    "lm_head.": "lm_head.",
    "layers.0.": "layer.",
}
DEEPSEEK = {
    "eh_proj.": "join.",
    "enorm.": "norm_token.",
    "hnorm.": "norm_state.",
    "shared_head_norm.": "norm.",
    "shared_head.norm.": "norm.",
    "embed_tokens.": "embed_tokens.",
    "lm_head.": "lm_head.",
    "shared_head.head.": "lm_head.",
    "mtp_block.": "layer.",
    "": "layer.",
}
BLOCK = 128  # rows and columns of 8-bit floats that share a scale, where the settings say nothing else
SAME = 0.7  # the cosine of two matrices' products from which on they are one, stored differently
PROBE = 64  # rows that are compared


def claimed(config: Mapping[str, Any]) -> bool:
    """Whether a model's settings tell of an MTP head. Its tensors may be gone."""
    places = (config, config.get("text_config") or {})
    return any(bool(p.get(key)) for p in places for key in ("mtp_num_hidden_layers", "num_nextn_predict_layers"))


def split_off(config: Mapping[str, Any]) -> bool:
    """Whether the settings are those of a folder with a head alone, converted to MLX."""
    return str(config.get("model_type", "")).endswith("_mtp")


def told_by(config: Mapping[str, Any], names: Collection[str]) -> bool:
    """Whether a folder with such settings and tensors has an MTP head, or should have one."""
    if any(n.endswith(("pre_fc_norm_hidden.weight", "eh_proj.weight")) for n in names):
        return True
    return (split_off(config) or claimed(config)) and not any(n.endswith("fc.weight") for n in names)


def has(folder: Path) -> bool:
    """Whether the model in `folder` still has the tensors of its MTP head. Reads settings and headers alone; what
    cannot be read has none."""
    try:
        config = settings(folder)
        layers = int((config.get("text_config") or config).get("num_hidden_layers") or 0)
        names = [n for f in sorted(folder.glob("*.safetensors")) for n in dict(mx.load(str(f)))]  # type: ignore[arg-type]
        return any(_inner(n, layers, qwen) for n in names for qwen in (True, False))
    except (Problem, OSError, RuntimeError, ValueError, TypeError):
        return False


def read(folder: Path, model: nn.Module, anatomy: Anatomy, vocabulary: int) -> mtp.Network:
    """The head in `folder` for the target. Raises `Problem` with the reason if there is none, if it is damaged, or if
    it was made for another target."""
    config, module = settings(folder), mtp.module_of(anatomy.layers)
    if not mtp.known(anatomy.layers):
        raise Problem(
            f"The MTP head in {folder} cannot be used: such heads of a {module} model are not known.", "Leave it out."
        )
    qwen = module in mtp.QWEN
    inner = config.get("text_config") or config
    if qwen and (mode := {**inner, **config}.get("mtp_hidden_state_mode", "post_norm")) != "post_norm":
        raise Problem(f'The MTP head in {folder} reads "{mode}" states, which is not known.', "Leave it out.")
    tensors, raw = _tensors(folder, config, len(anatomy.layers), qwen)
    if not tensors:
        what = "mtp.*" if qwen else f"model.layers.{len(anatomy.layers)}.*"
        if claimed(config):
            raise Problem(
                f"The settings in {folder} tell of an MTP head, but its tensors ({what}) are missing: the conversion "
                "dropped them.",
                FETCH,
            )
        raise Problem(f"There is no MTP head for this model in {folder}: it has no tensors {what}.", OTHER)
    tensors = _wide(tensors, config, folder, qwen)
    if qwen:
        for name in tensors:
            if name in raw and "norm" in name.split(".")[-2]:
                tensors[name] = tensors[name].astype(mx.float32) + 1
    with refused(folder):
        tensors = _stacked(tensors) if qwen else _sanitized(tensors, model, module)
    experts = any(n.startswith("layer.mlp.switch_mlp.") for n in tensors)
    if qwen and experts and not getattr(mtp.arguments(model), "num_experts", 0):
        raise Problem(f"The MTP head in {folder} has experts, and this model has none.", OTHER)
    with refused(folder):
        network = mtp.fresh(model, anatomy, experts=experts)
    if "embed_tokens.weight" in tensors:
        network.embed_tokens = nn.Embedding(vocabulary, anatomy.width)
    if "lm_head.weight" in tensors:
        network.lm_head = nn.Linear(anatomy.width, vocabulary, bias=False)
    fill(network, tensors, folder, partial(_theirs, qwen=qwen))
    _drop_copies(network, anatomy, vocabulary)
    mx.eval(network.parameters())
    network.eval()
    return network


def _inner(name: str, layers: int, qwen: bool) -> str:
    """The name of a head's tensor within the head, of one of a whole model with so many layers; "" for all others."""
    start = "mtp." if qwen else f"layers.{layers}."
    found = next((name.removeprefix(w) for w in WRAPPERS if name.startswith(w + start)), "")
    return found.removeprefix(start)


def _tensors(
    folder: Path, config: Mapping[str, Any], layers: int, qwen: bool
) -> tuple[dict[str, mx.array], frozenset[str]]:
    """The head's tensors by our names, none of them read yet, and the names of those that the makers wrote."""
    found: dict[str, mx.array] = {}
    raw = set()

    def inner(name: str) -> str:
        return _inner(name, layers, qwen) or (name.removeprefix("model.") if split_off(config) else "")

    with refused(folder):
        for file in sorted(folder.glob("*.safetensors")):
            loaded: Any = mx.load(str(file), return_metadata=True)
            packed = any("mtp." in n and (n.endswith(".scales") or ".switch_mlp." in n) for n in loaded[0])
            form = loaded[1].get("format") or ("mlx" if packed or split_off(config) else "pt")
            for name, value in loaded[0].items():
                if ours := _ours(inner(name), qwen):
                    found[ours] = value
                    if form != "mlx":
                        raw.add(ours)
    index = folder / "model.safetensors.index.json"
    if index.exists():
        with refused(folder):
            listed = json.loads(index.read_text("utf-8"))["weight_map"]
            gone = sorted({listed[n] for n in listed if inner(n) and not (folder / listed[n]).exists()})
        if gone:
            raise Problem(f"The MTP head in {folder} is incomplete: its file {gone[0]} is missing.", "Fetch it, too.")
    return found, frozenset(raw)


def _ours(name: str, qwen: bool) -> str:
    """Our name of a tensor; "" for those that are not used: of layers behind the first, and of no part of a head."""
    if not name or name.endswith("rotary_emb.inv_freq") or (name.startswith("layers.") and name[7:9] != "0."):
        return ""
    table = QWEN if qwen else DEEPSEEK
    return next((ours + name.removeprefix(theirs) for theirs, ours in table.items() if name.startswith(theirs)), "")


def _theirs(name: str, qwen: bool) -> str:
    """What the makers call a tensor of ours."""
    table = reversed((QWEN if qwen else DEEPSEEK).items())
    return next((theirs + name.removeprefix(ours) for theirs, ours in table if name.startswith(ours)), name)


def _wide(tensors: Mapping[str, mx.array], config: Mapping[str, Any], folder: Path, qwen: bool) -> dict[str, mx.array]:
    """The tensors with those in 8-bit floats, of which each block has a scale, as bfloat16."""
    block = (config.get("quantization_config") or {}).get("weight_block_size") or (BLOCK, BLOCK)
    wide: dict[str, mx.array] = {}
    for name, value in tensors.items():
        if name.endswith("_scale_inv"):
            continue
        wide[name] = value
        if value.dtype != mx.uint8 or name.endswith(("scales", "biases")):
            continue
        scale = tensors.get(f"{name}_scale_inv")
        fits = scale is not None and scale.ndim == value.ndim and mx.issubdtype(scale.dtype, mx.floating)
        blocks = tuple(-(-n // b) for n, b in zip(value.shape[-2:], block, strict=True))
        if scale is None or not fits or scale.shape[-2:] != blocks:
            raise Problem(
                f"The MTP head in {folder} has 8-bit floats ({_theirs(name, qwen)}) without the scale of each block of "
                f"{block[0]} x {block[1]}.",
                "Fetch it in 16 bits.",
            )
        each = mx.repeat(mx.repeat(scale, block[0], axis=-2), block[1], axis=-1)
        each = each[..., : value.shape[-2], : value.shape[-1]]
        wide[name] = (mx.from_fp8(value, dtype=mx.bfloat16).astype(mx.float32) * each).astype(mx.bfloat16)
    return wide


def _stacked(tensors: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """A Qwen layer's experts as mlx-lm has them: one after the other (Qwen3-Next), or `gate_up_proj` (E, 2I, D) with
    the gates first (Qwen3.5 and after). Raises KeyError for one that is missing."""
    start, found = "layer.mlp.experts.", dict(tensors)
    mine = {n.removeprefix(start): found.pop(n) for n in tensors if n.startswith(start)}
    done: dict[str, list[tuple[int, mx.array]]] = {}
    for name, value in mine.items():
        expert, _, rest = name.partition(".")
        if expert.isdecimal():
            done.setdefault(rest, []).append((int(expert), value))
            continue
        part = f"{rest or 'weight'}"
        if expert == "gate_up_proj":
            half = value.shape[-2] // 2
            found[f"layer.mlp.switch_mlp.gate_proj.{part}"] = value[..., :half, :]
            found[f"layer.mlp.switch_mlp.up_proj.{part}"] = value[..., half:, :]
        else:
            found[f"layer.mlp.switch_mlp.{expert}.{part}"] = value
    for rest, experts in done.items():
        of = dict(experts)
        for e in range(1 + max(of)):
            if e not in of:
                raise KeyError(_theirs(f"{start}{e}.{rest}", qwen=True))
        found[f"layer.mlp.switch_mlp.{rest}"] = mx.stack([of[e] for e in range(len(of))])
    return found


def _sanitized(tensors: Mapping[str, mx.array], model: nn.Module, module: str) -> dict[str, mx.array]:
    """The layer's tensors as mlx-lm makes them of the makers' own: as if it was the only one of a model."""
    alone = SimpleNamespace(args=replace(mtp.arguments(model), num_hidden_layers=1))
    sanitize = importlib.import_module(f"mlx_lm.models.{module}").Model.sanitize
    theirs = {n.replace("layer.", "model.layers.0.", 1): v for n, v in tensors.items() if n.startswith("layer.")}
    try:
        ours = {n.replace("model.layers.0.", "layer.", 1): v for n, v in sanitize(alone, theirs).items()}
    except KeyError as e:
        raise KeyError(str(e.args[0]).removeprefix("model.layers.0.")) from e
    return {**{n: v for n, v in tensors.items() if not n.startswith("layer.")}, **ours}


def fill(network: nn.Module, tensors: Mapping[str, mx.array], folder: Path, theirs: Callable[[str], str]) -> None:
    """Give a head its tensors, quantized as they are. Raises `Problem` if one is missing, unknown or of another shape,
    and names it as the makers do."""

    def how(path: str, module: nn.Module) -> Any:
        quantized = f"{path}.scales" in tensors and hasattr(module, "to_quantized")
        return infer_quant_config(path, module, tensors) if quantized else False

    with refused(folder):
        nn.quantize(network, class_predicate=how)
    expected = dict(tree_flatten(network.parameters()))
    for name in sorted(set(tensors) - set(expected)):
        raise Problem(f"The MTP head in {folder} has a tensor that is not known: {theirs(name)}.", OTHER)
    for name in sorted(set(expected) - set(tensors)):
        raise Problem(f"The MTP head in {folder} is incomplete: {theirs(name)} is missing.", AGAIN)
    for name, value in expected.items():
        if tensors[name].shape != value.shape:
            raise Problem(
                f"The MTP head in {folder} does not fit: {theirs(name)} is {list(tensors[name].shape)} and "
                f"should be {list(value.shape)}.",
                OTHER,
            )
    network.update(tree_unflatten([(n, tensors[n]) for n in expected]))


def _drop_copies(network: mtp.Network, anatomy: Anatomy, vocabulary: int) -> None:
    """An embedding and an output layer that are the target's own, whatever each is stored as, are not kept twice."""
    ids = mx.arange(0, vocabulary, max(vocabulary // PROBE, 1))
    if "embed_tokens" in network and _same(network.embed_tokens(ids), anatomy.embedding(ids)):
        del network.embed_tokens
    if "lm_head" in network:
        x = mx.random.normal((4, anatomy.width), key=mx.random.key(0))
        if _same(project(network.lm_head, x), project(anatomy.projection, x)):
            del network.lm_head


def _same(a: mx.array, b: mx.array) -> bool:
    a, b = a.astype(mx.float32), b.astype(mx.float32)
    cosine = mx.sum(a * b) / mx.sqrt(mx.sum(a * a) * mx.sum(b * b))
    return bool(cosine > SAME)


@contextmanager
def refused(folder: Path) -> Iterator[None]:
    """What cannot be read or makes no sense is a `Problem`."""
    try:
        yield
    except KeyError as e:
        raise Problem(f"The MTP head in {folder} is incomplete: {e.args[0]} is missing.", AGAIN) from e
    except (OSError, RuntimeError, ValueError, TypeError, AttributeError, AssertionError) as e:
        raise Problem(f"The MTP head in {folder} cannot be read: {e}.", AGAIN) from e
