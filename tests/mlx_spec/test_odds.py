"""What a round says of probabilities: the drafter's own, and the target's, where they are there anyway."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import mlx.core as mx
import pytest

from mlx_spec.drafters.base import Context, Draft, Offer
from mlx_spec.drafters.lookup import Lookup
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import DrafterSettings, Message, Round, SamplingSettings
from mlx_spec.odds import chances, hopes

from .tiny import tiny_llama

PROMPT = [Message("user", "one two three four five one two three")]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("tiny")
    yield load_engine(tiny_llama(folder / "target"), tiny_llama(folder / "draft", layers=1))
    mx.clear_cache()


def rounds(engine: Engine, sampling: SamplingSettings, drafters: DrafterSettings) -> list[Round]:
    return [e for e in engine.generate(PROMPT, sampling, drafters) if isinstance(e, Round)]


def test_the_target_gives_each_token_the_same_chance_however_it_was_checked(engine: Engine) -> None:
    sampling = SamplingSettings(temperature=0.8, seed=5, max_tokens=40)
    plain = rounds(engine, sampling, DrafterSettings(()))
    drafted = rounds(engine, sampling, DrafterSettings(("lookup", "model"), max_draft=4, adaptive=False))
    one = [c for r in plain for c in r.chances]
    two = [c for r in drafted for c in r.chances]
    assert any(r.accepted for r in drafted)
    assert all(len(r.chances) == len(r.tokens) for r in (*plain, *drafted))
    assert two == pytest.approx(one, abs=2e-4)
    assert all(0 < c <= 1 for c in one)


class Sure(Lookup):
    """Copies, and says how sure it is."""

    name = "sure"

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        return replace(super().propose(context, offer, n), sureness=(0.75,) * n)


def test_a_drafter_that_knows_says_how_sure_it_was(engine: Engine) -> None:
    engine.drafters["sure"] = Sure()
    try:
        made = rounds(engine, SamplingSettings(max_tokens=30), DrafterSettings(("sure",), adaptive=False))
    finally:
        del engine.drafters["sure"]
    drafted = [r for r in made if r.drafted]
    assert drafted
    assert all(r.hopes == (0.75,) * len(r.drafted) for r in drafted)
    copied = rounds(engine, SamplingSettings(max_tokens=30), DrafterSettings(("lookup",), adaptive=False))
    assert all(r.hopes == () for r in copied)


@pytest.mark.parametrize("rule", ["match", "rejection"])
def test_greedy_and_other_rules_say_only_what_they_know(engine: Engine, rule: str) -> None:
    drafters = DrafterSettings(("lookup",), rule, adaptive=False)
    assert all(r.chances == () for r in rounds(engine, SamplingSettings(max_tokens=20), drafters))
    hot = rounds(engine, SamplingSettings(temperature=0.9, seed=1, max_tokens=20), drafters)
    assert all(bool(r.chances) == (rule == "match" or not r.drafted) for r in hot)


def test_the_own_token_is_shown_by_its_text(engine: Engine) -> None:
    made = rounds(engine, SamplingSettings(max_tokens=12), DrafterSettings(()))
    assert all(r.own_text for r in made)


def test_a_trees_hopes_follow_its_rows() -> None:
    draft = Draft(mx.array([7, 8, 9], mx.uint32), sureness=(0.5, 0.25), sides=((0, 0.125),))
    assert hopes(draft, [3, 1, 2]) == (0.125, 0.5, 0.25)
    assert hopes(Draft(mx.array([7], mx.uint32)), [1]) == ()
    assert hopes(None, []) == ()
    hot = SamplingSettings(temperature=1.0)
    assert chances([0.0, math.log(0.5), -math.inf], [0, 1], "match", hot, draft) == (1.0, 0.5)
    assert chances([0.0], [0], "block", hot, draft) == ()
