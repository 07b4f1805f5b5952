"""Drafters and models that misbehave: the reply goes on, or ends with a clear sentence."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest

from mlx_spec.drafters import guard
from mlx_spec.drafters.base import Context, Draft, Offer
from mlx_spec.drafters.guard import tame
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import DrafterSettings, Finished, Message, Problem, Round, SamplingSettings
from mlx_spec.sampling import History

from .tiny import tiny_llama

PROMPT = [Message("user", "one two three four five one two three")]
SAMPLED = SamplingSettings(max_tokens=30, seed=5, temperature=0.8)


class Broken:
    """A drafter that breaks one promise, from its third proposal on."""

    name = "broken"
    cost_hint = 0.1
    stops = False

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.asked = 0
        if fault == "ids of a free draft":
            self.cost_hint = 0.0

    def begin(self, prompt: Sequence[int]) -> None:
        if self.fault == "throws at once":
            raise OSError("the weights are gone")

    def settle(self, drafted: Sequence[int]) -> None:
        if self.fault == "throws at the end":
            raise KeyError("lost")

    def reset(self) -> None:
        if self.fault == "throws":
            raise ValueError("cannot even do that")

    def offer(self, history: History, limit: int) -> Offer | None:
        if self.fault == "throws when asked":
            raise ZeroDivisionError
        return Offer(limit, tokens=(100_000,) * limit if self.fault == "ids of a free draft" else ())

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        self.asked += 1
        good = mx.full((n,), 7, mx.uint32)
        if self.asked < 3:
            return Draft(good)
        size = context.history.vocabulary
        if self.fault == "throws":
            raise RuntimeError("no more ideas\nand a second line")
        if self.fault == "ids":
            return Draft(mx.full((n,), size + 3, mx.uint32))
        if self.fault == "negative ids":
            return Draft(mx.full((n,), -1, mx.int32))
        if self.fault == "NaN":
            return Draft(good, mx.full((n, size), mx.nan))
        if self.fault == "no law":
            return Draft(good, mx.zeros((n, size)) + 2.0)
        if self.fault == "too many":
            return Draft(mx.full((n + 40,), 7, mx.uint32))
        if self.fault == "none":
            return Draft(mx.zeros((0,), mx.uint32))
        if self.fault == "wrong shape":
            return Draft(good, mx.zeros((n, 3)))
        if self.fault == "slow":
            time.sleep(0.05)
        return Draft(good)


BENCHED = {
    "throws at once": "OSError: the weights are gone",
    "throws when asked": "ZeroDivisionError",
    "throws": "RuntimeError: no more ideas",
    "throws at the end": "KeyError",
    "ids": "tokens that do not exist",
    "negative ids": "tokens that do not exist",
    "ids of a free draft": "tokens that do not exist",
    "NaN": "probabilities that are none",
    "no law": "probabilities that are none",
    "slow": "took",
    "wrong shape": "laws of shape",
    "too many": "",
    "none": "",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    yield load_engine(tiny_llama(tmp_path_factory.mktemp("tiny") / "target"))
    mx.clear_cache()


def write(engine: Engine, sampling: SamplingSettings, settings: DrafterSettings) -> tuple[list[Round], Finished]:
    events = list(engine.generate(PROMPT, sampling, settings))
    finished = events[-1]
    assert isinstance(finished, Finished)
    return [e for e in events if isinstance(e, Round)], finished


@pytest.mark.parametrize("fault", BENCHED)
@pytest.mark.parametrize("rule", ["match", "rejection", "block"])
def test_a_broken_drafter_sits_out(engine: Engine, fault: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "slow":
        monkeypatch.setattr(guard, "SLOW_S", 0.02)
        monkeypatch.setattr(guard, "SLOW_PASSES", 0.0)
    engine.reset()
    plain, _ = write(engine, SAMPLED, DrafterSettings(names=()))
    engine.drafters["broken"] = Broken(fault)
    try:
        rounds, finished = write(
            engine, SAMPLED, DrafterSettings(names=("broken",), rule=rule, adaptive=False, max_draft=3)
        )
    finally:
        del engine.drafters["broken"]
    tokens = [t for r in rounds for t in r.tokens]
    if rule == "match":
        assert tokens == [t for r in plain for t in r.tokens]
    assert len(tokens) == 30 or finished.reason == "stop"
    assert all(0 <= t < engine.target.vocabulary for t in tokens)
    if not BENCHED[fault]:
        assert not finished.benched
        assert all(len(r.drafted) <= 3 for r in rounds)
        return
    assert BENCHED[fault] in finished.benched["broken"]
    assert any("broken sits out this reply" in r.why for r in rounds)
    last = next(i for i, r in enumerate(rounds) if r.drafter is None)
    assert all(r.drafter is None for r in rounds[last:])


def test_a_good_drafter_drafts_on_beside_a_broken_one(engine: Engine) -> None:
    engine.drafters["broken"] = Broken("throws when asked")
    try:
        rounds, finished = write(engine, SAMPLED, DrafterSettings(("broken", "suffix"), adaptive=False))
        assert "broken" in finished.benched
        assert any(r.drafter == "suffix" for r in rounds)
    finally:
        del engine.drafters["broken"]


def test_a_tamed_draft_is_harmless() -> None:
    laws = mx.log(mx.softmax(mx.random.normal((4, 6)), axis=-1))
    laws[2] = mx.nan
    draft, bad = tame(Draft(mx.array([1, 2, 3, 9]), laws), 3, 6)
    assert draft.tokens.tolist() == [1, 2, 3]
    assert bad.item()
    assert draft.logq is not None
    assert draft.logq[2].tolist() == [-float("inf")] * 6
    assert mx.array_equal(draft.logq[:2], laws[:2])
    fine, bad = tame(Draft(mx.array([1, 2], mx.uint32), laws[:2]), 2, 6)
    assert not bad.item()
    assert fine.logq is not None
    assert mx.array_equal(fine.logq, laws[:2])


class Head(nn.Module):
    """A model whose logits turn bad after some passes."""

    def __init__(self, model: nn.Module, value: float, after: int) -> None:
        super().__init__()
        self.model, self.value, self.left = model, value, after

    @property
    def layers(self) -> object:
        return self.model.layers

    def __call__(self, ids: mx.array, cache: object = None) -> mx.array:
        self.left -= 1
        logits: mx.array = self.model(ids, cache=cache)
        return logits if self.left > 0 else logits * 0 + self.value


@pytest.mark.parametrize("value", [float("nan"), -float("inf")])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("names", [(), ("suffix",)])
def test_logits_that_are_none_end_the_reply(
    tmp_path: Path, value: float, temperature: float, names: tuple[str, ...]
) -> None:
    good = load_engine(tiny_llama(tmp_path / "target"))
    engine = Engine(Head(good.target.model, value, 9), good.tokenizer)
    events: list[object] = []
    sampling = SamplingSettings(temperature=temperature, seed=1)
    with pytest.raises(Problem, match="not a number"):
        events.extend(engine.generate(PROMPT, sampling, DrafterSettings(names)))
    assert sum(isinstance(e, Round) for e in events) > 2
    assert engine.target.tokens == []
