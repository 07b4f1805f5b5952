"""What every drafter would have proposed at every place of a reply: all that a policy needs, offline.

At temperature 0, and under the rule `match` at any temperature, the text does not depend on who drafts. So one
plain reply is enough: at each place of it each drafter's proposal is compared with what really came. How long
rounds take is measured apart, as passes by width and drafts by token. `replay.py` plays any policy over it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import mlx.core as mx

from ..drafters.base import Context, Drafter, sureness
from ..drafters.draft_model import DraftModel
from ..engine import Engine
from ..events import DrafterSettings, Finished, Round, SamplingSettings
from ..sampling import History, draw, process
from ..target import Target, common_prefix

LONGEST = 16  # tokens a draft
WIDTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 17)
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Place:
    """What one drafter has at one place: `held` of its `limit` tokens are what the reply went on with."""

    key: str
    limit: int
    held: int
    sure: float | None = None  # the drafter's own probability for its first token


@dataclass(frozen=True, slots=True)
class Recorded:
    """One reply of `tokens` tokens. `places` has for each drafter one entry a token, None where it has nothing.

    `costs` are (width, plain passes), `drafts` plain passes a drafted token, `plain_s` seconds a plain pass.
    """

    category: str
    name: str
    tokens: int
    plain_s: float
    costs: tuple[tuple[int, float], ...]
    drafts: dict[str, float]
    places: dict[str, tuple[Place | None, ...]]


def record(
    engine: Engine, prompt: Sequence[int], sampling: SamplingSettings, names: Sequence[str], category: str, name: str
) -> Recorded:
    """Write a plain reply and ask the drafters `names` at each of its places. `sampling` needs a seed where its
    temperature is above 0."""
    tokens: list[int] = []
    for event in engine.generate(prompt, sampling, DrafterSettings(())):
        if isinstance(event, Round):
            tokens += event.tokens
        elif isinstance(event, Finished):
            break
    plain_s, costs = pass_costs(engine.target)
    places: dict[str, tuple[Place | None, ...]] = {}
    drafts: dict[str, float] = {}
    for drafter_name in names:
        drafter = engine.drafters[drafter_name]
        drafter.begin(prompt)
        if isinstance(drafter, DraftModel):
            places[drafter_name], seconds = _model(drafter, prompt, tokens, sampling, engine.target.vocabulary)
        else:
            places[drafter_name], seconds = _asked(drafter, prompt, tokens, sampling, engine.target.vocabulary)
        drafts[drafter_name] = seconds / plain_s
    return Recorded(category, name, len(tokens), plain_s, costs, drafts, places)


def pass_costs(target: Target) -> tuple[float, tuple[tuple[int, float], ...]]:
    """Seconds of a plain pass at the present end of the cache, and (width, plain passes). Medians, the widths taken
    in turn. The caches are left as they were."""
    length = len(target.tokens)
    seconds: dict[int, list[float]] = {w: [] for w in WIDTHS}
    for _ in range(REPEATS + 1):
        for width, times in seconds.items():
            target.begin()
            start = time.perf_counter()
            mx.eval(mx.argmax(target.run(mx.array([target.tokens[-1]] * width, mx.uint32)), axis=-1))
            times.append(time.perf_counter() - start)
            target.keep(length)
    medians = {w: median(times[1:]) for w, times in seconds.items()}  # the first one may compile
    return medians[1], tuple((w, s / medians[1]) for w, s in medians.items())


def _asked(
    drafter: Drafter, prompt: Sequence[int], tokens: Sequence[int], sampling: SamplingSettings, vocabulary: int
) -> tuple[tuple[Place | None, ...], float]:
    """Ask at each place, and let it draft; seconds a token, 0 for drafts that cost nothing."""
    history = History(prompt, vocabulary, sampling)
    places: list[Place | None] = []
    spent, drafted = 0.0, 0
    for i in range(len(tokens)):
        offer = drafter.offer(history, LONGEST)
        if offer is None or offer.limit < 1:
            places.append(None)
        else:
            draft = list(offer.tokens)
            if drafter.cost_hint > 0:
                start = time.perf_counter()
                proposed: Any = drafter.propose(
                    Context(history, sampling, sampling.seed or 0, True), offer, offer.limit
                )
                draft = [int(t) for t in proposed.tokens.tolist()]
                spent, drafted = spent + time.perf_counter() - start, drafted + len(draft)
                drafter.settle(draft)
            draft = draft[:LONGEST]
            places.append(Place(offer.key, len(draft), common_prefix(draft, tokens[i:])))
        history.extend(tokens[i : i + 1])
    return tuple(places), spent / drafted if drafted else 0.0


def _model(
    drafter: DraftModel, prompt: Sequence[int], tokens: Sequence[int], sampling: SamplingSettings, vocabulary: int
) -> tuple[tuple[Place | None, ...], float]:
    """A draft model's drafts follow the text as long as they hold, so one pass over the reply tells at which places
    it is right, and a draft holds as long as all places are."""
    history = History(prompt, vocabulary, sampling)
    offer = drafter.offer(history, LONGEST)
    assert offer is not None
    context = Context(history, sampling, sampling.seed or 0, True)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        mx.eval(drafter.propose(context, offer, 4).tokens)
        times.append(time.perf_counter() - start)
        drafter.settle([0] * 4)
    drafter.reset()

    state = drafter.state()
    sayable = [drafter.short is None or drafter.short.has(t) for t in tokens]
    if drafter.short:
        sayable = [sayable[i] or t in tokens[:i] for i, t in enumerate(tokens)]
        drafter.short.add(tokens)
    for _ in state.prefill(list(prompt[:-1])):
        pass
    counts = history.counts(mx.array(list(tokens[:-1]), mx.uint32) if len(tokens) > 1 else None)
    logits = state.run(mx.array([prompt[-1], *tokens[:-1]], mx.uint32))[:, :vocabulary]
    logp = process(logits, sampling, counts)
    drafted: Any = draw(logp, sampling.seed or 0, len(prompt), sampling.temperature).tolist()
    sure: Any = sureness(logp, mx.array(drafted, mx.uint32)).tolist()
    held, places = 0, []
    for i in range(len(tokens) - 1, -1, -1):
        held = held + 1 if drafted[i] == tokens[i] and sayable[i] else 0
        places.append(Place("", LONGEST, min(held, LONGEST), float(sure[i])))
    return tuple(reversed(places)), min(times) / 4


def as_json(recorded: Sequence[Recorded]) -> list[dict[str, Any]]:
    return [
        {
            "category": r.category,
            "name": r.name,
            "tokens": r.tokens,
            "plain_s": r.plain_s,
            "costs": [list(c) for c in r.costs],
            "drafts": r.drafts,
            "places": {d: [p and [p.key, p.limit, p.held, p.sure] for p in places] for d, places in r.places.items()},
        }
        for r in recorded
    ]


def from_json(data: Sequence[dict[str, Any]]) -> list[Recorded]:
    """What `as_json` gave. Raises KeyError, TypeError or ValueError for anything else."""
    return [
        Recorded(
            str(d["category"]),
            str(d["name"]),
            int(d["tokens"]),
            float(d["plain_s"]),
            tuple((int(w), float(c)) for w, c in d["costs"]),
            {str(k): float(v) for k, v in d["drafts"].items()},
            {str(k): tuple(p and _place(*p) for p in places) for k, places in d["places"].items()},
        )
        for d in data
    ]


def _place(key: str, limit: int, held: int, sure: float | None = None) -> Place:
    return Place(str(key), int(limit), int(held), None if sure is None else float(sure))
