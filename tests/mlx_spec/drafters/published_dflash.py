"""Tiny random DFlash, DSpark and DFlash 2 drafters, written as their makers publish them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

Array = np.ndarray[Any, Any]
VOCABULARY, WIDTH, HEADS, KV_HEADS, HEAD_DIM, INNER, RANK = 320, 64, 4, 2, 24, 96, 12
BLOCK, MASK, WINDOW = 6, 317, 9
KINDS = ("dflash", "dspark", "dflash2")


def layers_of(config: Mapping[str, Any]) -> tuple[int, ...]:
    """The layers that the file says it reads."""
    return tuple(config.get("dflash_config", config)["target_layer_ids"])


def config(kind: str, **more: Any) -> dict[str, Any]:
    """Settings for a target of six layers; `more` go to the top."""
    base: dict[str, Any] = {
        "model_type": "qwen3", "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": INNER, "vocab_size": VOCABULARY,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 512, "num_target_layers": 6,
        "block_size": BLOCK,
    }  # fmt: skip
    own: dict[str, Any] = {"mask_token_id": MASK, "target_layer_ids": [1, 4]}
    if kind == "dspark":
        base |= {
            "architectures": ["Qwen3DSparkModel"], "markov_rank": RANK, "markov_head_type": "vanilla",
            "enable_confidence_head": True, "confidence_head_with_markov": True, **own,
        }  # fmt: skip
    else:
        base["architectures"] = ["DFlash2DraftModel" if kind == "dflash2" else "DFlashDraftModel"]
        base |= {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": WINDOW}
        if kind == "dflash2":
            own |= {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": RANK, "selector_top_k": 16}
        base["dflash_config"] = own
    return {**base, **more}


def shapes(kind: str, said: int = VOCABULARY) -> dict[str, tuple[int, ...]]:
    sizes: dict[str, tuple[int, ...]] = {
        "fc.weight": (WIDTH, 2 * WIDTH), "hidden_norm.weight": (WIDTH,), "norm.weight": (WIDTH,),
    }  # fmt: skip
    for i in range(2):
        of = {
            "self_attn.q_proj.weight": (HEADS * HEAD_DIM, WIDTH),
            "self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
            "self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
            "self_attn.o_proj.weight": (WIDTH, HEADS * HEAD_DIM),
            "self_attn.q_norm.weight": (HEAD_DIM,), "self_attn.k_norm.weight": (HEAD_DIM,),
            "mlp.gate_proj.weight": (INNER, WIDTH), "mlp.up_proj.weight": (INNER, WIDTH),
            "mlp.down_proj.weight": (WIDTH, INNER),
            "input_layernorm.weight": (WIDTH,), "post_attention_layernorm.weight": (WIDTH,),
        }  # fmt: skip
        if kind == "dflash2":
            for conv in ("attention_conv", "mlp_conv"):
                of |= {f"{conv}.base_kernel": (2, 2, WIDTH), f"{conv}.kernel_projection.weight": (16, WIDTH)}
        sizes |= {f"layers.{i}.{name}": shape for name, shape in of.items()}
    if kind == "dflash2":
        sizes |= {
            "candidate_selector.predecessor_codebook": (VOCABULARY, RANK),
            "candidate_selector.successor_codebook": (VOCABULARY, RANK),
            "candidate_selector.hidden_projection.weight": (RANK, WIDTH),
        }  # fmt: skip
    if kind == "dspark":
        sizes |= {
            "embed_tokens.weight": (VOCABULARY, WIDTH), "lm_head.weight": (said, WIDTH),
            "markov_head.markov_w1.weight": (VOCABULARY, RANK), "markov_head.markov_w2.weight": (said, RANK),
            "confidence_head.proj.weight": (1, WIDTH + RANK), "confidence_head.proj.bias": (1,),
        }  # fmt: skip
    return sizes


def tensors(sizes: Mapping[str, tuple[int, ...]], seed: int = 3) -> dict[str, Array]:
    """Random weights that keep a row's size about what it is; norms near one."""
    random = np.random.default_rng(seed)
    found = {}
    for name, shape in sizes.items():
        wide = random.normal(size=shape) * (1 if len(shape) == 1 else shape[-1] ** -0.5)
        if "norm" in name and len(shape) == 1:
            wide = 1 + 0.1 * wide
        if name.endswith("base_kernel"):
            wide = 0.3 * random.normal(size=shape) + np.array([1.0, 0.2])[None, :, None]
        if "codebook" in name or "markov_w" in name:
            wide = random.normal(size=shape)
        found[name] = wide.astype(np.float32)
    return found


def save(folder: Path, weights: Mapping[str, Array | mx.array], settings: Mapping[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), {n: mx.array(w) for n, w in weights.items()})
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def make(folder: Path, kind: str, **more: Any) -> Path:
    return save(folder, tensors(shapes(kind)), config(kind, **more))
