"""The network of a DFlash drafter: a few layers that fill in a whole block of tokens in one pass.

Chen et al. 2026, "DFlash: Block Diffusion for Flash Speculative Decoding" (arXiv 2602.06036). A block is the newest
token with masks behind it. A layer's rows see each other and the context: what the target thought at every place
before, its states after some layers fused to one row (`fuse`). All layers read the same context rows, each through its
own keys and values, and nothing of a block stays.

Two later kinds have the same layers and something behind them that knows the draft before:
- DSpark adds to each row's logits what usually follows that token (`Markov`), and says how likely the draft is to hold
  (`confidence_head`).
- DFlash 2 mixes each row of a block with those before it in front of and behind each part of a layer (`Conv`), and
  chooses among a row's likeliest tokens by the one before (`Selector`).

Knows tensors and shapes; files are read elsewhere (dflash_files.py), and drafting is elsewhere (dflash.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.qwen3 import MLP
from mlx_lm.models.rope_utils import initialize_rope

# Takes the keys and values (batch, heads, n, head_dim) of a block; gives those that its rows may see, context and
# block, and a mask (..., n, all) of which of them, or None for all.
See = Callable[[mx.array, mx.array], tuple[mx.array, mx.array, mx.array | None]]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes and habits of a network. D is the target's hidden size, d its own."""

    hidden: int  # d
    target_hidden: int  # D
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    taps: tuple[int, ...]  # layers of the target whose OUTPUT is read, 0 the first
    block: int  # rows that it was trained with, that of the newest token among them
    mask: int  # the token of the other rows
    first: int  # the row that says the first draft: 0 is the newest token's own, 1 the first mask's
    windows: tuple[int | None, ...]  # for each layer how far back it sees the context; None: all of it
    causal: tuple[bool, ...]  # for each layer whether a row of a block sees only those before it
    eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    rope_dims: int | None = None  # features of a head that are rotated; None: all
    rope_pairs: bool = False  # rotates neighbouring features, not halves
    positions: int = 2048
    bias: bool = False  # of queries, keys and values
    bias_out: bool = False
    conv: tuple[int, int] | None = None  # DFlash 2: rows that are mixed, and features that share a changing weight
    selector: tuple[int, int, int] | None = None  # DFlash 2: tokens, rank, and candidates
    markov: str = ""  # DSpark: vanilla, gated, rnn, or none
    markov_sizes: tuple[int, int, int] = (0, 0, 0)  # tokens before, tokens said, rank
    confidence: int = 0  # DSpark: features that the confidence head reads, 0 where there is none
    embedding: int = 0  # rows of its own embedding, 0 where the target's is used
    said: int = 0  # rows of its own output layer, 0 where the target's is used
    scale: float | None = None  # of what the embedding gives; None: as the target does
    multiplier: float | None = None  # of the logits; with `cap` None, too: as the target does
    cap: float | None = None

    @property
    def most(self) -> int:
        """Drafts of one block."""
        return self.block - self.first


def default_taps(target_layers: int, layers: int) -> tuple[int, ...]:
    """The layers that the authors read where a file does not say which: as many as the network has, from the second
    to the last but two."""
    if layers == 1:
        return (target_layers // 2,)
    return tuple(round(1 + i * (target_layers - 4) / (layers - 1)) for i in range(layers))


def visible(places: Sequence[int], start: int, n: int, window: int | None, causal: bool) -> mx.array | None:
    """(n, context + n) bool: what the rows of a block see whose first is at `start`, of context rows at `places` and of
    the block itself. None where that is everything."""
    if window is None and not causal:
        return None
    rows = mx.arange(n)[:, None]
    context = mx.ones((n, len(places)), mx.bool_)
    if window is not None:
        context = start + rows - mx.array(list(places), mx.int32)[None] < window
    own = mx.arange(n)[None] <= rows if causal else mx.ones((n, n), mx.bool_)
    return mx.concatenate([context, own], axis=1)


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = shape.heads, shape.kv_heads, shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head_dim, bias=shape.bias)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=shape.bias)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=shape.bias)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=shape.bias_out)
        self.q_norm = nn.RMSNorm(shape.head_dim, shape.eps)
        self.k_norm = nn.RMSNorm(shape.head_dim, shape.eps)
        self.rope = initialize_rope(
            shape.rope_dims or shape.head_dim, shape.rope_theta, shape.rope_pairs, shape.rope_scaling, shape.positions
        )

    def remember(self, x: mx.array, start: int | mx.array) -> tuple[mx.array, mx.array]:
        """Keys and values (batch, heads, n, head_dim) of rows (batch, n, d), of the context or of a block, the first
        of them at the place `start`, or each batch's at its own."""
        b, n, _ = x.shape
        k = self.k_norm(self.k_proj(x).reshape(b, n, self.kv_heads, -1)).transpose(0, 2, 1, 3)
        v = self.v_proj(x).reshape(b, n, self.kv_heads, -1).transpose(0, 2, 1, 3)
        return self.rope(k, offset=start), v

    def __call__(self, x: mx.array, start: int | mx.array, see: See) -> mx.array:
        b, n, _ = x.shape
        q = self.q_norm(self.q_proj(x).reshape(b, n, self.heads, -1)).transpose(0, 2, 1, 3)
        k, v, mask = see(*self.remember(x, start))
        found = mx.fast.scaled_dot_product_attention(
            self.rope(q, offset=start), k, v, scale=self.head_dim**-0.5, mask=mask
        )
        out: mx.array = self.o_proj(found.transpose(0, 2, 1, 3).reshape(b, n, -1))
        return out


class Conv(nn.Module):
    """Each row becomes a weighted sum of itself and the rows of its block before it, by features. The weights are
    `base_kernel`'s and what a row adds to them, the same for each group of features. There are two sets: for what goes
    into a part of a layer, and for what comes out of it; both are said by what goes in."""

    def __init__(self, hidden: int, taps: int, group: int) -> None:
        super().__init__()
        self.taps, self.group = taps, group
        self.base_kernel = mx.zeros((2, taps, hidden))
        self.kernel_projection = nn.Linear(hidden, 2 * taps * (hidden // group), bias=False)

    def weights(self, x: mx.array) -> tuple[mx.array, mx.array]:
        """Both sets of weights (batch, n, taps, d) of rows (batch, n, d)."""
        b, n, _ = x.shape
        added = self.kernel_projection(x).reshape(b, n, 2, self.taps, -1)
        both = self.base_kernel + mx.repeat(added, self.group, axis=-1)
        return both[:, :, 0], both[:, :, 1]


def mix(x: mx.array, weights: mx.array) -> mx.array:
    """Rows (batch, n, d) by weights (batch, n, taps, d): tap o is that of the row o before, zero in front of all."""
    n = x.shape[1]
    mixed = weights[:, :, 0] * x
    for o in range(1, min(weights.shape[2], n)):
        mixed = mixed + weights[:, :, o] * mx.pad(x[:, : n - o], [(0, 0), (o, 0), (0, 0)])
    return mixed


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = MLP(shape.hidden, shape.intermediate)
        self.input_layernorm = nn.RMSNorm(shape.hidden, shape.eps)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, shape.eps)
        if shape.conv:
            self.attention_conv = Conv(shape.hidden, *shape.conv)
            self.mlp_conv = Conv(shape.hidden, *shape.conv)

    def __call__(self, x: mx.array, start: int | mx.array, see: See) -> mx.array:
        x = x + _around(self, "attention_conv", self.input_layernorm(x), lambda y: self.self_attn(y, start, see))
        return x + _around(self, "mlp_conv", self.post_attention_layernorm(x), self.mlp)


def _around(layer: Layer, name: str, x: mx.array, part: Callable[[mx.array], mx.array]) -> mx.array:
    """`part` of `x`, mixed in front of it and behind it where the layer has such a `Conv`."""
    if name not in layer:
        return part(x)
    before, behind = layer[name].weights(x)
    return mix(part(mix(x, before)), behind)


class Markov(nn.Module):
    """What the token before adds to a row's logits. `rnn` carries a state from row to row, and `gated` lets the row
    say how much of the token is read."""

    def __init__(self, kind: str, hidden: int, before: int, said: int, rank: int) -> None:
        super().__init__()
        self.kind = kind
        self.markov_w1 = nn.Embedding(before, rank)
        self.markov_w2 = nn.Linear(rank, said, bias=False)
        if kind == "gated":
            self.gate_proj = nn.Linear(hidden + rank, rank)
        elif kind == "rnn":
            self.joint_proj = nn.Linear(2 * rank + hidden, 3 * rank)

    def read(self, before: mx.array) -> mx.array:
        """Tokens (n,) as it reads them (n, rank). Those that the target has more than it are padding."""
        rows: mx.array = self.markov_w1(mx.minimum(before, self.markov_w1.weight.shape[0] - 1))
        return rows

    def __call__(self, read: mx.array, rows: mx.array, state: mx.array | None) -> tuple[mx.array, mx.array | None]:
        """What is added (n, said) for `read` (n, rank) and rows (n, d), and the state for the next."""
        if self.kind == "gated":
            read = mx.sigmoid(self.gate_proj(mx.concatenate([rows, read], axis=-1))) * read
        elif self.kind == "rnn":
            state = mx.zeros_like(read) if state is None else state
            joined = self.joint_proj(mx.concatenate([state, read, rows], axis=-1))
            gate, new, out = mx.split(joined, 3, axis=-1)
            gate = mx.sigmoid(gate)
            state, read = gate * state + (1 - gate) * mx.tanh(new), mx.tanh(out)
        return self.markov_w2(read), state


class Confidence(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 1)

    def __call__(self, rows: mx.array, read: mx.array | None) -> mx.array:
        """How likely drafts are to hold (n,), by their rows (n, d) and the tokens before them, as `Markov` reads
        those, if it wants them."""
        wants = self.proj.weight.shape[-1] > rows.shape[-1] and read is not None
        chances: mx.array = mx.sigmoid(self.proj(mx.concatenate([rows, read], axis=-1) if wants else rows))  # type: ignore[list-item]
        return chances[:, 0]


class Selector(nn.Module):
    """A row's likeliest tokens are judged once more, by how well they follow the token before."""

    def __init__(self, hidden: int, tokens: int, rank: int, candidates: int) -> None:
        super().__init__()
        self.tokens, self.candidates = tokens, candidates
        self.predecessor_codebook = nn.Embedding(tokens, rank)
        self.successor_codebook = nn.Embedding(tokens, rank)
        self.hidden_projection = nn.Linear(hidden, rank, bias=False)

    def __call__(self, before: mx.array, rows: mx.array, logits: mx.array) -> mx.array:
        """Logits (n, vocabulary) of rows (n, d) whose own are `logits`: all but the candidates cannot be."""
        known = logits[:, : self.tokens]
        k = min(self.candidates, known.shape[-1])
        chosen = mx.argpartition(-known, k - 1, axis=-1)[:, :k]
        joined = self.predecessor_codebook(mx.minimum(before, self.tokens - 1)) * self.hidden_projection(rows)
        follows = mx.sum(joined[:, None] * self.successor_codebook(chosen), axis=-1)
        scores = mx.take_along_axis(known, chosen, axis=-1) + follows.astype(logits.dtype)
        return mx.put_along_axis(mx.full(logits.shape, -mx.inf, logits.dtype), chosen, scores, axis=-1)


class DFlashNet(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(len(shape.taps) * shape.target_hidden, shape.hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(shape.hidden, shape.eps)
        self.layers = [Layer(shape) for _ in range(shape.layers)]
        self.norm = nn.RMSNorm(shape.hidden, shape.eps)
        if shape.embedding:
            self.embed_tokens = nn.Embedding(shape.embedding, shape.hidden)
        if shape.said:
            self.lm_head = nn.Linear(shape.hidden, shape.said, bias=False)
        if shape.markov:
            self.markov_head = Markov(shape.markov, shape.hidden, *shape.markov_sizes)
        if shape.confidence:
            self.confidence_head = Confidence(shape.confidence)
        if shape.selector:
            self.candidate_selector = Selector(shape.hidden, *shape.selector)

    def fuse(self, states: Sequence[mx.array]) -> mx.array:
        """The target's states after the layers `taps`, each (..., D), as context rows (..., d)."""
        fused: mx.array = self.hidden_norm(self.fc(mx.concatenate(list(states), axis=-1)))
        return fused

    def __call__(self, x: mx.array, start: int | mx.array, sees: Sequence[See]) -> mx.array:
        """What the output layer reads (batch, n, d) of blocks (batch, n, d) whose first rows are at `start`; `sees`
        has one for a layer."""
        for layer, see in zip(self.layers, sees, strict=True):
            x = layer(x, start, see)
        out: mx.array = self.norm(x)
        return out
