"""Multi-token prediction: the head that a model's makers trained along with it, which says the token after the next.

DeepSeek-V3 (arXiv 2412.19437, section 2.2). A row for the place t norms the state that the target's output layer read
at t and the embedding of the token at t + 1, joins the two, and runs one decoder layer of the target's own kind over
the result; what comes out is normed and read by the target's output layer. There are two families:
- Qwen3-Next and those after it: a layer with full attention, whatever the target's others are; what was normed is fed
  back in the next step.
- DeepSeek-V3 and GLM-4.5 and after: what is fed back is not normed, and the first row of a text reads no token.

The layers are mlx-lm's own. Knows tensors and states; files are read elsewhere (mtp_files.py).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.base import create_attention_mask

from ..anatomy import Anatomy, project
from ..precision import suit

# The decoder layers that heads are known of, by the module of mlx-lm that the target's layers are of.
QWEN = {"qwen3_next": "Qwen3NextDecoderLayer", "qwen3_5": "DecoderLayer"}
DEEPSEEK = {
    "deepseek_v3": "DeepseekV3DecoderLayer",
    "glm4_moe": "DecoderLayer",
    "glm4_moe_lite": "Glm4MoeLiteDecoderLayer",
}


class Network(nn.Module):
    """The head itself, D features wide; `qwen` is the family. Where `embed_tokens` or `lm_head` are missing, the
    target's own are used."""

    def __init__(self, layer: nn.Module, width: int, eps: float, *, qwen: bool) -> None:
        super().__init__()
        self.norm_token = nn.RMSNorm(width, eps)
        self.norm_state = nn.RMSNorm(width, eps)
        self.join = nn.Linear(2 * width, width, bias=False)
        self.layer = layer
        self.norm = nn.RMSNorm(width, eps)
        self._qwen = qwen
        self._latent = hasattr(layer.self_attn, "kv_lora_rank")  # such an attention adds its mask to scores itself

    def __call__(self, embedded: mx.array, hidden: mx.array, cache: Any) -> tuple[mx.array, mx.array]:
        """Rows (1, n, D) on top of `cache`: what the output layer reads, and what is fed back."""
        if not self._qwen and cache.offset == 0:
            embedded = mx.concatenate([mx.zeros_like(embedded[:, :1]), embedded[:, 1:]], axis=1)
        x = self.join(mx.concatenate([self.norm_token(embedded), self.norm_state(hidden)], axis=-1))
        x = self.layer(x, create_attention_mask(x, cache, return_array=self._latent), cache)
        normed = self.norm(x)
        return normed, (normed if self._qwen else x)


def module_of(layers: Sequence[Any]) -> str:
    """The module of mlx-lm that a target's layers are of."""
    return type(layers[-1]).__module__.rpartition(".")[2] if layers else ""


def known(layers: Sequence[Any]) -> bool:
    """Whether heads of a target with such layers are."""
    return module_of(layers) in QWEN or module_of(layers) in DEEPSEEK


def arguments(model: nn.Module) -> Any:
    """mlx-lm's settings of the model that writes, which one that sees images wraps."""
    found = getattr(model, "args", None)
    return found if hasattr(found, "hidden_size") else model.language_model.args


def fresh(model: nn.Module, anatomy: Anatomy, *, experts: bool) -> Network:
    """A head for the target with no weights of its own yet. `experts` says whether a Qwen's layer has some; that of
    the other family has them where the target's next layer would."""
    args, module = arguments(model), module_of(anatomy.layers)
    cls = getattr(importlib.import_module(f"mlx_lm.models.{module}"), (QWEN | DEEPSEEK)[module])
    if module in QWEN:
        always = {"full_attention_interval": 1, "decoder_sparse_step": 1, "mlp_only_layers": []}
        always["num_experts"] = args.num_experts if experts else 0
        layer = cls(replace(args, **{k: v for k, v in always.items() if hasattr(args, k)}), 0)
    else:
        layer = cls(args, len(anatomy.layers))
    return Network(layer, anatomy.width, args.rms_norm_eps, qwen=module in QWEN)


class MTP:
    """See `feature.Head`: the head with the target's embedding in front and its output layer behind. It reads what
    the target's output layer reads. Of several layers the first drafts every token."""

    depth = 1

    def __init__(self, network: Network, anatomy: Anatomy, vocabulary: int) -> None:
        self.network, self._anatomy, self._vocabulary = network, anatomy, vocabulary
        self.taps: tuple[int, ...] = (len(anatomy.layers),)
        self._own = anatomy.embedding(mx.zeros((1,), mx.uint32)).dtype
        gate: Any = getattr(network.layer.mlp, "gate", None)
        bias = None if gate is None else gate.get("e_score_correction_bias")
        self._dtype = suit(network, self._own)
        if bias is not None:
            gate.e_score_correction_bias = bias.astype(mx.float32)  # in 16 bits it would choose other experts

    def fuse(self, states: Sequence[mx.array]) -> mx.array:
        """There is one, and a row norms it itself."""
        return states[0].astype(self._dtype)

    def embed(self, ids: mx.array) -> mx.array:
        embedding: Any = getattr(self.network, "embed_tokens", self._anatomy.embedding)
        embedded: mx.array = embedding(ids)
        return embedded.astype(self._dtype)

    def __call__(self, embedded: mx.array, hidden: mx.array, caches: Sequence[Any]) -> tuple[mx.array, mx.array]:
        return self.network(embedded, hidden, caches[0])

    def say(self, rows: mx.array) -> mx.array:
        if "lm_head" in self.network:
            logits = project(self.network.lm_head, rows)
        else:
            logits = self._anatomy.head(rows.astype(self._own))
        return logits[:, : self._vocabulary].astype(mx.float32)
