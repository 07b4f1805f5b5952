"""Which layers can be left out of a model's drafts: searched once for a model, and kept.

The layers that matter least are found by leaving them out. From all layers on, the one goes whose loss keeps the
drafts best, again and again; of all the sets on that way the one wins that promises the most speed, by the share of
its guesses that are right, its size, and what passes cost here (theory.py). Then that set is tried in earnest,
against plain decoding. "Draft & Verify" searches by Bayesian optimisation over single attention and feed-forward
blocks; whole layers, greedily, take a minute instead of hours. Knows text only as the model's own replies.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from .anatomy import Anatomy, dissect, weight_bytes
from .drafters.layer_skip import LayerSkip, able, only
from .engine import Engine
from .events import DrafterSettings, Finished, Message, Problem, Round, SamplingSettings
from .files import replacing
from .theory import best_length

QUESTIONS = (
    "Explain in a few sentences how a sailing boat can travel against the wind.",
    "Write a short Python function that counts the words in a file, with a docstring.",
    "Give me five ideas for a birthday party in the garden.",
)
TOKENS = 64  # of each reply
LEAST = 4  # one layer in LEAST stays at least
WORTH = 1.02  # of plain: less is not worth a drafter

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Found:
    """`kept` of `layers` layers; `right` is the share of its guesses that are the model's own tokens, `cost` that of a
    drafted token in plain passes, `speed` what was measured with it against plain decoding."""

    kept: tuple[int, ...]
    layers: int
    right: float
    cost: float
    speed: float

    @property
    def worth(self) -> bool:
        return self.speed >= WORTH


def search(engine: Engine, progress: Progress = lambda done, total: None) -> Found:
    """Search the engine's target. Raises `Problem` if its layers cannot be left out."""
    anatomy = dissect(engine.target.model)
    reason = able(engine.target, anatomy)
    if reason or anatomy is None:
        raise Problem(f"No layers can be left out of this model: {reason}.", "Choose another drafter.")
    texts = [(prompt, _reply(engine, prompt)) for prompt in (engine.encode([Message("user", q)]) for q in QUESTIONS)]
    costs = _pass_costs(engine)
    total = len(anatomy.layers)
    sizes = _shares(anatomy)
    steps = total - max(2, total // LEAST)
    kept = list(range(total))
    best: tuple[float, tuple[int, ...], float, float] = (0.0, (), 0.0, 1.0)
    for done in range(steps):
        tried = []
        for layer in kept[1:-1]:  # the first and the last layer are never to be missed
            rest = [i for i in kept if i != layer]
            tried.append((right(engine, anatomy, rest, texts), layer))
        share, gone = max(tried)
        kept.remove(gone)
        cost = sizes[-1] + sum(sizes[i] for i in kept)
        gain = best_length(share, cost, costs)[1]
        promise = gain if gain > 1 else share / (cost + costs(2))  # where none gains, the one that loses least
        best = max(best, (promise, tuple(kept), share, cost))
        progress(done + 1, steps)
        mx.clear_cache()
    _, chosen, share, cost = best
    return Found(chosen, total, share, cost, _measured(engine, LayerSkip(engine.target, anatomy, chosen, cost)))


def right(engine: Engine, anatomy: Anatomy, kept: Sequence[int], texts: Sequence[tuple[list[int], list[int]]]) -> float:
    """The share of the replies' tokens that the layers `kept` alone would have written in their place."""
    hits = total = 0
    for prompt, reply in texts:
        caches = [c for i, c in enumerate(make_prompt_cache(engine.target.model)) if i in set(kept)]
        rows = mx.array([[*prompt, *reply[:-1]]], mx.uint32)
        with only(anatomy, kept):
            hidden = anatomy.body(rows, cache=caches)
        guesses = mx.argmax(anatomy.head(hidden[:, len(prompt) - 1 :]), axis=-1)[0]
        hits += int(mx.sum(guesses == mx.array(reply, mx.uint32)).item())  # type: ignore[arg-type]
        total += len(reply)
    return hits / total


def _reply(engine: Engine, prompt: list[int]) -> list[int]:
    events = engine.generate(prompt, SamplingSettings(max_tokens=TOKENS), DrafterSettings(()))
    return [t for e in events if isinstance(e, Round) for t in e.tokens]


def _pass_costs(engine: Engine) -> Callable[[int], float]:
    """Plain passes that a pass of some width takes, measured behind the last reply."""
    target = engine.target
    length = len(target.tokens)
    known: dict[int, float] = {}
    for width in (1, 2, 4, 8):
        times = []
        for _ in range(4):
            start = time.perf_counter()
            mx.eval(target.run(mx.array([target.tokens[-1]] * width, mx.uint32)))
            times.append(time.perf_counter() - start)
            target.keep(length)
        known[width] = min(times)

    def cost(width: int) -> float:
        below = max(w for w in known if w <= width)
        above = min((w for w in known if w >= width), default=below)
        part = (width - below) / (above - below) if above > below else 0.0
        value = known[below] + part * (known[above] - known[below])
        if width > 8:
            value += (known[8] - known[4]) / 4 * (width - 8)
        return value / known[1]

    return cost


def _shares(anatomy: Anatomy) -> list[float]:
    """Each layer's share of the weights that a pass reads, and last that of the head."""
    sizes = [weight_bytes(layer) for layer in anatomy.layers]
    head = weight_bytes(anatomy.projection)
    return [s / (sum(sizes) + head) for s in (*sizes, head)]


def _measured(engine: Engine, drafter: LayerSkip) -> float:
    """Tokens a second with the drafter alone over those of plain decoding, on the questions, in turn."""
    before = engine.drafters.get(drafter.name)
    engine.drafters[drafter.name] = drafter
    seconds = {"plain": 0.0, "skip": 0.0}
    try:
        for _ in range(2):  # the first time is for warming up
            seconds = dict.fromkeys(seconds, 0.0)
            for question in QUESTIONS:
                for arm, names in (("plain", ()), ("skip", (drafter.name,))):
                    sampling = SamplingSettings(max_tokens=TOKENS)
                    for event in engine.generate([Message("user", question)], sampling, DrafterSettings(names)):
                        if isinstance(event, Finished):
                            seconds[arm] += event.decode_s
    finally:
        if before is None:
            del engine.drafters[drafter.name]
        else:
            engine.drafters[drafter.name] = before
    return seconds["plain"] / seconds["skip"]


def save(found: Found, path: Path) -> None:
    """Keep a result for the next load of the model."""
    with replacing(path) as part:
        part.write_text(json.dumps(asdict(found)), "utf-8")


def saved(path: Path) -> Found | None:
    """What was kept; None if there is nothing that can be used."""
    try:
        data = json.loads(path.read_text("utf-8"))
        return Found(
            tuple(int(i) for i in data["kept"]),
            int(data["layers"]),
            float(data["right"]),
            float(data["cost"]),
            float(data["speed"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
