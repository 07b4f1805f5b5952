"""The real starter model: drafts change the time and never the text."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import (
    DrafterSettings,
    Finished,
    Generate,
    Load,
    Loaded,
    Message,
    PromptProgress,
    Round,
    SamplingSettings,
    Shutdown,
)
from mlx_spec.host import main

pytestmark = pytest.mark.starter

LETTER = """Dear Mrs Holm, the roof of the boat house leaks since the storm of last Tuesday. Two of the long tiles
on the north side are gone and a third is cracked. We can come on Friday at eight with a ladder and mend it in one
morning. Please leave the key with your neighbour, as you did in spring. Kind regards, Jonas Berg"""
ASKED = {
    "copy": f"Repeat this letter word for word:\n\n{LETTER}",
    "code": "Write a Python class for a bank account with deposit, withdraw and balance. Show the whole code twice.",
    "list": "Name ten rivers of Europe, one on each line.",
    "script": "Übersetze ins Deutsche und ins Französische: I would like two coffees and a cake, please. ☕🍰",
}


@pytest.fixture(scope="module")
def engine(starter_model: Path) -> Iterator[Engine]:
    made = load_engine(starter_model, dtype="float32")
    yield made
    made.reset()


def written(
    engine: Engine, prompt: object, settings: SamplingSettings, drafters: DrafterSettings
) -> tuple[list[int], Finished]:
    events = list(engine.generate(prompt, settings, drafters))
    finished = events[-1]
    assert isinstance(finished, Finished)
    return [t for e in events if isinstance(e, Round) for t in e.tokens], finished


@pytest.mark.parametrize(
    ("name", "temperature", "adaptive"),
    [("copy", 0.0, True), ("code", 0.0, False), ("list", 0.8, True), ("script", 0.8, False), ("copy", 0.8, False)],
)
def test_the_text_is_the_models_own(engine: Engine, name: str, temperature: float, adaptive: bool) -> None:
    prompt = [Message("user", ASKED[name])]
    sampling = SamplingSettings(temperature=temperature, top_p=0.95, repetition_penalty=1.05, seed=5, max_tokens=40)
    plain, _ = written(engine, prompt, sampling, DrafterSettings(names=()))
    drafters = DrafterSettings(names=("lookup",), adaptive=adaptive, max_draft=8)
    drafted, finished = written(engine, prompt, sampling, drafters)
    assert drafted == plain
    assert finished.tokens == len(plain)


def test_greedy_text_is_that_of_mlx_lm(engine: Engine) -> None:
    from mlx_lm import stream_generate

    ids = engine.encode([Message("user", ASKED["copy"])])
    theirs = [r.token for r in stream_generate(engine.target.model, engine.tokenizer, ids, max_tokens=32)]
    ours, _ = written(engine, ids, SamplingSettings(temperature=0.0, max_tokens=32), DrafterSettings(names=("lookup",)))
    assert ours == theirs[: len(ours)]
    assert len(ours) >= len(theirs) - 1  # theirs shows the end-of-text token


def test_lookup_is_right_where_text_repeats(engine: Engine) -> None:
    _, finished = written(
        engine,
        [Message("user", ASKED["copy"])],
        SamplingSettings(temperature=0.0, max_tokens=40),
        DrafterSettings(names=("lookup",), adaptive=False, max_draft=8),
    )
    assert finished.by_drafter["lookup"].accepted >= 15
    assert finished.tokens / finished.passes > 1.5


def test_a_conversation_through_the_process(starter_model: Path) -> None:
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=main, args=(there,), daemon=True)
    process.start()
    there.close()

    def until(kind: type) -> list[object]:
        events: list[object] = []
        while not events or not isinstance(events[-1], kind):
            assert here.poll(120)
            events.append(here.recv())
        return events

    try:
        here.send(Load(1, str(starter_model), dtype="float32"))
        loaded = until(Loaded)[-1]
        assert isinstance(loaded, Loaded)
        assert loaded.info.drafters == ("suffix", "lookup", "history", "eagle3")
        first = (Message("user", "Say hello to Ada in one short sentence."),)
        sampling = SamplingSettings(temperature=0.0, max_tokens=24)
        here.send(Generate(2, first, sampling, DrafterSettings(names=("lookup",))))
        events = until(Finished)
        rounds = [e for e in events if isinstance(e, Round)]
        finished = events[-1]
        assert isinstance(finished, Finished)
        text = "".join(s.text for r in rounds for s in r.spans) + "".join(s.text for s in finished.tail)
        assert "Ada" in text
        second = (*first, Message("assistant", text), Message("user", "Thank you."))
        here.send(Generate(3, second, sampling, DrafterSettings(names=("lookup",))))
        events = until(Finished)
        cached = max(e.cached for e in events if isinstance(e, PromptProgress))
        assert cached > 20  # the first turn is not read again
        here.send(Shutdown())
        process.join(20)
        assert process.exitcode == 0
    finally:
        process.kill()
