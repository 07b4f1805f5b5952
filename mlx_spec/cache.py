"""Cache transactions: run rows, keep the first n, take the rest back.

Every pass of a model appends its rows to the model's caches. After verification only some rows may stay.
For caches that grow by one row a token (mlx-lm's KVCache and its quantized kin) taking back is a trim. The
others (sliding windows, recurrent states) cannot be trimmed, silently or at all, and are refused here.

This module knows mlx-lm's cache classes and nothing of tokens.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import cache as mlx_cache

from .events import Problem

TRIMMABLE = (mlx_cache.KVCache, mlx_cache.QuantizedKVCache, mlx_cache.ConcatenateKVCache)

_WHY = {
    "RotatingKVCache": "a sliding window, which forgets rows that a failed draft would have to bring back",
    "ChunkedKVCache": "a chunked cache, which drops rows that a failed draft would have to bring back",
    "ArraysCache": "a recurrent state, which cannot be rewound by trimming",
    "CacheList": "a compound cache",
    "MambaCache": "a recurrent state, which cannot be rewound by trimming",
}


class Caches:
    """All caches of one model. `length` is the number of tokens in them."""

    def __init__(self, model: nn.Module) -> None:
        self.layers: list[Any] = mlx_cache.make_prompt_cache(model)
        for layer in self.layers:
            if type(layer) not in TRIMMABLE:
                kind = type(layer).__name__
                what = _WHY.get(kind, f"a cache of the kind {kind}")
                raise Problem(
                    f"This model keeps {what}; drafts cannot be taken back from it yet.",
                    "Choose a model with plain attention in every layer, such as Llama, Qwen2 or Qwen3.",
                )

    @property
    def length(self) -> int:
        return int(self.layers[0].offset)

    def keep(self, length: int) -> None:
        """Take back everything after the first `length` tokens. Checks that it was really taken back."""
        for layer in self.layers:
            extra = layer.offset - length
            if extra < 0:
                raise ValueError(f"cannot keep {length} tokens of {layer.offset}")
            if (extra and layer.trim(extra) != extra) or layer.offset != length:
                raise RuntimeError(f"{type(layer).__name__} did not take back {extra} tokens")

    def arrays(self) -> list[Any]:
        """What to evaluate so that the caches are computed."""
        return [c.state for c in self.layers if not c.empty()]

    @property
    def nbytes(self) -> int:
        return sum(int(c.nbytes) for c in self.layers)


def evaluate(caches: Caches) -> None:
    mx.eval(caches.arrays())
