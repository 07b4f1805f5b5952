"""The next plain pass, made ready before the token in front of it is read.

Building a pass takes the host a while in which the device has nothing to do. So while a plain pass runs, the next
one is built on its token, which is still being computed. Where it is sure that the next pass is plain, it is also
started; else it waits: if something is drafted, the caches go back to how they were and nothing was lost but time
in which the host would have waited. mlx-lm's plain loop does the former.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from . import verify
from .events import SamplingSettings
from .odds import logp_of
from .sampling import History, process
from .target import Target


@dataclass(slots=True)
class Ahead:
    """`own` is the token of the pass and `sure` what `logp_of` says of it. While the pass waits, `before` and
    `after` are the caches without and with its row; they are let go before anything is computed, so that buffers
    can be written in place."""

    own: mx.array
    sure: mx.array
    before: Any = None
    after: Any = None

    @property
    def waits(self) -> bool:
        return self.before is not None

    def drop(self, target: Target, length: int) -> None:
        """It is not: back to `length` tokens."""
        if self.waits:
            target.restore(self.before)
            self.before = self.after = None
        else:
            target.keep(length)


def prepare(
    target: Target, own: mx.array, sampling: SamplingSettings, seed: int, history: History, start: bool
) -> Ahead:
    """Build the plain pass after the token `own`, and start it if `start`."""
    before = None if start else target.snapshot()
    counts = history.counts(own)
    if start:
        target.begin()
    logp = process(target.run(own), sampling, None if counts is None else counts[-1:])
    _, after = verify.match(logp, mx.zeros((0,), mx.uint32), seed, len(history) + 1, sampling.temperature)
    ahead = Ahead(after, logp_of(after, logp), before, None if start else target.snapshot())
    if start:
        mx.async_eval(ahead.own, ahead.sure)
    return ahead
