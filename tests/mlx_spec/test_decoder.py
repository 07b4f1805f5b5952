"""The contract: drafters change time, never text; caches hold exactly what was kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from mlx_spec.drafters.base import Context, Draft, Offer
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import (
    DrafterSettings,
    Finished,
    Message,
    Problem,
    PromptProgress,
    Round,
    SamplingSettings,
)
from mlx_spec.sampling import History

from .tiny import tiny_llama

PROMPT = [Message("user", "one two three four five one two three")]


class Guesser:
    """Drafts by a plan: the true continuation, spoiled where the plan says so. Free of any model."""

    name = "guesser"
    cost_hint = 0.0
    stops = False

    def __init__(self, truth: Sequence[int], start: int, kind: str) -> None:
        self.truth, self.start, self.kind = list(truth), start, kind

    def begin(self, prompt: Sequence[int]) -> None: ...
    def settle(self, drafted: Sequence[int]) -> None: ...
    def reset(self) -> None: ...

    def offer(self, history: History, limit: int) -> Offer | None:
        at = len(history) - self.start
        draft = (self.truth[at:] + [5] * limit)[:limit]
        if self.kind == "wrong":
            draft = [(t + 1) % 300 for t in draft]
        if self.kind == "half":
            draft = [t if i < 2 else (t + 1) % 300 for i, t in enumerate(draft)]
        if self.kind == "empty" or (self.kind == "sometimes" and at % 3):
            return None
        return Offer(len(draft), tokens=tuple(draft))

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        return Draft(mx.array(offer.tokens[:n], mx.uint32))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("tiny")
    yield load_engine(tiny_llama(folder / "target"), tiny_llama(folder / "draft", layers=1))
    mx.clear_cache()


def write(
    engine: Engine, sampling: SamplingSettings, drafters: DrafterSettings, prompt: object = PROMPT
) -> tuple[list[int], str, Finished, list[Round]]:
    events = list(engine.generate(prompt, sampling, drafters))  # type: ignore[arg-type]
    rounds = [e for e in events if isinstance(e, Round)]
    assert isinstance(events[0], PromptProgress)
    finished = events[-1]
    assert isinstance(finished, Finished)
    text = "".join(s.text for r in rounds for s in r.spans) + "".join(s.text for s in finished.tail)
    return [t for r in rounds for t in r.tokens], text, finished, rounds


SETTINGS = {
    "greedy": SamplingSettings(max_tokens=60, seed=3),
    "sampled": SamplingSettings(max_tokens=60, seed=3, temperature=0.9),
    "penalised": SamplingSettings(
        max_tokens=60, seed=3, temperature=0.7, repetition_penalty=1.2, presence_penalty=0.3,
        frequency_penalty=0.2, top_p=0.9, top_k=40, min_p=0.01, logit_bias=((10, 2.0),),
    ),
    "window": SamplingSettings(
        max_tokens=60, seed=4, temperature=0.7, repetition_penalty=1.4, frequency_penalty=0.5,
        penalty_context=20,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["right", "wrong", "half", "empty", "sometimes"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_no_drafter_changes_the_text(engine: Engine, setting: str, kind: str) -> None:
    sampling = SETTINGS[setting]
    engine.reset()
    plain, text, *_ = write(engine, sampling, DrafterSettings(names=()))
    start = len(engine.encode(PROMPT))
    engine.drafters["guesser"] = Guesser(plain, start, kind)
    try:
        for adaptive in (True, False):
            engine.reset()
            tokens, drafted_text, finished, rounds = write(
                engine, sampling, DrafterSettings(names=("guesser",), adaptive=adaptive, max_draft=7)
            )
            assert tokens == plain
            assert drafted_text == text
            assert finished.tokens == len(plain)
            if kind == "right" and not adaptive:
                assert finished.passes == -(-len(plain) // 8)
                assert all(r.accepted == len(r.drafted) for r in rounds)
            if kind == "wrong":
                assert sum(r.accepted for r in rounds) == 0
    finally:
        del engine.drafters["guesser"]


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_drafter_of_its_own_limit_drafts_no_more(engine: Engine, adaptive: bool) -> None:
    engine.reset()
    plain, *_ = write(engine, SETTINGS["greedy"], DrafterSettings(names=()))
    engine.drafters["guesser"] = Guesser(plain, len(engine.encode(PROMPT)), "right")
    try:
        for limits, most in ((("guesser", 2), 2), (("lookup", 2), 7), (("guesser", 99), 7)):
            engine.reset()
            settings = DrafterSettings(names=("guesser",), adaptive=adaptive, max_draft=7, limits=(limits,))
            tokens, _, _, rounds = write(engine, SETTINGS["greedy"], settings)
            assert tokens == plain
            assert max(len(r.drafted) for r in rounds) <= most
            if not adaptive:
                assert max(len(r.drafted) for r in rounds) == most
    finally:
        del engine.drafters["guesser"]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("names", [("lookup",), ("model",), ("lookup", "model")])
def test_real_drafters_change_nothing(engine: Engine, setting: str, names: tuple[str, ...]) -> None:
    engine.reset()
    plain, *_ = write(engine, SETTINGS[setting], DrafterSettings(names=()))
    for adaptive in (True, False):
        engine.reset()
        tokens, *_ = write(engine, SETTINGS[setting], DrafterSettings(names=names, adaptive=adaptive))
        assert tokens == plain


@pytest.mark.parametrize("names", [("model",), ("lookup", "model")])
def test_rejection_at_temperature_0_is_greedy(engine: Engine, names: tuple[str, ...]) -> None:
    engine.reset()
    plain, *_ = write(engine, SETTINGS["greedy"], DrafterSettings(names=()))
    tokens, *_ = write(engine, SETTINGS["greedy"], DrafterSettings(names=names, rule="rejection", adaptive=False))
    assert tokens == plain


def test_rejection_keeps_the_books(engine: Engine) -> None:
    """Sampled rejection: the text may differ from plain, the caches may not differ from the text."""
    engine.reset()
    tokens, _, _, rounds = write(
        engine, SETTINGS["sampled"], DrafterSettings(names=("model",), rule="rejection", adaptive=False)
    )
    assert any(r.accepted for r in rounds)
    whole = engine.encode(PROMPT) + tokens
    assert engine.target.tokens == whole[:-1]
    check_cache(engine)


def check_cache(engine: Engine) -> None:
    """Logits of the next token from the kept cache equal those of a fresh pass over the same tokens."""
    tokens = list(engine.target.tokens)
    assert engine.target.caches.length == len(tokens)
    fresh = engine.target.model(mx.array([tokens]))[0, -1]
    engine.target.keep(len(tokens) - 1)
    kept = engine.target.run(mx.array(tokens[-1:]), tokens[-1:])[-1]
    assert np.allclose(np.array(fresh), np.array(kept), atol=1e-4)


@pytest.mark.parametrize("names", [(), ("lookup", "model")])
def test_cache_equals_a_fresh_prefill(engine: Engine, names: tuple[str, ...]) -> None:
    engine.reset()
    tokens, *_ = write(engine, SETTINGS["sampled"], DrafterSettings(names=names, adaptive=False))
    assert engine.target.tokens == (engine.encode(PROMPT) + tokens)[:-1]
    check_cache(engine)


def test_follow_up_reads_only_what_is_new(engine: Engine) -> None:
    engine.reset()
    ids = engine.encode(PROMPT)
    tokens, _, first, _ = write(engine, SETTINGS["greedy"], DrafterSettings(), ids)
    assert first.cached_tokens == 0
    longer = [*ids, *tokens, 20, 21, 22]
    again, _, second, _ = write(engine, SETTINGS["greedy"], DrafterSettings(), longer)
    assert second.cached_tokens == len(ids) + len(tokens) - 1
    engine.reset()
    assert write(engine, SETTINGS["greedy"], DrafterSettings(names=()), longer)[0] == again
    edited = [*longer[:20], 33, 34]
    _, _, third, _ = write(engine, SETTINGS["greedy"], DrafterSettings(), edited)
    assert third.cached_tokens == 20


def test_stop_takes_effect_within_one_pass(engine: Engine) -> None:
    engine.reset()
    asked: list[int] = []
    events = engine.generate(PROMPT, SETTINGS["greedy"], DrafterSettings(), stop=lambda: len(asked) == 3)
    rounds = 0
    for event in events:
        if isinstance(event, Round):
            rounds += 1
            asked.append(1)
    assert rounds == 3
    assert isinstance(event, Finished)
    assert event.reason == "stopped"


def test_drafters_can_be_changed_between_rounds(engine: Engine) -> None:
    engine.reset()
    plain, *_ = write(engine, SETTINGS["sampled"], DrafterSettings(names=()))
    engine.reset()
    now = [DrafterSettings(names=("model",), adaptive=False)]
    seen: list[str | None] = []
    tokens: list[int] = []
    for event in engine.generate(PROMPT, SETTINGS["sampled"], lambda: now[0]):
        if isinstance(event, Round):
            seen.append(event.drafter)
            tokens += event.tokens
            now[0] = DrafterSettings(names=() if len(seen) % 4 < 2 else ("model",), adaptive=False)
    assert tokens == plain
    assert {None, "model"} <= set(seen)


def test_context_ends_the_reply(engine: Engine) -> None:
    engine.reset()
    ids = [int(t) for t in np.random.default_rng(0).integers(10, 300, 495)]
    end = engine.tokenizer.eos_token_ids
    engine.tokenizer.eos_token_ids = set()
    try:
        tokens, _, finished, _ = write(engine, SamplingSettings(seed=1), DrafterSettings(), ids)
    finally:
        engine.tokenizer.eos_token_ids = end
    assert finished.reason == "context"
    assert len(ids) + len(tokens) == engine.context
    with pytest.raises(Problem, match="513 tokens"):
        list(engine.generate([7] * 513))


def test_stop_string_is_cut_out(engine: Engine) -> None:
    engine.reset()
    _, text, *_ = write(engine, SETTINGS["sampled"], DrafterSettings(names=()))
    stop = text[12:16]
    sampling = SamplingSettings(max_tokens=60, seed=3, temperature=0.9, stop=(stop,))
    for names in ((), ("lookup", "model")):
        engine.reset()
        _, cut, finished, _ = write(engine, sampling, DrafterSettings(names=names, adaptive=False))
        assert finished.reason == "stop"
        assert cut == text[: text.index(stop)]


@pytest.mark.parametrize(
    ("sampling", "drafters", "says"),
    [
        (SamplingSettings(temperature=-1), DrafterSettings(), "temperature"),
        (SamplingSettings(top_p=0), DrafterSettings(), "top_p"),
        (SamplingSettings(max_tokens=0), DrafterSettings(), "max_tokens"),
        (SamplingSettings(), DrafterSettings(names=("medusa",)), "medusa"),
        (SamplingSettings(), DrafterSettings(rule="typical"), "typical"),
        (SamplingSettings(), DrafterSettings(max_draft=0), "longest draft"),
    ],
)
def test_settings_that_cannot_run_are_refused(
    engine: Engine, sampling: SamplingSettings, drafters: DrafterSettings, says: str
) -> None:
    with pytest.raises(Problem, match=says):
        list(engine.generate(PROMPT, sampling, drafters))


def test_a_seed_is_drawn_and_told(engine: Engine) -> None:
    engine.reset()
    tokens, _, finished, _ = write(engine, SamplingSettings(max_tokens=20, temperature=1.0), DrafterSettings(names=()))
    again, *_ = write(engine, SamplingSettings(max_tokens=20, temperature=1.0, seed=finished.seed), DrafterSettings())
    assert tokens == again


def test_hostile_text_does_not_stop_the_tokenizer(engine: Engine, tmp_path: Path) -> None:
    engine.reset()
    _, _, finished, _ = write(
        engine, SamplingSettings(max_tokens=3), DrafterSettings(), [Message("user", "a\ud800b\0c 😀")]
    )
    assert finished.tokens == 3


@pytest.mark.parametrize("setting", SETTINGS)
def test_passes_that_run_ahead_change_nothing(engine: Engine, setting: str) -> None:
    """Plain decoding begins a pass before the token in front of it is read; a processor forbids that."""
    engine.reset()
    ahead, text, *_ = write(engine, SETTINGS[setting], DrafterSettings(names=()))
    cached = list(engine.target.tokens)
    engine.reset()
    events = list(engine.generate(PROMPT, SETTINGS[setting], DrafterSettings(()), logits_processors=[lambda _, x: x]))
    rounds = [e for e in events if isinstance(e, Round)]
    assert [t for r in rounds for t in r.tokens] == ahead
    assert "".join(s.text for r in rounds for s in r.spans) in text
    assert engine.target.tokens == cached == [*engine.encode(PROMPT), *ahead[:-1]]


def test_a_stop_takes_back_what_ran_ahead(engine: Engine) -> None:
    engine.reset()
    plain, *_ = write(engine, SETTINGS["greedy"], DrafterSettings(names=()))
    engine.reset()
    seen: list[int] = []
    stop = partial(lambda found: len(found) >= 5, seen)
    for event in engine.generate(PROMPT, SETTINGS["greedy"], DrafterSettings(()), stop=stop):
        if isinstance(event, Round):
            seen += event.tokens
    assert seen == plain[:5]
    assert engine.target.tokens == [*engine.encode(PROMPT), *plain[:4]]
    assert [c.offset for c in engine.target.caches.layers] == [len(engine.target.tokens)] * 2
    # Drafters that are switched on in the middle find the caches as they should be.
    engine.reset()
    names: list[tuple[str, ...]] = [()]
    tokens = []
    settings = partial(lambda found: DrafterSettings(found[-1], adaptive=False), names)
    for event in engine.generate(PROMPT, SETTINGS["greedy"], settings):
        if isinstance(event, Round):
            tokens += event.tokens
            names.append(("suffix", "model") if 7 < len(tokens) < 30 else ())
    assert tokens == plain
