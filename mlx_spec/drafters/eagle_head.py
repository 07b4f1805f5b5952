"""The network of an EAGLE-3 drafter: one decoder layer that reads the target's hidden states.

Li et al. 2025, "EAGLE-3" (arXiv 2503.01840). A row stands for a place t of the text. It joins what the target thought
there (its states after three layers, fused by `fc`) with the token that came next, and says which token comes after
that one. Drafting on, the network's own output stands for the target's states, which nobody knows yet.

Knows tensors and shapes; files are read elsewhere (eagle_files.py), drafting is elsewhere (eagle.py), and so is
training (train/eagle.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.rope_utils import initialize_rope


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes and habits of a head. D is the target's hidden size, d the head's own."""

    hidden: int  # d
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int  # Vd: the tokens that it can say
    target_hidden: int  # D
    taps: tuple[int, ...]  # layers of the target whose OUTPUT is read, 0 the first
    layers: int = 1
    eps: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    positions: int = 2048
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    norm_each: bool = False  # EAGLE-3.1: each state is normed (`fc_norm`) before they are fused
    norm_output: bool = False  # EAGLE-3.1: the normed output is fed back, not the one before the norm
    bias: bool = False


def default_taps(layers: int) -> tuple[int, int, int]:
    """The states that the authors read, as outputs of layers: low, middle, high. They take what goes into the
    layers 2, L/2 and L-3."""
    return (1, max(layers // 2 - 1, 1), max(layers - 4, 1))


class Attention(nn.Module):
    def __init__(self, shape: Shape, inner: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = shape.heads, shape.kv_heads, shape.head_dim
        self.q_proj = nn.Linear(inner, shape.heads * shape.head_dim, bias=shape.bias)
        self.k_proj = nn.Linear(inner, shape.kv_heads * shape.head_dim, bias=shape.bias)
        self.v_proj = nn.Linear(inner, shape.kv_heads * shape.head_dim, bias=shape.bias)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=False)
        self.rope = initialize_rope(shape.head_dim, shape.rope_theta, False, shape.rope_scaling, shape.positions)

    def split(self, x: mx.array, offset: int) -> tuple[mx.array, mx.array, mx.array]:
        """Queries, keys and values (batch, heads, rows, head_dim), the first row at `offset`."""
        b, n, _ = x.shape
        q = self.q_proj(x).reshape(b, n, self.heads, -1).transpose(0, 2, 1, 3)
        k = self.k_proj(x).reshape(b, n, self.kv_heads, -1).transpose(0, 2, 1, 3)
        v = self.v_proj(x).reshape(b, n, self.kv_heads, -1).transpose(0, 2, 1, 3)
        return self.rope(q, offset=offset), self.rope(k, offset=offset), v

    def join(self, x: mx.array) -> mx.array:
        """(batch, heads, rows, head_dim) to the residual's width."""
        b, _, n, _ = x.shape
        out: mx.array = self.o_proj(x.transpose(0, 2, 1, 3).reshape(b, n, -1))
        return out

    def __call__(self, x: mx.array, cache: Any) -> mx.array:
        q, k, v = self.split(x, cache.offset)
        k, v = cache.update_and_fetch(k, v)
        mask = "causal" if x.shape[1] > 1 else None
        return self.join(mx.fast.scaled_dot_product_attention(q, k, v, scale=self.head_dim**-0.5, mask=mask))


class MLP(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        out: mx.array = self.down_proj(nn.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """The first layer reads [embedding; hidden]; those after it (P-EAGLE has some) are plain Llama layers."""

    def __init__(self, shape: Shape, first: bool) -> None:
        super().__init__()
        self.self_attn = Attention(shape, 2 * shape.hidden if first else shape.hidden)
        self.mlp = MLP(shape)
        if first:
            self.hidden_norm = nn.RMSNorm(shape.hidden, shape.eps)
        self.input_layernorm = nn.RMSNorm(shape.hidden, shape.eps)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, shape.eps)
        self._residual_normed = shape.norm_before_residual

    def enter(self, hidden: mx.array, embedded: mx.array | None) -> tuple[mx.array, mx.array]:
        """What goes into the attention, and what is added to what comes out of it."""
        if embedded is None:
            return self.input_layernorm(hidden), hidden
        normed = self.hidden_norm(hidden)
        joined = mx.concatenate([self.input_layernorm(embedded), normed], axis=-1)
        return joined, (normed if self._residual_normed else hidden)

    def leave(self, attended: mx.array, residual: mx.array) -> mx.array:
        h = residual + attended
        return h + self.mlp(self.post_attention_layernorm(h))


class EagleHead(nn.Module):
    """`d2t` (Vd,) has for each token of the head the target's id less its own; None where they are the same."""

    def __init__(self, shape: Shape, own_embedding: int = 0) -> None:
        super().__init__()
        self.shape = shape
        states = len(shape.taps)
        self.fc = nn.Linear(states * shape.target_hidden, shape.hidden, bias=False)
        if shape.norm_each:
            self.fc_norm = [nn.RMSNorm(shape.target_hidden, shape.eps) for _ in range(states)]
        if shape.norm_before_fc:
            self.input_norm = nn.RMSNorm(states * shape.target_hidden, shape.eps)
        self.layers = [Layer(shape, first=i == 0) for i in range(shape.layers)]
        self.norm = nn.RMSNorm(shape.hidden, shape.eps)
        self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        if own_embedding:
            self.embed_tokens = nn.Embedding(own_embedding, shape.hidden)

    def fuse(self, states: Sequence[mx.array]) -> mx.array:
        """The target's states after the layers `taps`, each (..., D), as one (..., d)."""
        if self.shape.norm_each:
            states = [norm(s) for norm, s in zip(self.fc_norm, states, strict=True)]
        joined = mx.concatenate(list(states), axis=-1)
        if self.shape.norm_before_fc:
            joined = self.input_norm(joined)
        fused: mx.array = self.fc(joined)
        return fused

    def __call__(self, embedded: mx.array, hidden: mx.array, caches: Sequence[Any]) -> tuple[mx.array, mx.array]:
        """(1, n, d) each; `caches` has one for a layer. Returns what the head reads, and what is fed back."""
        x: mx.array = hidden
        first: mx.array | None = embedded
        for layer, cache in zip(self.layers, caches, strict=True):
            inner, residual = layer.enter(x, first)
            x, first = layer.leave(layer.self_attn(inner, cache), residual), None
        return self.outcome(x)

    def outcome(self, x: mx.array) -> tuple[mx.array, mx.array]:
        normed = self.norm(x)
        return normed, (normed if self.shape.norm_output else x)
