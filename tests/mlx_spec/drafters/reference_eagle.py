"""What the papers say that EAGLE heads compute, in plain numpy: no cache, no batches, no fused kernels, float64.

Every step is a pass over all rows from the first on. Tensors go by their published names (with `layers.0.`, never
`midlayer.`), settings by those of a config.json. Li et al. 2024 (arXiv 2401.15077) and 2025 (arXiv 2503.01840).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]
Config = Mapping[str, Any]
Forward = Callable[[Array, Array], tuple[Array, Array, Array]]


def rms(x: Array, weight: Array, eps: float) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rotated(x: Array, theta: float) -> Array:
    """(n, heads, head_dim), row i turned by i: feature j of the first half goes with j of the second."""
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def attention(t: Tensors, c: Config, layer: str, x: Array) -> Array:
    heads, kv_heads, n = c["num_attention_heads"], c["num_key_value_heads"], len(x)

    def projected(name: str, count: int) -> Array:
        y = x @ t[f"{layer}.self_attn.{name}.weight"].T + t.get(f"{layer}.self_attn.{name}.bias", 0.0)
        return y.reshape(n, count, -1)

    q = rotated(projected("q_proj", heads), c["rope_theta"])
    k = rotated(projected("k_proj", kv_heads), c["rope_theta"])
    v = projected("v_proj", kv_heads)
    out = np.zeros_like(q)
    for head in range(heads):
        source = head * kv_heads // heads
        for row in range(n):
            scores = k[: row + 1, source] @ q[row, head] / np.sqrt(q.shape[-1])
            weights = np.exp(scores - scores.max())
            out[row, head] = weights @ v[: row + 1, source] / weights.sum()
    return out.reshape(n, -1) @ t[f"{layer}.self_attn.o_proj.weight"].T


def mlp(t: Tensors, layer: str, x: Array) -> Array:
    gate, up = (x @ t[f"{layer}.mlp.{name}.weight"].T for name in ("gate_proj", "up_proj"))
    return (gate / (1 + np.exp(-gate)) * up) @ t[f"{layer}.mlp.down_proj.weight"].T


def after(t: Tensors, c: Config, layer: str, residual: Array, read: Array) -> Array:
    """A layer's output, of what its attention reads and what is added to that."""
    h = residual + attention(t, c, layer, read)
    return h + mlp(t, layer, rms(h, t[f"{layer}.post_attention_layernorm.weight"], c["rms_norm_eps"]))


def plain(t: Tensors, c: Config, layer: str, x: Array) -> Array:
    norm = t.get(f"{layer}.input_layernorm.weight")
    return after(t, c, layer, x, x if norm is None else rms(x, norm, c["rms_norm_eps"]))


def eagle3_fuse(t: Tensors, c: Config, states: Sequence[Array]) -> Array:
    eps = c["rms_norm_eps"]
    if "fc_norm.0.weight" in t:
        states = [rms(s, t[f"fc_norm.{i}.weight"], eps) for i, s in enumerate(states)]
    joined = np.concatenate(list(states), axis=-1)
    if "input_norm.weight" in t:
        joined = rms(joined, t["input_norm.weight"], eps)
    return joined @ t["fc.weight"].T


def eagle3(t: Tensors, c: Config) -> Forward:
    """Of rows (n, d), embedded and hidden: logits (n, Vd), and what is fed back."""

    def forward(embedded: Array, hidden: Array) -> tuple[Array, Array, Array]:
        eps = c["rms_norm_eps"]
        normed = rms(hidden, t["layers.0.hidden_norm.weight"], eps)
        read = np.concatenate([rms(embedded, t["layers.0.input_layernorm.weight"], eps), normed], axis=-1)
        h = after(t, c, "layers.0", normed if c.get("norm_before_residual") else hidden, read)
        for i in range(1, c["num_hidden_layers"]):
            h = plain(t, c, f"layers.{i}", h)
        out = rms(h, t["norm.weight"], eps)
        logits = out @ t["lm_head.weight"].T
        return logits, (out if c.get("norm_output") else h), np.arange(logits.shape[-1]) + t.get("d2t", 0)

    return forward


def eagle1(t: Tensors, c: Config, output: Array) -> Forward:
    """The same of the first EAGLE, with the target's output layer (V, d)."""

    def forward(embedded: Array, hidden: Array) -> tuple[Array, Array, Array]:
        h = np.concatenate([embedded, hidden], axis=-1) @ t["fc.weight"].T + t.get("fc.bias", 0.0)
        for i in range(c["num_hidden_layers"]):
            h = plain(t, c, f"layers.{i}", h)
        return h @ output.T, h, np.arange(len(output))

    return forward


def drafted(forward: Forward, embedding: Array, tokens: Sequence[int], hidden: Array, steps: int) -> list[Array]:
    """Logits of the rows that the text gives, and then of each of `steps` more (1, Vd): a row of the text joins the
    token at t + 1 with what is known at t, one of a guess the token guessed last with what was fed back."""
    embedded = embedding[np.array(tokens)]
    logits, fed, ids = forward(embedded, hidden)
    found = [logits]
    for _ in range(steps):
        token = ids[np.argmax(found[-1][-1])]
        embedded = np.concatenate([embedded, embedding[None, token]])
        hidden = np.concatenate([hidden, fed[-1:]])
        logits, fed, ids = forward(embedded, hidden)
        found.append(logits[-1:])
    return found
