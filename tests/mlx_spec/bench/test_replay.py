"""Records of what drafters would have proposed, and policies played over them."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from mlx_spec.bench import replay
from mlx_spec.bench.record import LONGEST, Place, Recorded, as_json, from_json, record
from mlx_spec.bench.replay import Controlled, cost, fixed, oracle, plain, speeds
from mlx_spec.engine import load_engine
from mlx_spec.events import DrafterSettings, Problem, Round, SamplingSettings

from ..tiny import tiny_llama

FLAT = ((1, 1.0), (17, 1.0))
LINEAR = ((1, 1.0), (17, 17.0))


def made(held: list[int], costs: tuple[tuple[int, float], ...] = FLAT, draft: float = 0.0) -> Recorded:
    places = tuple(None if h < 0 else Place("3", 16, h) for h in held)
    return Recorded("chat", "1", len(held), 0.1, costs, {"lookup": draft}, {"lookup": places})


def test_costs_between_and_beyond_what_was_measured() -> None:
    recorded = made([0], ((1, 1.0), (3, 2.0), (5, 2.2)))
    assert [cost(recorded, w) for w in (1, 2, 3, 4, 7)] == pytest.approx([1, 1.5, 2, 2.1, 2.4])


def test_fixed_lengths() -> None:
    recorded = made([3, 2, 1, 0, -1, 0])
    assert plain(recorded) == 6
    assert fixed(recorded, "lookup", 2) == 4  # 3 tokens, then 1, 1, 1
    assert fixed(made([3, 2, 1, 0, -1, 0], draft=0.5), "lookup", 2) == 4 + 0.5 * 4  # none at the last place


def test_the_oracle_is_the_best_there_is() -> None:
    recorded = made([3, 2, 1, 0, -1, 0])
    assert oracle(recorded) == 3
    assert oracle(made([3, 2, 1, 0, -1, 0], LINEAR)) == 6
    # A greedy choice would take the short draft at once; waiting for the long one is better.
    late = made([1, 5, 4, 3, 2, 1, 0])
    assert oracle(late) == 2
    assert oracle(made([9, 8, 7, 6, 5, 4, 3, 2, 1, 0], draft=0.2)) == pytest.approx(1 + 9 * 0.2)


@pytest.mark.parametrize("costs", [FLAT, LINEAR])
def test_the_controller_is_between_plain_and_the_oracle(costs: tuple[tuple[int, float], ...]) -> None:
    held = [i % 7 for i in range(699, -1, -1)]
    recorded = made(held, costs)
    policy = Controlled()
    took = [policy(recorded) for _ in range(3)][-1]
    assert oracle(recorded) * 0.99 <= took <= 700 * 1.03
    if costs is FLAT:
        assert took < 1.35 * oracle(recorded)


def test_what_a_real_engine_records_is_true(tmp_path: Path) -> None:
    """The record's claims against rounds that were really run."""
    engine = load_engine(tiny_llama(tmp_path / "target"), tiny_llama(tmp_path / "draft", layers=1))
    sampling = SamplingSettings(max_tokens=40, seed=3)
    prompt = [5, 9, 30, 7, 5, 9, 30, 7, 5, 9]
    recorded = record(engine, prompt, sampling, ("suffix", "model"), "chat", "1")
    assert recorded.tokens == 40
    assert recorded.costs[0] == (1, 1.0)
    assert recorded.drafts["suffix"] == 0
    assert recorded.drafts["model"] > 0
    for name in ("suffix", "model"):
        engine.reset()
        settings = DrafterSettings((name,), adaptive=False, max_draft=LONGEST)
        rounds = [e for e in engine.generate(prompt, sampling, settings) if isinstance(e, Round)]
        for r in rounds:
            at = recorded.places[name][r.position - len(prompt)]
            if r.position - len(prompt) == 39:
                continue  # nothing is drafted in front of the end
            assert (at is None) == (not r.drafted)
            if at and r.position - len(prompt) + len(r.drafted) < 40:
                assert r.accepted == min(at.held, len(r.drafted))
    assert from_json(json.loads(json.dumps(as_json([recorded])))) == [recorded]


def test_the_command_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "record.json"
    file.write_text(json.dumps(as_json([made([3, 2, 1, 0, -1, 0]), made([0] * 9)])))
    assert replay.run(Namespace(file=file, policies=())) == 0
    out = capsys.readouterr().out
    assert "oracle" in out
    assert "lookup 2" in out
    assert "% of what the best choice in hindsight" in out
    with pytest.raises(Problem, match="no policy"):
        speeds([made([0])], ["magic"])


@pytest.mark.parametrize("content", ["", "[]", "{}", '[{"category": 1}]', "[[]]"])
def test_what_is_no_record_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "record.json"
    file.write_text(content)
    with pytest.raises(Problem, match="not a record"):
        replay.run(Namespace(file=file, policies=()))
    with pytest.raises(Problem, match="cannot be read"):
        replay.run(Namespace(file=tmp_path / "none", policies=()))
