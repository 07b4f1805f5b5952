"""What every drafter is to the decoder. A drafter can change time, never text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from ..events import SamplingSettings
from ..sampling import History


@dataclass(frozen=True, slots=True)
class Offer:
    """What a drafter could propose here, before it spends anything on it.

    `limit` is the most tokens it has; `key` sorts its offers by how much they are to be trusted (the length
    of a match, say); `tokens` are the drafts themselves where they cost nothing.
    """

    limit: int
    key: str = ""
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """Drafted tokens, on the device: uint32 (n,). `logq` (n, vocabulary) is the law that they were really
    drawn from; None means that they are deterministic (or coupled to the target's own noise). `sureness` has the
    drafter's own probability of each token of the chain, where the host knows it.

    A draft is a chain; behind it `sides` may follow, tokens that might come instead of one of the chain: for each the
    place in the chain (0 the first) and the drafter's probability for it."""

    tokens: mx.array
    logq: mx.array | None = None
    sureness: tuple[float, ...] = ()
    sides: tuple[tuple[int, float], ...] = ()

    @property
    def chain(self) -> int:
        """Tokens of the chain."""
        return int(self.tokens.shape[0]) - len(self.sides)

    @property
    def parents(self) -> list[int]:
        """For each row of the pass that checks the draft the row that it follows; the newest token is row 0."""
        return [-1, *range(self.chain), *(place for place, _ in self.sides)]


@dataclass(frozen=True, slots=True)
class Context:
    """What a drafter may know when it proposes. It never sees the target's draws."""

    history: History
    sampling: SamplingSettings
    seed: int
    coupled: bool  # True: sampled drafts use the target's noise (rule `match`)
    goes_on: Callable[[Sequence[float]], bool] | None = None  # see `Drafter.stops`
    # Which of these (place, probability) are worth a row beside a chain with these probabilities; None: no trees here.
    sides: Callable[[Sequence[float], Sequence[tuple[int, float]]], list[tuple[int, float]]] | None = None


class Drafter(Protocol):
    name: str
    cost_hint: float  # of one drafted token, in passes of the target, until it is measured
    stops: bool  # whether it asks `Context.goes_on` after each token and may draft fewer than it was asked for

    def begin(self, prompt: Sequence[int]) -> None:
        """A reply starts after `prompt`. May be slow: the prompt is being read anyway."""

    def offer(self, history: History, limit: int) -> Offer | None:
        """What could be drafted after `history`, at most `limit` tokens. Must be cheap."""

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        """Draft `n` tokens, 1 <= n <= offer.limit."""

    def settle(self, drafted: Sequence[int]) -> None:
        """The round is over and the host knows the tokens of the last proposal."""

    def reset(self) -> None:
        """Forget everything."""


class Free:
    """What the drafters share that copy tokens from somewhere: the offer is the draft, and it costs nothing."""

    cost_hint = 0.0
    stops = False

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        return Draft(mx.array(offer.tokens[:n], mx.uint32))

    def settle(self, drafted: Sequence[int]) -> None:
        """Nothing of a proposal is kept."""


def sureness(logp: mx.array, tokens: mx.array) -> mx.array:
    """The probabilities (n,) of `tokens` (n,) by processed rows (n, vocabulary), which need not be normalised."""
    chosen = mx.take_along_axis(logp, tokens[:, None], axis=-1)[:, 0]
    return mx.exp(chosen - mx.logsumexp(logp, axis=-1))
