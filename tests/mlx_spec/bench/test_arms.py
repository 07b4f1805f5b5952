"""Every arm starts at the same place, ends at the same place, and leaves things as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlx_spec.bench.arms import Arm, MlxLm, Ours
from mlx_spec.bench.command import measure
from mlx_spec.bench.compare import difference, first_difference
from mlx_spec.bench.report import OURS, PLAIN
from mlx_spec.bench.workload import Question
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import DrafterSettings, Message, SamplingSettings
from tests.mlx_spec.tiny import tiny_llama

GREEDY = SamplingSettings(seed=0)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder: Path = tmp_path_factory.mktemp("models")
    target = tiny_llama(folder / "target")
    # The draft model is the target itself, so every draft holds.
    return load_engine(target, target)


def arms(engine: Engine) -> list[Arm]:
    fixed = DrafterSettings(("model",), max_draft=4, adaptive=False)
    return [
        Ours(PLAIN, engine, GREEDY, DrafterSettings(())),
        Ours(OURS, engine, GREEDY, fixed),
        MlxLm("mlx-lm-plain", engine, 0),
        MlxLm("mlx-lm-3", engine, 0, 3),
    ]


@pytest.mark.parametrize("prompt", [[5], [5, 9], list(range(10, 60))])
def test_arms_agree_and_can_be_run_again(engine: Engine, prompt: list[int]) -> None:
    some = arms(engine)
    for arm in some:
        arm.prepare(prompt)
    first = [arm.answer(21) for arm in some]
    assert len({run.tokens for run in first}) == 1
    again = [arm.answer(21) for arm in reversed(some)]
    assert [r.tokens for r in again] == [r.tokens for r in reversed(first)]
    n = len(first[0].tokens)
    plain, ours, mlx_plain, mlx_drafted = first
    assert (plain.passes, mlx_plain.passes) == (n, n)
    assert plain.drafted == mlx_plain.drafted == 0
    assert ours.accepted == ours.drafted > 0
    assert mlx_drafted.accepted == mlx_drafted.drafted > 0
    assert ours.passes == -(-n // 5)
    assert mlx_drafted.passes == -(-n // 4)


def test_every_arm_ends_at_the_end_of_the_turn(engine: Engine) -> None:
    prompt = list(range(20, 40))
    some = arms(engine)
    some[0].prepare(prompt)
    text = some[0].answer(30).tokens
    end = next(t for i, t in enumerate(text) if i >= 6 and t not in text[:i])
    before = engine.tokenizer.eos_token_ids
    engine.tokenizer.eos_token_ids = {end}
    try:
        for arm in some:
            arm.prepare(prompt)
            assert arm.answer(30).tokens == text[: text.index(end) + 1], arm.name
    finally:
        engine.tokenizer.eos_token_ids = before


def test_the_engine_is_not_disturbed_by_the_copy(engine: Engine) -> None:
    prompt = list(range(60, 90))
    plain, _, mlx_plain, mlx_drafted = arms(engine)
    plain.prepare(prompt)
    before = plain.answer(12).tokens
    for arm in (mlx_plain, mlx_drafted):
        arm.prepare(prompt)
        arm.answer(40)
    assert plain.answer(12).tokens == before


def test_first_difference() -> None:
    assert first_difference([1, 2], [1, 2]) is None
    assert first_difference([1, 2], [1, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 2


def test_the_gap_where_texts_part(engine: Engine) -> None:
    prompt = list(range(30, 50))
    plain = arms(engine)[0]
    plain.prepare(prompt)
    true = plain.answer(10).tokens
    assert difference(engine, GREEDY, prompt, true, true) is None
    wrong = [*true[:4], (true[4] + 1) % 300, *true[5:]]
    found = difference(engine, GREEDY, prompt, wrong, true)
    assert found is not None
    assert (found.index, found.ours, found.other) == (4, wrong[4], true[4])
    assert found.gap > 0


def test_measure_takes_turns_and_follows_the_plain_reply(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    questions = [Question("a", "1", ("count one two", "and three?")), Question("b", "2", ("the road",))]
    some = arms(engine)
    everything = [arm.name for arm in some if arm.name != OURS]
    found = list(measure(engine, some, questions, GREEDY, 9, repeats=2, compared=everything))
    assert [(m.category, m.name, m.turn) for m in found] == [("a", "1", 0), ("a", "1", 1), ("b", "2", 0)]
    for m in found:
        assert all(len(runs) == 2 for runs in m.runs.values())
        assert m.differences == dict.fromkeys(everything)
        assert m.ratio(PLAIN) == 1
    said = engine.tokenizer.decode(
        [t for t in found[0].runs[PLAIN][0].tokens if t not in engine.tokenizer.eos_token_ids]
    )
    turns = [Message("user", "count one two"), Message("assistant", said), Message("user", "and three?")]
    assert found[1].prompt_tokens == len(engine.encode(turns))
    assert "[3/3] b 2" in capsys.readouterr().err


def test_a_question_too_long_is_left_out(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    questions = [Question("a", "long", ("word " * 900,)), Question("a", "short", ("the road",))]
    found = list(measure(engine, arms(engine), questions, GREEDY, 4))
    assert [m.name for m in found] == ["short"]
    assert "a long is longer than the context" in capsys.readouterr().err
