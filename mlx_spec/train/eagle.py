"""What an EAGLE-3 head learns: to go on from its own output, several tokens deep.

Li et al. 2025 (arXiv 2503.01840), part 3.2, "training-time test". While drafting, the head reads the target's states up
to the last token that is known, and its own output from there on. In training every place of a text starts such a
chain at once: step 0 attends to the target's states as any decoder does, step k also to the rows of its own chain,
which are as many single entries in the attention, not another triangle. The teacher is the target's own law over
the tokens that the head can say.

Knows heads and arrays; the loop, the clock and the disk are in loop.py and data.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from ..anatomy import Anatomy, some_rows
from ..drafters.eagle_head import Attention, EagleHead, Shape, default_taps

Array = np.ndarray[Any, Any]
FADE = 0.9  # weight of each step against the one before


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts with what the target thought of them: `ids` (b, n) and `mine` (b, n), the tokens that the target wrote, are
    the host's; `states` one (b, n, D) for each tap, `final` (b, n, D) what its head reads."""

    ids: Array
    mine: Array
    states: Sequence[mx.array]
    final: mx.array


@dataclass(frozen=True, slots=True)
class Teacher:
    """What the target brings to the training: its embedding, and its law over the tokens `spoken` (Vd,)."""

    embed: Callable[[mx.array], mx.array]
    logits: Callable[[mx.array], mx.array]  # (..., D) to (..., Vd)
    place: Array  # (V,): where a token is among the spoken ones, -1 if it is not


def teacher(anatomy: Anatomy, spoken: Array, vocabulary: int) -> Teacher:
    """`spoken` are the target's ids of the tokens that the head can say, ascending."""
    rows = some_rows(anatomy.projection, mx.array(spoken))
    place = np.full(vocabulary, -1, np.int32)
    place[spoken] = np.arange(len(spoken), dtype=np.int32)

    def logits(hidden: mx.array) -> mx.array:
        return anatomy.finish(rows(hidden)).astype(mx.float32)

    return Teacher(anatomy.embedding, logits, place)


def fresh(anatomy: Anatomy, spoken: Array, config: dict[str, Any]) -> EagleHead:
    """An untrained head for a target. Where the target's last layer has the same parts and sizes the head starts as
    that layer: it then speaks the language of the target's states from the first step on."""
    hidden = int(config["hidden_size"])
    heads = int(config["num_attention_heads"])
    shape = Shape(
        hidden=hidden,
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or hidden // heads),
        intermediate=int(config.get("intermediate_size") or 4 * hidden),
        vocabulary=len(spoken),
        target_hidden=hidden,
        taps=default_taps(len(anatomy.layers)),
        eps=float(config.get("rms_norm_eps") or 1e-5),
        rope_theta=float(config.get("rope_theta") or 10000.0),
    )
    head = EagleHead(shape)
    head.set_dtype(mx.float32)
    head.lm_head.weight = wide(some_rows(anatomy.projection, mx.array(spoken)))
    near = mx.eye(hidden) + 0.01 * mx.random.normal((hidden, hidden))
    small = [0.01 * mx.random.normal((hidden, hidden)) for _ in shape.taps[:-1]]
    head.fc.weight = mx.concatenate([*small, near], axis=-1)
    _like(head.layers[0], anatomy.layers[-1], hidden)
    final = getattr(anatomy.body, "norm", None)
    if isinstance(final, nn.RMSNorm) and final.weight.shape == (hidden,):
        head.norm.weight = final.weight.astype(mx.float32)
    mx.eval(head.parameters())
    return head


def wide(linear: Any) -> mx.array:
    """The weights of a linear layer as float32."""
    weight: mx.array = linear.weight
    if hasattr(linear, "bits"):
        biases = linear.get("biases")
        weight = mx.dequantize(weight, linear.scales, biases, linear.group_size, linear.bits, mode=linear.mode)
    return weight.astype(mx.float32)


def _like(layer: Any, model: Any, hidden: int) -> None:
    """Copy into `layer` what fits of the target's layer `model`."""
    for group, names in (
        ("self_attn", ("q_proj", "k_proj", "v_proj", "o_proj")),
        ("mlp", ("gate_proj", "up_proj", "down_proj")),
    ):
        for name in names:
            theirs = getattr(getattr(model, group, None), name, None)
            if theirs is None or not hasattr(theirs, "weight"):
                continue
            ours, weight = getattr(getattr(layer, group), name), wide(theirs)
            if weight.shape == ours.weight.shape:
                ours.weight = weight
            elif weight.shape == (ours.weight.shape[0], hidden) and ours.weight.shape[1] == 2 * hidden:
                # [embedding; hidden]: the layer knows the latter, the former starts with little.
                ours.weight = mx.concatenate([0.1 * weight, weight], axis=-1)
    for ours_name, theirs_name in (
        ("input_layernorm", "input_layernorm"),
        ("hidden_norm", "input_layernorm"),
        ("post_attention_layernorm", "post_attention_layernorm"),
    ):
        theirs = getattr(model, theirs_name, None)
        if isinstance(theirs, nn.RMSNorm) and theirs.weight.shape == (hidden,):
            getattr(layer, ours_name).weight = theirs.weight.astype(mx.float32)


def chain_attention(
    attention: Attention, inner: mx.array, step: int, past: list[tuple[mx.array, mx.array]]
) -> mx.array:
    """Attention of step `step` of all chains at once. `past` has keys and values of the steps before, and gets this
    step's. Row i of step k stands at place i + k; it sees the rows 0 to i of step 0 and row i of each later step."""
    q, k, v = attention.split(inner, step)
    past.append((k, v))
    b, _, n, width = q.shape
    group = attention.heads // attention.kv_heads
    q = q.reshape(b, attention.kv_heads, group, n, width) * width**-0.5
    keys, values = past[0][0][:, :, None], past[0][1][:, :, None]
    causal = mx.triu(mx.full((n, n), -1e9), k=1)
    scores = [q @ keys.swapaxes(-1, -2) + causal]
    scores += [mx.sum(q * later[:, :, None], axis=-1, keepdims=True) for later, _ in past[1:]]
    weights = mx.softmax(mx.concatenate(scores, axis=-1), axis=-1)
    out = weights[..., :n] @ values
    for j, (_, later) in enumerate(past[1:]):
        out = out + weights[..., n + j : n + j + 1] * later[:, :, None]
    return attention.join(out.reshape(b, attention.heads, n, width))


def steps(head: EagleHead, teacher: Teacher, batch: Batch, depth: int) -> Iterator[mx.array]:
    """For each step what the head reads (b, m, d): row i of step k is to say the token at place i + k + 2 of the text.
    There are m = n - depth - 1 rows, so that all steps have a text to go by."""
    m = batch.ids.shape[1] - depth - 1
    ids = mx.array(batch.ids)
    hidden = head.fuse([s[:, :m] for s in batch.states])
    pasts: list[list[tuple[mx.array, mx.array]]] = [[] for _ in head.layers]
    for step in range(depth):
        x: mx.array = hidden
        first: mx.array | None = teacher.embed(ids[:, 1 + step : 1 + step + m])
        for layer, past in zip(head.layers, pasts, strict=True):
            inner, residual = layer.enter(x, first)
            x, first = layer.leave(chain_attention(layer.self_attn, inner, step, past), residual), None
        normed, hidden = head.outcome(x)
        yield normed


@mx.custom_function
def cross_entropy(logits: mx.array, law: mx.array) -> tuple[mx.array, mx.array]:
    """The mean over rows (m, Vd) of the cross entropy of softmax(logits) against `law`; and its gradient, which shares
    the exponentials with it. They are the dearest part of a step where there is no GPU."""
    top = mx.max(logits, axis=-1, keepdims=True)
    exp = mx.exp(logits - top)
    total = mx.sum(exp, axis=-1, keepdims=True)
    cross = top[:, 0] + mx.log(total[:, 0]) - mx.sum(law * logits, axis=-1)
    return mx.mean(cross), (exp / total - law) / logits.shape[0]


@cross_entropy.vjp
def _(primals: Any, cotangents: Any, outputs: Any) -> tuple[mx.array, mx.array]:
    return cotangents[0] * outputs[1], mx.zeros_like(primals[1])


def loss(head: EagleHead, teacher: Teacher, batch: Batch, depth: int) -> mx.array:
    """Cross entropy against the target's law, where the target wrote a token that the head can say."""
    total, weights = mx.array(0.0), 0.0
    width = batch.ids.shape[1]
    counts = (teacher.place[batch.ids] >= 0) & batch.mine
    law = teacher.logits(batch.final).reshape(-1, len_spoken(teacher))
    law = mx.softmax(mx.stop_gradient(law), axis=-1)
    for step, normed in enumerate(steps(head, teacher, batch, depth)):
        m = normed.shape[1]
        texts, rows = np.nonzero(counts[:, 2 + step : 2 + step + m])
        if not len(rows):
            continue
        logits = head.lm_head(normed.reshape(-1, normed.shape[-1])[mx.array(texts * m + rows)])
        outcome: Any = cross_entropy(logits, law[mx.array(texts * width + rows + 1 + step)])
        total = total + FADE**step * outcome[0]
        weights += FADE**step
    return total / max(weights, 1.0)


def len_spoken(teacher: Teacher) -> int:
    return int(teacher.place.max()) + 1


def holds(head: EagleHead, teacher: Teacher, batch: Batch, depth: int) -> tuple[Array, int]:
    """Chains that a greedy draft would keep to 1, 2, ... `depth` tokens, and the number of chains: (depth,), ()."""
    kept = np.zeros(depth, np.int64)
    alive: Any = None
    chains = 0
    for step, normed in enumerate(steps(head, teacher, batch, depth)):
        m = normed.shape[1]
        mine = batch.mine[:, 2 + step : 2 + step + m]
        if alive is None:
            alive, chains = mine, int(mine.sum())
        said = np.array(mx.argmax(head.lm_head(normed), axis=-1))
        alive = alive & mine & (teacher.place[batch.ids[:, 2 + step : 2 + step + m]] == said)
        kept[step] = alive.sum()
    return kept, chains
