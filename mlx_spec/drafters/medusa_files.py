"""Medusa heads on disk: what is published, checked and read; and what we train, written the same way.

The layout is the authors' (Cai et al. 2024, arXiv 2401.10774): `{k}.{j}.linear.weight` and `.bias` are block j of head
k, and `{k}.{blocks}.weight` is its output layer. Heads and blocks are counted from the tensors, for the settings of
some uploads say fewer. Their `medusa_lm_head.pt` is a program until it is proven to be tensors: see tensors_of_bin.

Three extensions of ours, each of which may be missing: `d2t`, as EAGLE-3 has it, where the heads can say only some
of the target's tokens; no output layer, where the target's own is to be used; `{k}.turn.weight` in front of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from ..events import Problem
from .eagle_files import OTHER, Array, publish, settings, tensors_of
from .medusa import MedusaHead, MedusaHeads

PADDING = 1024  # rows more or fewer than the target has tokens that are no other vocabulary, only another padding
AGAIN = "Fetch it again."


@dataclass(frozen=True, slots=True)
class Loaded:
    """Heads and the target's ids (Vd,) of the tokens that they can say, None where they are the same."""

    heads: MedusaHeads
    ids: Array | None


def write(
    folder: Path, heads: MedusaHeads, ids: Array | None, vocabulary: int, about: dict[str, Any], bits: int | None = 8
) -> None:
    """Write `heads` with their linear weights in `bits` bits as mlx-lm writes them, or as they are. `about` goes into
    the config. Raises OSError."""
    blocks = len(heads.heads[0].blocks)
    config: dict[str, Any] = {
        "medusa_num_heads": len(heads.heads),
        "medusa_num_layers": blocks,
        "base_model_name_or_path": about.get("outrider", {}).get("target", ""),
        "vocab_size": vocabulary,
        **about,
    }
    tensors = {_public(name, blocks): value for name, value in dict(tree_flatten(heads.parameters())).items()}
    more = {} if ids is None else {"d2t": mx.array(ids.astype(np.int64) - np.arange(len(ids)))}
    publish(folder, config, tensors, more, bits)


def read(folder: Path, *, hidden: int, vocabulary: int) -> Loaded:
    """The heads in `folder`, for a target of so many features and tokens. Raises `Problem` with the reason if there
    are none, or they are damaged, or were made for another target."""
    config = settings(folder)
    tensors = {_plain(n): v for n, v in tensors_of(folder).items()}
    ids = _ids(tensors.pop("d2t", None), vocabulary, folder)
    count, blocks = _count(tensors, folder)
    heads = MedusaHeads([_head(tensors, k, blocks, hidden) for k in range(count)])
    names = {_own(name, blocks): value for name, value in tensors.items()}
    quantization = config.get("quantization")
    if quantization:
        nn.quantize(
            heads,
            int(quantization["group_size"]),
            int(quantization["bits"]),
            class_predicate=lambda path, m: f"{path}.scales" in names,
        )
    expected = dict(tree_flatten(heads.parameters()))
    for name, value in expected.items():
        if name not in names:
            raise Problem(f"The drafter in {folder} is incomplete: {_public(name, blocks)} is missing.", AGAIN)
        if names[name].shape != value.shape:
            raise Problem(
                f"The drafter in {folder} does not fit: {_public(name, blocks)} is {list(names[name].shape)} and "
                f"should be {list(value.shape)}.",
                OTHER,
            )
    for k, head in enumerate(heads.heads):
        said = head.lm_head.weight.shape[0] if "lm_head" in head else None
        if said is not None and ids is None and abs(said - vocabulary) > PADDING:
            raise Problem(
                f"The drafter in {folder} was made for a model with {said:,} tokens, and this one has {vocabulary:,}.",
                OTHER,
            )
        if said is not None and ids is not None and said != len(ids):
            raise Problem(
                f"The drafter in {folder} contradicts itself: head {k} says {said:,} tokens, and its map (d2t) has "
                f"{len(ids):,}.",
                AGAIN,
            )
    heads.update(tree_unflatten([(n, names[n]) for n in expected]))
    mx.eval(heads.parameters())
    heads.eval()
    return Loaded(heads, ids)


def _head(tensors: Mapping[str, mx.array], k: int, blocks: int, hidden: int) -> MedusaHead:
    """Head k as its tensors tell it, with no weights of its own yet."""
    output = tensors.get(f"{k}.{blocks}.weight")
    return MedusaHead(hidden, blocks, 0 if output is None else output.shape[0], f"{k}.turn.weight" in tensors)


def _count(tensors: Mapping[str, mx.array], folder: Path) -> tuple[int, int]:
    """How many heads there are, and how many blocks each has."""
    found: dict[int, set[int]] = {}
    for name in tensors:
        k, _, rest = name.partition(".")
        j, _, part = rest.partition(".")
        if k.isdecimal() and j.isdecimal() and part == "linear.weight":
            found.setdefault(int(k), set()).add(int(j))
    if not found:
        raise Problem(f"The drafter in {folder} is no Medusa head: it has no 0.0.linear.weight.", OTHER)
    blocks = 1 + max(j for js in found.values() for j in js)
    missing = [(k, j) for k in range(1 + max(found)) for j in range(blocks) if j not in found.get(k, set())]
    if missing:
        name = "{}.{}.linear.weight".format(*missing[0])
        raise Problem(f"The drafter in {folder} is incomplete: {name} is missing.", AGAIN)
    return len(found), blocks


def _ids(offsets: mx.array | None, vocabulary: int, folder: Path) -> Array | None:
    if offsets is None:
        return None
    ids = np.array(offsets).astype(np.int64).reshape(-1) + np.arange(offsets.size)
    if not len(ids) or ids.min() < 0 or ids.max() >= vocabulary or len(set(ids.tolist())) != len(ids):
        raise Problem(
            f"The drafter in {folder} maps its tokens (d2t) to ones that this model does not have.",
            "It is damaged, or was made for another model.",
        )
    return ids


def _plain(name: str) -> str:
    """Some uploads have the heads inside a model."""
    return name.removeprefix("model.").removeprefix("medusa_heads.").removeprefix("medusa_head.")


def _public(name: str, blocks: int) -> str:
    """Our name of a tensor as it is published: heads.2.blocks.0.linear.bias, heads.2.lm_head.weight."""
    name = name.removeprefix("heads.").replace(".blocks.", ".")
    return name.replace(".lm_head.", f".{blocks}.")


def _own(name: str, blocks: int) -> str:
    k, _, rest = name.partition(".")
    j, _, part = rest.partition(".")
    if j == "turn":
        return f"heads.{name}"
    return f"heads.{k}.lm_head.{part}" if j == str(blocks) else f"heads.{k}.blocks.{rest}"
