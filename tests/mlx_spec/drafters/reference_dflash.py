"""The maths of a DFlash drafter in plain numpy: one row, one head, one place at a time, without any cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def norm(x: Array, weight: Array, eps: float = 1e-6) -> Array:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def turn(x: Array, place: int, theta: float = 10000.0) -> Array:
    """One head's features (head_dim,) at a place: the first half rotated with the second."""
    half = len(x) // 2
    angle = place * theta ** (-np.arange(half) / half)
    a, b = x[:half], x[half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)])


def convolve(x: Array, base: Array, added: Array, group: int) -> Array:
    """Rows (n, d); base (taps, d); what each row adds (n, taps, groups)."""
    out = np.zeros_like(x)
    for row in range(len(x)):
        for tap in range(min(len(base), row + 1)):
            out[row] += (base[tap] + np.repeat(added[row, tap], group)) * x[row - tap]
    return out


def block(
    weights: Mapping[str, Array],
    context: Mapping[int, Array],
    x: Array,
    start: int,
    *,
    windows: Sequence[int | None],
    causal: Sequence[bool],
    heads: tuple[int, int] = (4, 2),
    group: int = 16,
) -> Array:
    """Normed rows (n, d) of a block of embedded rows (n, d) whose first is at `start`; `context` has for each place the
    target's states there, one behind the other."""
    fused = {p: norm(weights["fc.weight"] @ s, weights["hidden_norm.weight"]) for p, s in context.items()}
    for i, (window, only_before) in enumerate(zip(windows, causal, strict=True)):
        w = {n.removeprefix(f"layers.{i}."): v for n, v in weights.items() if n.startswith(f"layers.{i}.")}
        y = norm(x, w["input_layernorm.weight"])
        y, added = before(w, "attention_conv", y, group)
        y = attend(w, y, fused, start, window, only_before, heads)
        x = x + behind(w, "attention_conv", y, added, group)
        y = norm(x, w["post_attention_layernorm.weight"])
        y, added = before(w, "mlp_conv", y, group)
        gate = y @ w["mlp.gate_proj.weight"].T
        y = (gate * sigmoid(gate) * (y @ w["mlp.up_proj.weight"].T)) @ w["mlp.down_proj.weight"].T
        x = x + behind(w, "mlp_conv", y, added, group)
    return norm(x, weights["norm.weight"])


def before(w: Mapping[str, Array], name: str, y: Array, group: int) -> tuple[Array, Array | None]:
    if f"{name}.base_kernel" not in w:
        return y, None
    base = w[f"{name}.base_kernel"]
    added = (y @ w[f"{name}.kernel_projection.weight"].T).reshape(len(y), 2, base.shape[1], -1)
    return convolve(y, base[0], added[:, 0], group), added[:, 1]


def behind(w: Mapping[str, Array], name: str, y: Array, added: Array | None, group: int) -> Array:
    return y if added is None else convolve(y, w[f"{name}.base_kernel"][1], added, group)


def attend(
    w: Mapping[str, Array],
    y: Array,
    fused: Mapping[int, Array],
    start: int,
    window: int | None,
    only_before: bool,
    heads: tuple[int, int],
) -> Array:
    dim = len(w["self_attn.q_norm.weight"])
    rows = [(p, c, False) for p, c in sorted(fused.items())] + [(start + i, r, True) for i, r in enumerate(y)]
    keys, values = [], []
    for place, row, _ in rows:
        k = (w["self_attn.k_proj.weight"] @ row).reshape(heads[1], dim)
        keys.append([turn(norm(head, w["self_attn.k_norm.weight"]), place) for head in k])
        values.append((w["self_attn.v_proj.weight"] @ row).reshape(heads[1], dim))
    out = []
    for i, row in enumerate(y):
        place = start + i
        seen = [
            j
            for j, (p, _, own) in enumerate(rows)
            if (own and not (only_before and p > place)) or (not own and (window is None or place - p < window))
        ]
        found = []
        for h, q in enumerate((w["self_attn.q_proj.weight"] @ row).reshape(heads[0], dim)):
            q, kv = turn(norm(q, w["self_attn.q_norm.weight"]), place), h * heads[1] // heads[0]
            scores = np.array([q @ keys[j][kv] for j in seen]) / np.sqrt(dim)
            shares = np.exp(scores - scores.max())
            found.append(sum(s * values[j][kv] for s, j in zip(shares / shares.sum(), seen, strict=True)))
        out.append(w["self_attn.o_proj.weight"] @ np.concatenate(found))
    return np.array(out)


def markov(weights: Mapping[str, Array], kind: str, token: int, row: Array, state: Array) -> tuple[Array, Array, Array]:
    """What the token before adds to a row's logits, the next state, and the token as it was read."""
    w = {n.removeprefix("markov_head."): v for n, v in weights.items() if n.startswith("markov_head.")}
    read = told = w["markov_w1.weight"][token]
    if kind == "gated":
        read = sigmoid(w["gate_proj.weight"] @ np.concatenate([row, read]) + w["gate_proj.bias"]) * read
    if kind == "rnn":
        joined = w["joint_proj.weight"] @ np.concatenate([state, read, row]) + w["joint_proj.bias"]
        gate, new, out = np.split(joined, 3)
        state, read = sigmoid(gate) * state + (1 - sigmoid(gate)) * np.tanh(new), np.tanh(out)
    return w["markov_w2.weight"] @ read, state, told


def select(weights: Mapping[str, Array], logits: Array, token: int, row: Array, k: int) -> dict[int, float]:
    """The scores of a row's `k` likeliest tokens."""
    w = {n.removeprefix("candidate_selector."): v for n, v in weights.items() if n.startswith("candidate_selector.")}
    projected = w["hidden_projection.weight"] @ row
    return {
        int(c): float(logits[c] + np.sum(w["predecessor_codebook"][token] * projected * w["successor_codebook"][c]))
        for c in np.argsort(-logits)[:k]
    }
