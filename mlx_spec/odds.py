"""The probabilities that a round tells: the drafter's for what it drafted, the target's for what was written.

Only what is there anyway: nothing here makes a pass dearer. Knows rows and drafts, not the loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlx.core as mx

from .drafters.base import Draft
from .events import SamplingSettings

PLACES = 4  # decimals that are told


def logp_of(own: mx.array, logp: mx.array) -> mx.array:
    """What `logp` (rows, vocabulary) says of the tokens `own` (rows,): (rows,), log-probabilities where it is
    normalised. NaN or -inf where all logits are: then there is no next token."""
    return mx.take_along_axis(logp, own[:, None].astype(mx.uint32), axis=-1)[:, 0]


def hopes(draft: Draft | None, order: Sequence[int]) -> tuple[float, ...]:
    """The drafter's own probability of each token that it drafted; () where unknown.

    `order` has their rows in the pass, in the order in which they are told; row 0 is the newest token.
    """
    if draft is None or not draft.sureness or len(draft.sureness) != draft.chain:
        return ()
    sure = [*draft.sureness, *(p for _, p in draft.sides)]
    return tuple(round(float(sure[row - 1]), PLACES) for row in order)


def chances(
    logp: Sequence[float], path: Sequence[int], rule: str, sampling: SamplingSettings, draft: Draft | None
) -> tuple[float, ...]:
    """The target's probability of each token of a round; () where unknown.

    `logp` is what `logp_of` gave for all rows of the pass, `path` has the rows whose tokens were written.
    """
    # At temperature 0 nothing is normalised; and only with `match` a draft that held is its row's own draw.
    if sampling.temperature == 0 or (rule != "match" and draft is not None):
        return ()
    return tuple(round(math.exp(logp[row]), PLACES) for row in path)
