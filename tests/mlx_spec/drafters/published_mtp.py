"""Tiny random targets with MTP heads as their makers publish them, shapes and names written out by hand.

D 64; 4 heads of queries and 2 of keys, 16 wide; 4 experts of 32 features, 2 of them used; 320 tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from .. import zoo
from ..tiny import tiny_llama

Array = np.ndarray[Any, Any]
VOCABULARY, WIDTH, EXPERTS = 320, 64, 4
TARGETS = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "glm4_moe", "glm4_moe_lite", "deepseek_v3")
QWEN = ("qwen3_next", "qwen3_5", "qwen3_5_moe")
NORMS = ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm", "layers.0.input_layernorm",
         "layers.0.post_attention_layernorm", "layers.0.self_attn.q_norm", "layers.0.self_attn.k_norm")  # fmt: skip


def config(name: str, **more: Any) -> dict[str, Any]:
    """A config.json; that of `qwen3_5` has no experts."""
    made = zoo.config(name)
    text = made.get("text_config", made)
    text["vocab_size"] = VOCABULARY
    if name == "qwen3_5":
        text["num_experts"] = 0
    return {**made, "eos_token_id": 2, "num_nextn_predict_layers": 1, **more}


def target(folder: Path, name: str, **more: Any) -> Path:
    """Write a target, converted to MLX, without its head."""
    tiny_llama(folder)  # for its tokenizer
    settings = config(name, **more)
    model = zoo.build(name, **settings)
    save(folder, dict(tree_flatten(model.parameters())), {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def save(folder: Path, tensors: Mapping[str, mx.array], about: dict[str, str], file: str = "model") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / f"{file}.safetensors"), dict(tensors), about)
    return folder


def head(folder: Path, name: str, tensors: Mapping[str, mx.array] | None = None, **more: Any) -> Path:
    """Write a folder with the makers' own tensors of the head of such a target."""
    prefix = "mtp." if name in QWEN else "model.layers.4."
    save(folder, {prefix + n: v for n, v in (tensors or raw(name)).items()}, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config(name, **more)))
    return folder


def raw(name: str) -> dict[str, mx.array]:
    """The head's tensors as they are published, without the beginnings of their names."""
    return {n: mx.array(v) for n, v in arrays(name).items()}


@lru_cache
def arrays(name: str) -> dict[str, Array]:
    rng = np.random.default_rng(7)
    made: dict[str, Array] = {}
    for tensor, shape in (qwen(name) if name in QWEN else deepseek(name)).items():
        value = rng.normal(size=shape)
        if len(shape) > 1:
            value *= 1.5 / shape[-1] ** 0.5
        elif "norm" in tensor:
            value = 0.3 * value + (0 if name in QWEN else 1)
        made[tensor] = value.astype(np.float32)
    return made


def qwen(name: str) -> dict[str, tuple[int, ...]]:
    start = "layers.0."
    shapes: dict[str, tuple[int, ...]] = {f"{n}.weight": (16 if "_norm" in n[-6:] else WIDTH,) for n in NORMS}
    shapes |= {f"{n}.weight": (WIDTH,) for n in NORMS[:3]}
    shapes |= {
        "fc.weight": (WIDTH, 2 * WIDTH),
        f"{start}self_attn.q_proj.weight": (2 * 64, WIDTH), f"{start}self_attn.k_proj.weight": (32, WIDTH),
        f"{start}self_attn.v_proj.weight": (32, WIDTH), f"{start}self_attn.o_proj.weight": (WIDTH, 64),
    }  # fmt: skip
    if name == "qwen3_5":
        return shapes | gated(f"{start}mlp.", 96)
    shapes |= gated(f"{start}mlp.shared_expert.", 32)
    shapes |= {f"{start}mlp.gate.weight": (EXPERTS, WIDTH), f"{start}mlp.shared_expert_gate.weight": (1, WIDTH)}
    if name == "qwen3_next":
        for e in range(EXPERTS):
            shapes |= gated(f"{start}mlp.experts.{e}.", 32)
        return shapes
    return shapes | {
        f"{start}mlp.experts.gate_up_proj": (EXPERTS, 64, WIDTH), f"{start}mlp.experts.down_proj": (EXPERTS, WIDTH, 32),
    }  # fmt: skip


def deepseek(name: str) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "eh_proj.weight": (WIDTH, 2 * WIDTH), "enorm.weight": (WIDTH,), "hnorm.weight": (WIDTH,),
        "shared_head.norm.weight": (WIDTH,), "input_layernorm.weight": (WIDTH,),
        "post_attention_layernorm.weight": (WIDTH,), "mlp.gate.weight": (EXPERTS, WIDTH),
        "mlp.gate.e_score_correction_bias": (EXPERTS,), **gated("mlp.shared_experts.", 32),
        "self_attn.o_proj.weight": (WIDTH, 64),
    }  # fmt: skip
    for e in range(EXPERTS):
        shapes |= gated(f"mlp.experts.{e}.", 32)
    if name == "glm4_moe":
        return shapes | {
            "self_attn.q_proj.weight": (64, WIDTH), "self_attn.k_proj.weight": (32, WIDTH),
            "self_attn.v_proj.weight": (32, WIDTH), "self_attn.q_norm.weight": (16,), "self_attn.k_norm.weight": (16,),
        }  # fmt: skip
    return shapes | {
        "self_attn.q_a_proj.weight": (24, WIDTH), "self_attn.q_a_layernorm.weight": (24,),
        "self_attn.q_b_proj.weight": (4 * (16 + 8), 24), "self_attn.kv_a_proj_with_mqa.weight": (16 + 8, WIDTH),
        "self_attn.kv_a_layernorm.weight": (16,), "self_attn.kv_b_proj.weight": (4 * (16 + 16), 16),
    }  # fmt: skip


def gated(start: str, inner: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{start}gate_proj.weight": (inner, WIDTH), f"{start}up_proj.weight": (inner, WIDTH),
        f"{start}down_proj.weight": (WIDTH, inner),
    }  # fmt: skip


def converted(name: str, bits: int | None = None) -> dict[str, mx.array]:
    """A Qwen's head as a conversion to MLX has it: norms with 1 added, experts in one, linear weights in few bits."""
    made: dict[str, mx.array] = {}
    for tensor, value in raw(name).items():
        if tensor.removesuffix(".weight") in NORMS:
            value = value + 1
        if ".experts." in tensor and name == "qwen3_next":
            start, _, rest = tensor.partition("experts.")
            expert, _, part = rest.partition(".")
            if expert == "0":
                each = [raw(name)[f"{start}experts.{e}.{part}"] for e in range(EXPERTS)]
                made[f"{start}switch_mlp.{part}"] = mx.stack(each)
        elif tensor.endswith("experts.gate_up_proj"):
            start = tensor.replace("experts.gate_up_proj", "switch_mlp.")
            made |= {f"{start}gate_proj.weight": value[:, :32], f"{start}up_proj.weight": value[:, 32:]}
        elif tensor.endswith("experts.down_proj"):
            made[tensor.replace("experts.down_proj", "switch_mlp.down_proj.weight")] = value
        else:
            made[tensor] = value
    if bits:
        for tensor in [n for n, v in made.items() if v.ndim > 1 and v.shape[-1] % 32 == 0]:
            stem = tensor.removesuffix(".weight")
            packed = mx.quantize(made[tensor], group_size=32, bits=bits)
            made |= {tensor: packed[0], f"{stem}.scales": packed[1], f"{stem}.biases": packed[2]}
    return made
