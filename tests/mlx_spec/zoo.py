"""A tiny random float32 model of every architecture that mlx-lm ships, made from its own ModelArgs.

`SMALL` gives sizes by field name, the same for all; `SPECIAL` what an architecture needs beyond or instead.
"""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten

VOCABULARY = 97
WINDOW = 16
LAYERS = 4
SLIDE = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]

SMALL: dict[str, Any] = {
    "hidden_size": 64, "hidden_dim": 64, "d_model": 64, "n_embd": 64, "model_dim": 64,
    "num_hidden_layers": LAYERS, "num_layers": LAYERS, "n_layers": LAYERS, "n_layer": LAYERS,
    "num_transformer_layers": LAYERS,
    "intermediate_size": 96, "ffn_hidden_size": 96, "n_inner": 96, "ff_intermediate_size": 96,
    "intermediate_size_mlp": 96, "moe_intermediate_size": 32, "expert_ffn_hidden_size": 32,
    "moe_shared_expert_intermediate_size": 32, "shared_expert_intermediate_size": 32,
    "shared_intermediate_size": 32, "dense_intermediate_size": 96, "share_expert_dim": 32,
    "num_attention_heads": 4, "num_heads": 4, "n_heads": 4, "n_head": 4,
    "num_key_value_heads": 2, "num_kv_heads": 2, "n_kv_heads": 2, "num_attention_groups": 2,
    "head_dim": 16, "global_head_dim": 16, "hidden_size_per_head": 16, "kv_channels": 16, "v_head_dim": 16,
    "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "kv_lora_rank": 16, "q_lora_rank": 24, "rotary_dim": 8,
    "index_head_dim": 16, "index_n_heads": 2, "index_topk": 24,
    "vocab_size": VOCABULARY, "num_vocab": VOCABULARY, "vocab_size_per_layer_input": VOCABULARY,
    "max_position_embeddings": 512, "original_max_position_embeddings": 512, "n_positions": 512, "n_ctx": 512,
    "block_size": 512, "model_max_length": 512,
    "rms_norm_eps": 1e-5, "layer_norm_eps": 1e-5, "layer_norm_epsilon": 1e-5, "layernorm_epsilon": 1e-5,
    "norm_eps": 1e-5, "norm_epsilon": 1e-5,
    "rope_theta": 10000.0, "rope_scaling": None, "partial_rotary_factor": 0.5, "rotary_emb_base": 10000,
    "rotary_pct": 0.5,
    "attention_bias": False, "mlp_bias": False, "use_bias": False, "use_qkv_bias": False, "use_qk_norm": True,
    "qk_norm": True, "post_norm": False, "tie_word_embeddings": False,
    "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4,
    "num_experts_per_tok": 2, "num_experts_per_token": 2, "moe_topk": 2, "moe_k": 2, "moe_top_k": 2,
    "n_shared_experts": 1, "num_shared_experts": 1, "num_shared_expert": 1,
    "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "first_k_dense_replace": 1,
    "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0, "moe_layer_freq": 1, "num_dense_layers": 1,
    "sliding_window": WINDOW, "sliding_window_size": WINDOW, "attention_window_size": WINDOW,
    "window_size": WINDOW, "sliding_window_pattern": 4, "layer_types": SLIDE,
    "logits_scaling": 1.0, "attention_multiplier": 0.25, "embedding_multiplier": 1.0, "residual_multiplier": 1.0,
    "scale_depth": 1.4, "scale_emb": 1.0, "dim_model_base": 64, "rope_parameters": None,
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16,
    "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4,
    "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_expand": 2, "mamba_num_heads": 4, "mamba_n_heads": 4,
    "mamba_d_head": 32, "mamba_head_dim": 16, "mamba_n_groups": 1, "mamba_d_ssm": 128, "ssm_state_size": 16,
    "mamba_proj_bias": False, "mamba_conv_bias": True, "mamba_chunk_size": 16, "state_size": 16,
    "conv_kernel": 4, "time_step_rank": 4, "use_conv_bias": True, "n_groups": 1, "short_conv_kernel_size": 4,
    "conv_bias": False, "conv_L_cache": 3, "layer_group_size": 2, "group_norm_size": 2,
}  # fmt: skip

LINEAR = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
SWA_ROPE = {"sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
            "full_attention": {"rope_theta": 10000.0, "rope_type": "default"}}  # fmt: skip
YARN = {"type": "yarn", "rope_type": "yarn", "factor": 2.0, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32,
        "beta_slow": 1, "rope_theta": 10000.0, "original_max_position_embeddings": 64,
        "llama_4_scaling_beta": 0.1}  # fmt: skip
KDA = {"num_heads": 2, "head_dim": 32, "kda_layers": [1, 2, 3], "full_attn_layers": [4], "short_conv_kernel_size": 4}
CONV = ["conv", "conv", "full_attention", "conv"]
LFM = {"block_dim": 64, "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False,
       "block_ff_dim": 96, "layer_types": CONV, "full_attn_idxs": [2]}  # fmt: skip
LLAMA4 = {"attention_chunk_size": WINDOW, "interleave_moe_layer_step": 2, "num_experts_per_tok": 1}
SHORTCUT = {"attention_method": "MLA", "zero_expert_type": "identity", "zero_expert_num": 2,
            "mla_scale_q_lora": True, "mla_scale_kv_lora": True, "ngram_vocab_size_ratio": 3}  # fmt: skip
SPECIAL: dict[str, dict[str, Any]] = {
    "afm7": {"num_kv_reuse_layers": 1},
    "baichuan_m1": {"sliding_window_layers": [1, 3], "conv_window": 2},
    "bailing_hybrid": {"head_dim": 16},
    "dbrx": {
        "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
    },
    "deepseek_v2": {"rope_scaling": YARN, "topk_method": "greedy"},
    "deepseek_v41": {"sliding_window": WINDOW},
    "exaone4": {"sliding_window_pattern": "LLLG"},
    "exaone_moe": {"is_moe_layer": [False, True, True, True]},
    "gemma3n:TextConfig": {
        "num_kv_shared_layers": 0, "rope_local_base_freq": 10000.0, "final_logit_softcapping": 30.0,
        "activation_sparsity_pattern": [0.9, 0.0, 0.0, 0.0], "hidden_size_per_layer_input": 16,
        "altup_num_inputs": 2, "altup_coef_clip": 120.0, "altup_correct_scale": True, "altup_active_idx": 0,
        "laurel_rank": 8, "intermediate_size": [96, 96, 96, 96],
    },
    "gemma4_text": {"num_kv_shared_layers": 0, "hidden_size_per_layer_input": 16, "rope_parameters": SWA_ROPE},
    "glm_moe_dsa": {
        "topk_method": "noaux_tc", "scoring_func": "sigmoid", "rope_parameters": {"rope_theta": 10000.0},
    },
    "granitemoehybrid": {"layer_types": ["mamba", "mamba", "attention", "mamba"], "attention_multiplier": 0.25},
    "hunyuan": {
        "use_mixed_mlp_moe": True, "use_cla": True, "cla_share_factor": 2, "moe_intermediate_size": None,
        "rope_scaling": {"alpha": 1.0, "factor": 1.0, "type": "dynamic"},
    },
    "iquestloopcoder": {"loop_window_size": WINDOW},
    "jamba": {
        "attn_layer_offset": 2, "attn_layer_period": 4, "expert_layer_offset": 1, "expert_layer_period": 2,
    },
    "kimi_k3:TextArgs": {"linear_attn_config": KDA, "num_attention_heads": 2, "num_key_value_heads": 2,
                         "attn_res_block_size": 2},
    "kimi_linear": {"linear_attn_config": KDA},
    "lfm2": LFM,
    "lfm2_moe": {"use_expert_bias": True, "layer_types": CONV, "full_attn_idxs": [2]},
    "llama4:TextArgs": LLAMA4,
    "llama4_text": {"no_rope_layers": [1, 1, 1, 0]},
    "longcat_flash": SHORTCUT,
    "longcat_flash_ngram": SHORTCUT,
    "mamba2": {"time_step_limit": (0.0, 100.0), "num_heads": 4, "head_dim": 32, "ssm_state_size": 16,
               "intermediate_size": 128},
    "mellum": {"rope_parameters": SWA_ROPE},
    "mimo_v2_flash": {
        "hybrid_layer_pattern": [1, 1, 1, 0], "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
        "swa_rope_theta": 10000.0, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2,
        "swa_head_dim": 16, "swa_v_head_dim": 16, "moe_layer_freq": [0, 1, 1, 1],
    },
    "minicpm3": {"rope_scaling": {"type": "longrope", "original_max_position_embeddings": 512,
                                  "short_factor": [1.0] * 4, "long_factor": [1.0] * 4}},
    "minimax_m3_vl:TextArgs": {"moe_layer_freq": [0, 1, 1, 1], "rotary_dim": 8, "layer_types": None,
                               "index_n_heads": None, "index_head_dim": None},
    "ministral3": {"rope_parameters": YARN},
    "mistral4": {"rope_parameters": YARN},
    "muse_spark:TextArgs": {
        "post_norm_eps": 1e-5, "layer_rope_theta": [10000.0] * 4, "final_logit_softcapping": 20.0,
        "output_multiplier": 0.2, "moe_hidden_size": 32,
        "mlp_layer_types": ["sparse"] * 4, "num_shared_experts": 0, "rope_parameters": {"rope_theta": 10000.0},
    },
    "nemotron": {"hidden_act": "relu2"},
    "nemotron-nas": {
        "block_configs": [
            {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1.5}},
            {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}},
            {"attention": {"n_heads_in_group": 4}, "ffn": {"no_op": True}},
            {"attention": {"replace_with_linear": True}, "ffn": {"replace_with_linear": True}},
        ]
    },
    "nemotron_h": {"layer_types": ["mamba", "attention", "mlp", "mamba"], "time_step_limit": (0.0, 100.0),
                   "moe_latent_size": None},
    "olmo_hybrid": {"layer_types": LINEAR, "linear_allow_neg_eigval": True, "linear_num_value_heads": 2},
    "openelm": {"ffn_dim_divisor": 8, "num_query_heads": [4] * 4, "num_kv_heads": [2] * 4,
                "ffn_multipliers": [1.0, 1.5, 2.0, 2.0]},
    "phi3small": {"dense_attention_every_n_layers": 2, "gegelu_limit": 20.0, "blocksparse_block_size": 32,
                  "blocksparse_num_local_blocks": 2, "blocksparse_vert_stride": 4},
    "plamo": {"n_shared_head": 2},
    "prism_hadamard_qwen35": {"schema_version": 2, "tensor_namespace": "mlx-vlm-qwen3_5"},
    "recurrent_gemma": {"conv1d_width": 4, "logits_soft_cap": 30.0,
                        "block_types": ["recurrent", "recurrent", "attention"]},
    "rwkv7": {"a_low_rank_dim": 8, "v_low_rank_dim": 8, "gate_low_rank_dim": 8, "decay_low_rank_dim": 8},
    "spark2_5": {"rope_parameters": SWA_ROPE},
    "step3p5": {"partial_rotary_factors": None},
}  # fmt: skip
TEXT: dict[str, str] = {  # whose ModelArgs a text_config is of
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n:TextConfig",
    "gemma4": "gemma4_text",
    "kimi_k25": "deepseek_v3",
    "kimi_k3": "kimi_k3:TextArgs",
    "kimi_vl": "deepseek_v3",
    "lfm2-vl": "lfm2",
    "llama4": "llama4:TextArgs",
    "minimax_m3_vl": "minimax_m3_vl:TextArgs",
    "mistral3": "ministral3",
    "muse_spark": "muse_spark:TextArgs",
    "pixtral": "llama",
    "prism_hadamard_qwen35": "qwen3_5:TextModelArgs",
    "qwen2_vl": "qwen2",
    "qwen3_5": "qwen3_5:TextModelArgs",
    "qwen3_5_moe": "qwen3_5:TextModelArgs",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
}
# Not a model of its own, or not to be run here, and why.
NOT_RUN = {
    "bitnet": "its ternary layers have a Metal kernel only",
    "muse_spark": "its fused norm has a Metal kernel only",
    "olmo": "needs the package ai2-olmo",
    "phi3small": "its block-sparse attention corrupts memory in mlx's CPU build",
    "prism_hadamard_qwen35": "packs of 2-bit weights only; its layers and caches are those of qwen3_5",
}
HELPERS = {
    "activations", "base", "bitlinear_layers", "cache", "gated_delta", "mla", "pipeline", "rope_utils", "ssm",
    "switch_layers",
}  # fmt: skip


def architectures() -> list[str]:
    """Every model file of the installed mlx-lm."""
    import mlx_lm.models

    folder = Path(mlx_lm.models.__file__ or "").parent
    return sorted(f.stem for f in folder.glob("*.py") if f.stem not in HELPERS and f.stem != "__init__")


def config(name: str, arguments: str = "") -> dict[str, Any]:
    """A config.json of a tiny model. `arguments` is "module:Class" where that is not ModelArgs of `name`."""
    module, _, cls = (arguments or name).partition(":")
    args = getattr(importlib.import_module(f"mlx_lm.models.{module}"), cls or "ModelArgs")
    made: dict[str, Any] = {"model_type": module}
    for field in dataclasses.fields(args):
        if field.name in SMALL:
            made[field.name] = SMALL[field.name]
    if "text_config" in {f.name for f in dataclasses.fields(args)}:
        made["text_config"] = config(name, TEXT[name])
    made.update(SPECIAL.get(arguments or name, {}))
    return made


def build(name: str, seed: int = 0, **changes: Any) -> nn.Module:
    """A tiny random model with float32 weights, sharp enough that its text is not one token over and over."""
    module = importlib.import_module(f"mlx_lm.models.{name}")
    mx.random.seed(seed)
    model: nn.Module = module.Model(module.ModelArgs.from_dict({**config(name), **changes}))
    weights = []
    for i, (key, value) in enumerate(tree_flatten(model.parameters())):
        if mx.issubdtype(value.dtype, mx.floating):
            value = value.astype(mx.float32)
            noise = mx.random.normal(value.shape, key=mx.random.key(1000 * seed + i))
            if value.ndim > 1:
                value = noise * (1.5 / value.shape[-1] ** 0.5) if value.shape[-1] > 4 else value + 0.1 * noise
                if "embed" in key or "wte" in key or "lm_head" in key:
                    value = 0.3 * noise
            else:
                value = value + 0.1 * noise
        weights.append((key, value))
    model.update(tree_unflatten(weights))
    model.eval()
    mx.eval(model.parameters())
    return model
