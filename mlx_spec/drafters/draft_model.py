"""An independent draft model: a small model with the same tokenizer writes ahead.

Leviathan et al. 2023 (arXiv 2211.17192), Chen et al. 2023 (arXiv 2302.01318). The chain of drafts stays on
the device: no token is read by the host before the target has checked it, only how sure the model was of it, by
which the chain ends. Drafts are drawn by the same
settings as the target's tokens: with the target's own noise where the rule is `match` (Daliri, Musco and
Suresh 2024, arXiv 2408.07978: the draws agree with probability at least (1 - TV) / (1 + TV)), with noise of
its own where the rule is `rejection`. Of a large vocabulary it knows the frequent tokens (shortlist.py). It
knows nothing of the target but its vocabulary's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from ..anatomy import dissect
from ..sampling import DRAFT, DRAW, History, gumbel, process
from ..target import PREFILL_STEP, Target, common_prefix
from .base import Context, Draft, Offer, sureness
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
        # How many tokens later a token's probability is read: a GPU must not wait for the host in between.
        self.lag = 0 if mx.default_device() == mx.Device(mx.cpu) else 1
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
        history, settings = context.history, context.sampling
        fed = self._catch_up(history.tokens)
        if self.short:
            self.short.add(fed)
        position, vocabulary = len(history), history.vocabulary
        ids: list[mx.array] = []
        laws: list[mx.array] = []
        rows = mx.array(fed, mx.uint32)
        known: list[int] | None = fed
        sure: list[mx.array] = []
        read: list[float] = []
        for i in range(n):
            if context.goes_on and len(read) < len(sure) - self.lag:
                read.append(_number(sure[len(read)]))
                if not context.goes_on(read):
                    break
            if i == 1:  # what was fed is sure; from here on rows may have to go again
                self._state.begin(single=True)
            logits = self._state.run(rows, known)[-1:, :vocabulary]
            counts = history.counts(mx.concatenate(ids) if ids else None)
            logp = process(logits, settings, None if counts is None else counts[-1:])
            if settings.temperature > 0:
                noise = gumbel(context.seed, position + i, vocabulary, DRAW if context.coupled else DRAFT)
                token = mx.argmax(logp + noise[: logp.shape[-1]], axis=-1)
                if not context.coupled:
                    missing = vocabulary - logp.shape[-1]
                    laws.append(mx.pad(logp, [(0, 0), (0, missing)], constant_values=-mx.inf))
            else:
                token = mx.argmax(logp, axis=-1)
            ids.append(token)
            sure.append(sureness(logp, token))
            mx.async_eval(token, sure[-1])
            rows, known = token, None
        if context.goes_on:
            read += [_number(s) for s in sure[len(read) : len(sure) - self.lag]]
        return Draft(mx.concatenate(ids), mx.concatenate(laws) if laws else None, tuple(read))

    def settle(self, drafted: Sequence[int]) -> None:
        """Names the drafted rows in the cache; the last draft was never fed."""
        rows = list(drafted[:-1])
        if rows:
            self._state.tokens[-len(rows) :] = rows


def _number(one: mx.array) -> float:
    value: Any = one.item()
    return float(value)
