"""An independent draft model: a small model with the same tokenizer writes ahead.

Leviathan et al. 2023 (arXiv 2211.17192), Chen et al. 2023 (arXiv 2302.01318). Of a large vocabulary it knows the
frequent tokens (shortlist.py). It knows nothing of the target but its vocabulary's size.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn as nn

from ..anatomy import dissect
from ..sampling import History
from ..target import PREFILL_STEP, Target, common_prefix
from .base import Context, Draft, Offer
from .chain import draft_chain
from .shortlist import Shortlist, shortlist


class DraftModel:
    name = "model"
    stops = True

    def __init__(self, model: nn.Module, cost_hint: float = 0.3) -> None:
        self.model = model
        self.cost_hint = cost_hint
        vocabulary = Target(model).vocabulary
        self.short: Shortlist | None = shortlist(model, dissect(model), vocabulary)
        self._state = self.state()
        self._agreed = 0  # rows of the cache that are known to be the history's

    def state(self) -> Target:
        """Fresh caches for the draft model, with the head that it drafts with."""
        return Target(self.model, self.short)

    def reset(self) -> None:
        self._state.reset()
        self._agreed = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Reads the prompt but for its last token, which is the first row of the first proposal."""
        self._agreed = 0
        if self.short:
            self.short.add(prompt)
        self._catch_up(prompt)
        self._state.remember()

    def _catch_up(self, history: Sequence[int]) -> list[int]:
        """Drop rows that failed; prefill a long gap; return the last few tokens to be fed."""
        n = min(common_prefix(self._state.tokens, history, self._agreed), len(history) - 1)
        self._state.keep(n)  # where the cache cannot take rows back, they are run again with what is fed
        if len(history) - n > PREFILL_STEP or self._agreed == 0:
            for _ in self._state.prefill(history[n:-1]):
                pass
            n = len(history) - 1
        self._agreed = n
        return list(history[n:])

    def offer(self, history: History, limit: int) -> Offer | None:
        return Offer(limit)

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        fed = self._catch_up(context.history.tokens)
        if self.short:
            self.short.add(fed)

        def step(i: int, token: mx.array | None) -> mx.array:
            if i == 1:  # what was fed is sure; from here on rows may have to go again
                self._state.begin(single=True)
            rows, known = (mx.array(fed, mx.uint32), fed) if token is None else (token, None)
            return self._state.run(rows, known)[-1:]

        return draft_chain(context, n, step)

    def settle(self, drafted: Sequence[int]) -> None:
        """Names the drafted rows in the cache; the last draft was never fed."""
        rows = list(drafted[:-1])
        if rows:
            self._state.tokens[-len(rows) :] = rows
