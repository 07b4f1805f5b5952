"""The target drafts for itself with some of its layers left out.

Zhang et al. 2023, "Draft & Verify" (arXiv 2309.08168). No second model, no training, no memory: the layers that are
kept use the target's own weights and the keys and values that it has already written. What the drafts add to
those is taken back before the check, which writes them again.

Which layers can go without much harm is found once for a model (layer_search.py). Works where the layers are alike
and their caches grow by rows; `able` says why not elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import mlx.core as mx
from mlx_lm.models import cache as mlx_cache

from ..anatomy import Anatomy
from ..sampling import History
from ..target import Target
from .base import Context, Draft, Offer
from .chain import draft_chain


def able(target: Target, anatomy: Anatomy | None) -> str:
    """Why layers of this model cannot be left out; nothing if they can."""
    if anatomy is None:
        return "the model's parts are not known"
    if not target.caches.growing or any(isinstance(c, mlx_cache.CacheList) for c in target.caches.layers):
        return "the model's caches cannot be shared with a draft"
    if getattr(anatomy.body, "layers", None) is not anatomy.layers or len(target.caches.layers) != len(anatomy.layers):
        return "the model's layers are not one plain list"
    return ""


@contextmanager
def only(anatomy: Anatomy, kept: Sequence[int]) -> Iterator[None]:
    """The model has the layers `kept` alone. What is built meanwhile stays that way."""
    anatomy.body.layers = [anatomy.layers[i] for i in kept]
    try:
        yield
    finally:
        anatomy.body.layers = anatomy.layers


class LayerSkip:
    name = "layer_skip"
    stops = True

    def __init__(self, target: Target, anatomy: Anatomy, kept: Sequence[int], cost_hint: float) -> None:
        """`kept` are indices of layers, in order. Raises ValueError for a layer that is not there."""
        if not kept or sorted(set(kept)) != list(kept) or not 0 <= kept[0] <= kept[-1] < len(anatomy.layers):
            raise ValueError(f"the layers {list(kept)} are not some of {len(anatomy.layers)}")
        self.kept, self.cost_hint = tuple(kept), cost_hint
        self._target, self._anatomy = target, anatomy

    def begin(self, prompt: Sequence[int]) -> None:
        """The target has read it."""

    def settle(self, drafted: Sequence[int]) -> None:
        """Nothing of a draft is kept."""

    def reset(self) -> None:
        """There is nothing of its own."""

    def offer(self, history: History, limit: int) -> Offer | None:
        return Offer(limit)

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        caches = [self._target.caches.layers[i] for i in self.kept]
        offsets = [c.offset for c in caches]

        def step(i: int, token: mx.array | None) -> mx.array:
            rows = mx.array(context.history.tokens[-1:], mx.uint32) if token is None else token
            with only(self._anatomy, self.kept):
                hidden = self._anatomy.body(rows[None], cache=caches)
            return self._anatomy.head(hidden)[0]

        try:
            return draft_chain(context, n, step)
        finally:
            for cache, offset in zip(caches, offsets, strict=True):
                cache.offset = offset
