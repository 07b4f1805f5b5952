"""A head that knows only the tokens that are likely to come: the drafter's head made cheaper.

Zhao et al. 2025, "FR-Spec" (arXiv 2502.14856). A small model spends a quarter of its time on the logits of a
vocabulary of which most tokens never come. A draft may leave them out: what it cannot say, the target says.

Which tokens are frequent is read off the vocabulary: byte-pair merges are learned from the most frequent on, so
the lowest ids are the most frequent tokens. Every token that this conversation has used is added as it comes, so
a language of which the vocabulary keeps little at its start is not left out for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import mlx.core as mx
import mlx.nn as nn

from ..anatomy import Anatomy, project, some_rows, weight_bytes

PART = 4  # of the vocabulary, one in PART is kept
LEAST = 16384  # tokens; a shorter list would save nothing
WORTH = 0.1  # of the model's weights: a smaller head is not worth cutting


class Shortlist:
    """Stands for a draft model's call: the logits of tokens outside the list are -inf."""

    def __init__(self, anatomy: Anatomy, vocabulary: int, always: Iterable[int] = ()) -> None:
        self._anatomy, self._vocabulary = anatomy, vocabulary
        self._base = max(LEAST, vocabulary // PART)
        self._extra = sorted({t for t in always if self._base <= t < vocabulary})
        self._known = set(self._extra)
        self._main = some_rows(anatomy.projection, mx.arange(self._base))
        self._more: nn.Module | None = None
        self._ids = mx.arange(self._base)
        self._gather()

    @property
    def size(self) -> int:
        return self._base + len(self._extra)

    def has(self, token: int) -> bool:
        return token < self._base or token in self._known

    def add(self, tokens: Sequence[int]) -> None:
        """These tokens came up: they may again."""
        new = {t for t in tokens if self._base <= t < self._vocabulary} - self._known
        if new:
            self._known |= new
            self._extra += sorted(new)
            self._gather()

    def _gather(self) -> None:
        if self._extra:
            extra = mx.array(self._extra)
            self._more = some_rows(self._anatomy.projection, extra)
            self._ids = mx.concatenate([mx.arange(self._base), extra])

    def __call__(self, ids: mx.array, cache: object = None) -> mx.array:
        """Logits (1, rows, vocabulary), of which only the last row is asked for by a draft."""
        hidden = self._anatomy.body(ids, cache=cache)
        logits = project(self._main, hidden)
        if self._more is not None:
            logits = mx.concatenate([logits, project(self._more, hidden)], axis=-1)
        logits = self._anatomy.finish(logits)
        full = mx.full((*logits.shape[:-1], self._vocabulary), -mx.inf, logits.dtype)
        full[..., self._ids] = logits
        return full


def shortlist(model: nn.Module, anatomy: Anatomy | None, vocabulary: int) -> Shortlist | None:
    """A short head for `model`; None where it would not be worth it."""
    if anatomy is None or vocabulary < 2 * max(LEAST, vocabulary // PART):
        return None
    if weight_bytes(anatomy.projection) < WORTH * weight_bytes(model):
        return None
    return Shortlist(anatomy, vocabulary)
