"""The first EAGLE's network, and its drafter: it guesses the target's next state, and the target says the token.

Li et al. 2024, "EAGLE" (arXiv 2401.15077); EAGLE-2 (arXiv 2406.16858) drafts trees with the same weights. A row for the
place t joins the token at t + 1 with the state that the target's output layer read at t, and is trained to be that
state at t + 1. So nothing comes after it but the target's own output layer, and a row can go in where it came out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from ..anatomy import Anatomy
from ..precision import suit
from .eagle_head import Layer, Shape
from .feature import reads, spread


class Eagle1Head(nn.Module):
    """Plain Llama layers behind `fc`. The authors' first layer norms nothing before its attention, for what comes in
    is a mixture of an embedding and a state that is normed already; `normed` heads have that norm, too."""

    def __init__(self, shape: Shape, *, normed: bool = False, bias: bool = True, own_embedding: int = 0) -> None:
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(2 * shape.hidden, shape.hidden, bias=bias)
        self.layers = [Layer(shape, first=False) for _ in range(shape.layers)]
        if not normed:
            self.layers[0].update_modules({"input_layernorm": nn.Identity()})
        if own_embedding:
            self.embed_tokens = nn.Embedding(own_embedding, shape.hidden)

    def __call__(self, embedded: mx.array, hidden: mx.array, caches: Sequence[Any]) -> mx.array:
        """The guessed states of (1, n, d) each; `caches` has one for a layer."""
        x: mx.array = self.fc(mx.concatenate([embedded, hidden], axis=-1))
        for layer, cache in zip(self.layers, caches, strict=True):
            inner, residual = layer.enter(x, None)
            x = layer.leave(layer.self_attn(inner, cache), residual)
        return x


class Eagle1:
    """See `feature.Head`: the target's embedding is in front, where the head has none, and its output layer behind."""

    def __init__(self, head: Eagle1Head, anatomy: Anatomy, vocabulary: int) -> None:
        self.head = head
        self.taps, self.depth = head.shape.taps, head.shape.layers
        self._own = anatomy.embedding(mx.zeros((1,), mx.uint32)).dtype
        self._dtype = suit(head, self._own)
        self._read = reads(getattr(head, "embed_tokens", None), anatomy, vocabulary)
        self._said, self._spread = anatomy.head, spread(None, vocabulary)

    def fuse(self, states: Sequence[mx.array]) -> mx.array:
        """There is one, and a row reads it as it is."""
        return states[0].astype(self._dtype)

    def embed(self, ids: mx.array) -> mx.array:
        return self._read(ids).astype(self._dtype)

    def __call__(self, embedded: mx.array, hidden: mx.array, caches: Sequence[Any]) -> tuple[mx.array, mx.array]:
        guessed = self.head(embedded, hidden, caches)
        return guessed, guessed

    def say(self, rows: mx.array) -> mx.array:
        return self._spread(self._said(rows.astype(self._own)).astype(mx.float32))
