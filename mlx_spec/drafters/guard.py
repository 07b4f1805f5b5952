"""Drafters are not trusted: one that breaks its promises sits out the rest of the reply, and the reply goes on.

A drafter may be somebody else's code, or weights that were made for another model. It may throw, name tokens that
do not exist, give probabilities that are none, or take far too long. None of that may cost the reply or a wrong
token. What it drafted is made harmless on the device (`tame`), so that nothing has to be read before the pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import mlx.core as mx

from .base import Draft, Drafter

SLOW_S, SLOW_PASSES = 1.0, 8.0  # a draft that takes longer than both is slow
PATIENCE = 2  # slow drafts in a reply; the first one may have been compiling

T = TypeVar("T")


class Guard:
    """`benched` says who sits out, and why."""

    def __init__(self, drafters: Mapping[str, Drafter]) -> None:
        self._drafters = drafters
        self._slow: dict[str, int] = {}
        self.benched: dict[str, str] = {}
        self.news = ""  # the latest reason, until it is told

    def bench(self, name: str, reason: str) -> None:
        if name not in self.benched:
            self.benched[name] = reason
            self.news = f"{name} sits out this reply: {reason}"
        with contextlib.suppress(Exception):
            self._drafters[name].reset()

    def tell(self) -> str:
        """What happened since it was last asked, in a few words, or nothing."""
        news, self.news = self.news, ""
        return news

    def call(self, name: str, function: Callable[..., T], *args: Any) -> T | None:
        """`function(*args)` of the drafter `name`; None if it sits out, or fails and is benched."""
        if name in self.benched:
            return None
        try:
            return function(*args)
        except Exception as e:  # a drafter may be anyone's: whatever it raises, the reply goes on
            first = (str(e).strip().splitlines() or [""])[0][:120]
            self.bench(name, f"it failed with {type(e).__name__}" + (f": {first}" if first else ""))
            return None

    def took(self, name: str, seconds: float, plain_s: float | None) -> None:
        """A proposal took this long."""
        if seconds > max(SLOW_S, SLOW_PASSES * (plain_s or 0.0)):
            self._slow[name] = self._slow.get(name, 0) + 1
            if self._slow[name] >= PATIENCE:
                self.bench(name, f"a draft took {seconds:.1f} seconds")


def tame(draft: Draft, n: int, vocabulary: int) -> tuple[Draft, mx.array]:
    """The draft cut to `n` tokens that exist, with laws that are laws; and whether it was not so, on the device.
    Raises ValueError for shapes that fit nothing.

    A row of NaN becomes a law that gives nothing: the draft fails there and the target's own law replaces it.
    """
    if draft.tokens.ndim != 1 or (draft.logq is not None and draft.logq.shape != (draft.chain, vocabulary)):
        laws = "" if draft.logq is None else f" with laws of shape {draft.logq.shape}"
        raise ValueError(f"its draft has the shape {draft.tokens.shape}{laws}")
    sides = draft.sides
    if sides and (draft.chain > n or not all(0 <= p < draft.chain for p, _ in sides)):
        raise ValueError("its tree is none")
    tokens = draft.tokens[: n + len(sides)].astype(mx.uint32)
    bad = mx.any(tokens >= vocabulary)
    tokens = mx.minimum(tokens, vocabulary - 1)
    logq = draft.logq
    if logq is not None:
        logq = logq[:n]
        broken = mx.any(mx.isnan(logq) | (logq > 1e-3), axis=-1, keepdims=True)
        bad = bad | mx.any(broken)
        logq = mx.where(broken, -mx.inf, logq)
    return Draft(tokens, logq, draft.sureness[:n], sides), bad
