"""Any policy over recorded replies, without a model: `mlx-spec replay FILE`.

Beside the controller's and fixed policies stands the oracle, which knows the reply and takes at each place the
drafter and length with which the whole reply is done soonest: no policy over these drafters can beat it on this
machine, so it tells how much of a missing target the drafters owe and how much the policy.
"""

from __future__ import annotations

import itertools
import json
import random
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from ..controller import Candidate, Controller
from ..events import Problem
from .record import Recorded, from_json
from .report import geometric_mean

UNKNOWN = 0.8
NOISE = 0.03  # of a pass's time, as single times scatter


class Policy(Protocol):
    def __call__(self, recorded: Recorded) -> float:
        """The time of a reply in plain passes."""


def cost(recorded: Recorded, width: int) -> float:
    """A pass of `width` rows in plain passes: measured, or between its neighbours."""
    costs = recorded.costs
    for (w0, c0), (w1, c1) in itertools.pairwise(costs):
        if w0 <= width <= w1:
            return c0 + (c1 - c0) * (width - w0) / (w1 - w0)
    (w0, c0), (w1, c1) = costs[-2:]
    return c1 + (c1 - c0) / (w1 - w0) * (width - w1)


def came(recorded: Recorded, drafter: str, place: int, n: int) -> int:
    """Tokens that a round yields which drafts `n` at `place`."""
    at = recorded.places[drafter][place]
    return min(n, at.held if at else 0) + 1


def plain(recorded: Recorded) -> float:
    return float(recorded.tokens)


def fixed(recorded: Recorded, drafter: str, n: int) -> float:
    """`n` tokens of one drafter wherever it has them."""
    place, spent = 0, 0.0
    while place < recorded.tokens:
        at = recorded.places[drafter][place]
        drafts = min(n, at.limit, recorded.tokens - place - 1) if at else 0
        spent += cost(recorded, 1 + drafts) + drafts * recorded.drafts[drafter]
        place += came(recorded, drafter, place, drafts) if drafts else 1
    return spent


def oracle(recorded: Recorded) -> float:
    """The least time in hindsight, by dynamic programming from the end."""
    least = [0.0] * (recorded.tokens + 1)
    for place in range(recorded.tokens - 1, -1, -1):
        best = 1.0 + least[place + 1]
        for drafter, places in recorded.places.items():
            at = places[place]
            # A longer draft than what holds is never better.
            for n in range(1, min(at.held, recorded.tokens - place - 1) + 1 if at else 1):
                spent = cost(recorded, 1 + n) + n * recorded.drafts[drafter]
                best = min(best, spent + least[place + 1 + n])
        least[place] = best
    return least[0]


@dataclass
class Controlled:
    """The controller, with what it learned in one reply kept for the next."""

    controller: Controller = field(default_factory=Controller)
    random: random.Random = field(default_factory=lambda: random.Random(0))

    def __call__(self, recorded: Recorded) -> float:
        c, passes = self.controller, recorded.plain_s
        c.begin()
        place, spent = 0, 0.0
        while place < recorded.tokens:
            left = recorded.tokens - place - 1
            known = [
                Candidate(name, at.key, min(at.limit, left), recorded.drafts[name], at.sure is not None)
                for name, places in recorded.places.items()
                if (at := places[place]) and left
            ]
            chosen, choice = c.choose(known)
            name, n = (chosen.drafter, choice.n) if chosen else (None, 0)
            sure = self._sure(recorded, name, place, n) if name and chosen and chosen.stops else []
            n = len(sure) or n
            tokens = came(recorded, name, place, n) if name else 1
            drafting = n * recorded.drafts[name] if name else 0.0
            took = (cost(recorded, 1 + n) + drafting) * (1 + self.random.uniform(-NOISE, NOISE))
            for k in known:
                at = recorded.places[k.drafter][place]
                assert at is not None
                if k.drafter == name:
                    c.learn(k.drafter, k.key, n, tokens - 1)
                    c.learn_sureness(k.drafter, sure, tokens - 1)
                elif k.cost_hint == 0:
                    c.learn(k.drafter, k.key, min(k.limit, tokens), min(at.held, tokens, k.limit))
            c.record(name, n, tokens, drafting * passes, took * passes)
            place, spent = place + tokens, spent + took
        return spent

    def _sure(self, recorded: Recorded, drafter: str, place: int, most: int) -> list[float]:
        """How sure the drafter is of each token until it stops. Where it left the text its sureness was not
        recorded: UNKNOWN stands for it."""
        places = recorded.places[drafter]
        at = places[place]
        assert at is not None
        sure: list[float] = []
        while len(sure) < most and (not sure or self.controller.goes_on(drafter, sure)):
            here = places[place + len(sure)] if len(sure) <= at.held else None
            sure.append(here.sure if here and here.sure is not None else UNKNOWN)
        return sure


def policies(recorded: Sequence[Recorded]) -> dict[str, Policy]:
    """All that are compared, by name."""
    found: dict[str, Policy] = {"controller": Controlled()}
    for drafter in recorded[0].places:
        for n in (2, 4, 8):
            found[f"{drafter} {n}"] = partial(fixed, drafter=drafter, n=n)
    found["oracle"] = oracle
    return found


def speeds(recorded: Sequence[Recorded], names: Sequence[str] = ()) -> dict[str, list[float]]:
    """Each policy's speed on each reply, plain decoding being 1. Raises `Problem` for a policy that is not there."""
    known = policies(recorded)
    for name in names:
        if name not in known:
            raise Problem(f'There is no policy "{name}".', f"Choose from {', '.join(known)}.")
    return {name: [r.tokens / known[name](r) for r in recorded] for name in names or known}


def run(options: Namespace) -> int:
    """Print a table of policies; returns 0."""
    try:
        recorded = from_json(json.loads(options.file.read_text("utf-8")))
        if not recorded:
            raise ValueError("no replies")
    except OSError as e:
        raise Problem(
            f"The record {options.file} cannot be read: {e.strerror}.", "Make one with bench --record."
        ) from e
    except (ValueError, KeyError, TypeError, IndexError) as e:
        raise Problem(f"{options.file} is not a record of replies.", "Make one with bench --record.") from e
    result = speeds(recorded, options.policies)
    best = {name: geometric_mean(values) for name, values in result.items()}
    width = max(len(name) for name in result)
    print(f"{'policy':{width}}  all    worst  {'  '.join(c[:12].rjust(12) for c in _categories(recorded))}")
    for name, values in result.items():
        means = [
            geometric_mean(v for v, r in zip(values, recorded, strict=True) if r.category == c)
            for c in _categories(recorded)
        ]
        row = "  ".join(f"{m:11.2f}x" for m in means)
        print(f"{name:{width}}  {best[name]:.2f}x  {min(values):.2f}x  {row}")
    if "oracle" in best and "controller" in best:
        share = 100 * best["controller"] / best["oracle"]
        print(f"\nThe controller reaches {share:.0f} % of what the best choice in hindsight would.")
    return 0


def _categories(recorded: Sequence[Recorded]) -> list[str]:
    return list(dict.fromkeys(r.category for r in recorded))
