"""A draft token after token by anything that gives logits: the loop that autoregressive drafters share.

Drafts are drawn by the same settings as the target's tokens: with the target's own noise where the rule is `match`
(Daliri, Musco and Suresh 2024, arXiv 2408.07978: the draws agree with probability at least (1 - TV) / (1 + TV)),
with noise of their own where the rule is `rejection`. The chain stays on the device: no token is read by the host
before the target has checked it, only how sure the drafter was of it, by which the chain ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from ..sampling import DRAFT, DRAW, gumbel, process
from .base import Context, Draft, sureness


def lag() -> int:
    """How many tokens later a token's probability is read: a GPU must not wait for the host in between."""
    return 0 if mx.default_device() == mx.Device(mx.cpu) else 1


def draft_chain(context: Context, n: int, step: Callable[[int, mx.array | None], mx.array | None]) -> Draft:
    """At most `n` tokens. `step(i, token)` gives the logits (1, vocabulary) of draft i: it feeds the drafter with
    `token`, the draft before, not yet read (None at first: what the history ends with). None instead of logits ends
    the draft; the first must be there."""
    history, settings = context.history, context.sampling
    position, vocabulary, late = len(history), history.vocabulary, lag()
    ids: list[mx.array] = []
    laws: list[mx.array] = []
    sure: list[mx.array] = []
    others: list[tuple[mx.array, mx.array]] = []  # at each place the second choice, and its probability
    read: list[float] = []
    for i in range(n):
        if context.goes_on and len(read) < len(sure) - late:
            read.append(_number(sure[len(read)]))
            if not context.goes_on(read):
                break
        said = step(i, ids[-1] if ids else None)
        if said is None:
            break
        logits = said[:, :vocabulary]
        counts = history.counts(mx.concatenate(ids) if ids else None)
        logp = process(logits, settings, None if counts is None else counts[-1:])
        noisy = logp
        if settings.temperature > 0:
            noise = gumbel(context.seed, position + i, vocabulary, DRAW if context.coupled else DRAFT)
            noisy = logp + noise[: logp.shape[-1]]
            token = mx.argmax(noisy, axis=-1)
            if not context.coupled:
                missing = vocabulary - logp.shape[-1]
                laws.append(mx.pad(logp, [(0, 0), (0, missing)], constant_values=-mx.inf))
        else:
            token = mx.argmax(logp, axis=-1)
        ids.append(token)
        sure.append(sureness(logp, token))
        if context.sides:
            second = mx.argmax(_without(noisy, token), axis=-1)
            # Where drafts are judged by their law, what is known of a second choice before it is drawn must do.
            likely = second if settings.temperature == 0 or context.coupled else mx.argmax(_without(logp, token), -1)
            others.append((second, sureness(logp, likely)))
            mx.async_eval(token, sure[-1], *others[-1])
        else:
            mx.async_eval(token, sure[-1])
    if context.goes_on:
        read += [_number(s) for s in sure[len(read) : len(sure) - (0 if context.sides else late)]]
    sides: list[tuple[int, float]] = []
    if context.sides and len(read) == len(ids):
        sides = context.sides(read, [(place, _number(chance)) for place, (_, chance) in enumerate(others)])
    tokens = mx.concatenate([*ids, *(others[place][0] for place, _ in sides)])
    return Draft(tokens, mx.concatenate(laws) if laws else None, tuple(read), tuple(sides))


def _without(rows: mx.array, tokens: mx.array) -> mx.array:
    """Rows (n, vocabulary) in which `tokens` (n,) cannot be."""
    return mx.put_along_axis(rows, tokens[:, None], mx.array(-mx.inf), axis=-1)


def _number(one: mx.array) -> float:
    value: Any = one.item()
    return float(value)
