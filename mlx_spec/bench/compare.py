"""Do two arms write the same text, and if not, how close was the choice where they part?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from ..engine import Engine
from ..events import SamplingSettings
from ..sampling import gumbel, process
from .arms import read_prompt


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which two replies differ. `gap` is how far the target's two best scores there are
    apart (log-probability, with the draw's noise where the temperature is above 0): passes of different
    width round differently, so a gap near 0 is a tie that rounding decided, and anything else is a bug."""

    index: int  # in the reply
    ours: int | None  # the token ids; None where a reply has ended
    other: int | None
    gap: float


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Index of the first difference, None if there is none."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return None if len(a) == len(b) else min(len(a), len(b))


def difference(
    engine: Engine,
    sampling: SamplingSettings,
    prompt: Sequence[int],
    ours: Sequence[int],
    other: Sequence[int],
) -> Difference | None:
    """None if both replies are the same. Costs one pass of one row where they are not."""
    i = first_difference(ours, other)
    if i is None:
        return None
    text = [*prompt, *ours[:i]]
    read_prompt(engine, text)
    logits = engine.target.run(mx.array(text[-1:], mx.uint32), text[-1:])
    scores = process(logits, sampling)[0]
    if sampling.temperature > 0:
        scores = scores + gumbel(sampling.seed or 0, len(text), scores.shape[-1])
    second, best = np.sort(np.array(scores))[-2:]
    gap = float(best - second)
    return Difference(i, ours[i] if i < len(ours) else None, other[i] if i < len(other) else None, gap)
