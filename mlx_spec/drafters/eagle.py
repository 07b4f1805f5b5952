"""An EAGLE-3 head bound to its target: the target's embedding in front, its vocabulary behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from ..anatomy import Anatomy
from ..precision import suit
from .eagle_files import Loaded
from .feature import reads, spread


class Eagle:
    """See `feature.Head`. The target's embedding is the target's own module, quantized or not, with its scale."""

    def __init__(self, loaded: Loaded, anatomy: Anatomy, vocabulary: int) -> None:
        self.head = loaded.head
        self.taps, self.depth = loaded.head.shape.taps, loaded.head.shape.layers
        self._dtype = suit(self.head, anatomy.embedding(mx.zeros((1,), mx.uint32)).dtype)
        self._read = reads(getattr(self.head, "embed_tokens", None), anatomy, vocabulary)
        self._spread = spread(None if loaded.ids is None else mx.array(loaded.ids), vocabulary)

    def fuse(self, states: Sequence[mx.array]) -> mx.array:
        return self.head.fuse([s.astype(self._dtype) for s in states])

    def embed(self, ids: mx.array) -> mx.array:
        return self._read(ids).astype(self._dtype)

    def __call__(self, embedded: mx.array, hidden: mx.array, caches: Sequence[Any]) -> tuple[mx.array, mx.array]:
        return self.head(embedded, hidden, caches)

    def say(self, rows: mx.array) -> mx.array:
        return self._spread(self.head.lm_head(rows).astype(mx.float32))
