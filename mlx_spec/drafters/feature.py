"""A drafter that goes on from the target's own hidden states: EAGLE heads and MTP heads.

A row of the head stands for a place p of the text: it joins the target's states at p with the token at p + 1 and says
the one at p + 2. So it knows of every token one more than the states do. Drafting on, the head's own output stands
for the states. After each round the rows of guesses go, and true ones are run in their place, with the states of the
pass that verified them (Li et al. 2025, arXiv 2503.01840).

What the head is made of is its own matter; this module knows rows, caches and places. Rows whose states are gone are
left out: distances across such a gap are too small, which costs acceptance alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from ..anatomy import Anatomy
from ..hidden import Hidden
from ..sampling import History
from ..target import PREFILL_STEP, Target, common_prefix
from .base import Context, Draft, Offer
from .chain import draft_chain


class Head(Protocol):
    """What a head has to do. d is the width of its own rows."""

    taps: tuple[int, ...]  # the layers whose output it reads, as in `Taps`
    depth: int  # of its own layers, each with a cache

    def fuse(self, states: Sequence[mx.array]) -> mx.array:
        """The target's states, each (..., D), as one (..., d)."""

    def embed(self, ids: mx.array) -> mx.array:
        """Tokens (...,) as it reads them."""

    def __call__(self, embedded: mx.array, hidden: mx.array, caches: Sequence[Any]) -> tuple[mx.array, mx.array]:
        """Rows (1, n, d) on top of `caches`: what `say` reads, and what stands for `hidden` in the next step."""

    def say(self, rows: mx.array) -> mx.array:
        """Logits (n, vocabulary of the target) of rows (n, d)."""


class FeatureDrafter:
    stops = True

    def __init__(self, name: str, head: Head, target: Target, cost_hint: float) -> None:
        """The target keeps the states that the head reads (heads.want)."""
        self.name, self.cost_hint = name, cost_hint
        self.head, self._target = head, target
        self.reset()

    @property
    def _hidden(self) -> Hidden:
        assert self._target.hidden is not None
        return self._target.hidden

    def reset(self) -> None:
        self._caches = [KVCache() for _ in range(self.head.depth)]
        self._places: list[int] = []  # of the rows in the caches that are true
        self._known: list[int] = []  # the text that they belong to

    def begin(self, prompt: Sequence[int]) -> None:
        """Reads the prompt, but for its newest row."""
        last = self._catch_up(prompt)
        rows = range(max(last, self._hidden.start), len(prompt) - 2)
        for start in range(rows.start, rows.stop, PREFILL_STEP):
            stop = min(start + PREFILL_STEP, rows.stop)
            self._feed(prompt, start, stop)
            mx.eval([c.state for c in self._caches])

    def offer(self, history: History, limit: int) -> Offer | None:
        """Nothing where the states of the row before the newest token are not known."""
        known = self._hidden.ends(len(history) - 1)
        return Offer(limit) if known else None

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        tokens = context.history.tokens
        start = max(self._catch_up(tokens), self._hidden.start)
        if len(tokens) - 1 - start > PREFILL_STEP:
            self.begin(tokens)
            start = max(self._catch_up(tokens), self._hidden.start)
        back: list[mx.array] = []

        def step(i: int, token: mx.array | None) -> mx.array:
            if token is None:
                normed, fed = self._feed(tokens, start, len(tokens) - 1)
            else:
                normed, fed = self.head(self.head.embed(token[None]), back[-1], self._caches)
            back[:] = [fed[:, -1:]]
            return self.head.say(normed[0, -1:])

        return draft_chain(context, n, step)

    @property
    def taps(self) -> tuple[int, ...]:
        return self.head.taps

    def guesses(self, ids: Sequence[int], states: Sequence[mx.array]) -> mx.array:
        """For a text of n tokens with its states (n, D) the first guess (n - 1,) after each token but the first."""
        hidden = self.head.fuse([s[None, :-1] for s in states])
        embedded = self.head.embed(mx.array([list(ids[1:])], mx.uint32))
        rows, _ = self.head(embedded, hidden, [KVCache() for _ in range(self.head.depth)])
        return mx.argmax(self.head.say(rows[0]), axis=-1)

    def settle(self, drafted: Sequence[int]) -> None:
        """The guesses' rows go before the next proposal."""

    def _catch_up(self, tokens: Sequence[int]) -> int:
        """Drop rows that are not of this text; returns the place of the first that is missing."""
        agreed = common_prefix(self._known, tokens)
        keep = bisect_left(self._places, agreed - 1)  # the row of place p has read the token at p + 1
        del self._places[keep:]
        for cache in self._caches:
            cache.trim(cache.offset - keep)
        self._known = list(tokens)
        return self._places[-1] + 1 if self._places else 0

    def _feed(self, tokens: Sequence[int], start: int, stop: int) -> tuple[mx.array, mx.array]:
        """The true rows of the places from `start` to `stop`."""
        states = self._hidden.rows(start, stop, self.head.taps)
        embedded = self.head.embed(mx.array([list(tokens[start + 1 : stop + 1])], mx.uint32))
        self._places += range(start, stop)
        return self.head(embedded, self.head.fuse([s[None] for s in states]), self._caches)


def reads(own: Any, anatomy: Anatomy, vocabulary: int) -> Callable[[mx.array], mx.array]:
    """Tokens (...,) as a head reads them (..., d): by its `own` embedding, or the target's where it has none."""
    if own is None:
        return lambda ids: anatomy.embedding(ids)
    rows = own.weight.shape[0]
    if rows >= vocabulary:
        return lambda ids: own(ids)
    return lambda ids: own(mx.minimum(ids, rows - 1))  # the rows that the target has more are padding, not tokens


def spread(ids: mx.array | None, vocabulary: int) -> Callable[[mx.array], mx.array]:
    """Logits (n, Vd) of a head that says only the tokens `ids` (Vd,), as logits (n, vocabulary)."""

    def full(logits: mx.array) -> mx.array:
        if ids is None:
            return logits[:, :vocabulary]
        wide = mx.full((logits.shape[0], vocabulary), -mx.inf, logits.dtype)
        wide[:, ids] = logits
        return wide

    return full
