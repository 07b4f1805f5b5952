"""Gemma 4's assistants on disk, as Google publishes them and as they are converted to MLX: checked and read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.gemma4_text import ModelArgs

from ..anatomy import Anatomy
from ..events import Problem
from .assistant import Assistant, sources
from .eagle_files import OTHER, settings, tensors_of
from .mtp import arguments, module_of
from .mtp_files import fill, refused

TYPES = ("gemma4_assistant", "gemma4_unified_assistant")
OURS = ("pre_projection.", "post_projection.", "masked_embedding.")  # all others are of the model within


def told_by(config: Mapping[str, Any]) -> bool:
    return config.get("model_type") in TYPES


def read(folder: Path, model: nn.Module, anatomy: Anatomy, vocabulary: int) -> Assistant:
    """The assistant in `folder` for the target. Raises `Problem` with the reason if it is damaged, or was made for
    another."""
    if module_of(anatomy.layers) != "gemma4_text":
        raise Problem(f"The MTP head in {folder} was made for a Gemma 4.", OTHER)
    config = settings(folder)
    names = {_ours(n): v for n, v in tensors_of(folder).items()}
    if config.get("tie_word_embeddings", True):
        names.pop("lm_head.weight", None)
    if "token_ordering" in names:
        names["token_ordering"] = names["token_ordering"].astype(mx.int32)
    with refused(folder):
        text = dict(config["text_config"])
        if not any("per_layer" in n for n in names):
            text["hidden_size_per_layer_input"] = 0
        args, theirs = ModelArgs.from_dict(text), _target_args(model)
        width = int(config["backbone_hidden_size"])
        groups = int(config.get("num_centroids") or 2048) if "centroids.weight" in names else 0
        best = min(int(config.get("centroid_intermediate_top_k") or 32), groups)
    if width != anatomy.width or args.vocab_size != vocabulary:
        raise Problem(
            f"The MTP head in {folder} was made for a model with {width} features and {args.vocab_size:,} tokens, and "
            f"this one has {anatomy.width} and {vocabulary:,}.",
            OTHER,
        )
    if groups and args.vocab_size % groups:
        raise Problem(f"The MTP head in {folder} contradicts itself: {groups} groups do not divide its tokens.", OTHER)
    _check_attention(args, theirs, folder)
    with refused(folder):
        network = Assistant(args, width, groups, best)
    fill(network, names, folder, _theirs)
    mx.eval(network.parameters())
    network.eval()
    return network


def _target_args(model: nn.Module) -> ModelArgs:
    found: ModelArgs = arguments(model)
    return found


def _check_attention(args: ModelArgs, target: ModelArgs, folder: Path) -> None:
    """Its queries must fit the target's keys."""
    known = sources(target)
    for kind in args.layer_types[: args.num_hidden_layers]:
        full = kind == "full_attention"
        ours, theirs = (a.global_head_dim if full and a.global_head_dim else a.head_dim for a in (args, target))
        shared = target.num_global_key_value_heads if full and target.attention_k_eq_v else None
        heads = shared or target.num_key_value_heads
        if kind not in known or ours != theirs or args.num_attention_heads % heads:
            raise Problem(f"The MTP head in {folder} was made for another model: its {kind} does not fit.", OTHER)


def _ours(name: str) -> str:
    return name.removeprefix("model.").removeprefix("masked_embedding.")


def _theirs(name: str) -> str:
    if name.startswith(("centroids.", "token_ordering")):
        return f"masked_embedding.{name}"
    return name if name.startswith(OURS) else f"model.{name}"
