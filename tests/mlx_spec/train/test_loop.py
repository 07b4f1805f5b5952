"""A whole training on a tiny target: what it writes loads, a run that was broken off goes on, trouble is named."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

from mlx_spec import heads
from mlx_spec.engine import load_engine
from mlx_spec.events import DrafterSettings, Message, Problem, Round, SamplingSettings
from mlx_spec.target import Target
from mlx_spec.train import answers, data, eagle, loop
from mlx_spec.train.answers import Shard
from mlx_spec.train.data import Texts
from mlx_spec.weight_file import write_tensors
from tests.mlx_spec import zoo
from tests.mlx_spec.tiny import tiny_model

from .conftest import Small
from .test_eagle_training import random_batch, random_head, random_teacher

Train = Callable[..., loop.Trained]
KINDS = ("eagle3", "medusa")


def after(n: int) -> Callable[[], bool]:
    """A question that is answered with no `n` times, and then with yes."""
    asked = iter(range(n))
    return lambda: next(asked, None) is None


@pytest.fixture
def train(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    """A training of a few steps, counted and not timed: `go` is how often it is let go on. The first time one of these
    goes into the answers, each time one into the end of them."""
    monkeypatch.setattr(loop, "ROWS", 12)
    monkeypatch.setattr(loop, "LENGTH", 36)
    monkeypatch.setattr(loop, "WRITING", 1e-9)  # one part
    # Short questions, so that every row gets to an answer.
    monkeypatch.setattr(loop, "questions", lambda seed: (f"{seed} {i}?" for i in range(10**6)))
    monkeypatch.setattr(answers, "LONGEST_QUESTION", 8)

    def run(go: int = 5, **more: Any) -> loop.Trained:
        model, tokenizer = more.pop("model", small.model), more.pop("tokenizer", small.tokenizer)
        settings = {"name": "tiny", "minutes": 60, "stop": after(go), **more}
        return loop.train(model, tokenizer, small.config, tmp_path / "tiny", **settings)

    return run


def state(folder: Path, kind: str = "eagle3") -> dict[str, Any]:
    name = "state.json" if kind == "eagle3" else f"state-{kind}.json"
    found: dict[str, Any] = json.loads((folder / "run" / name).read_text())
    return found


def tensors(checkpoint: Path) -> dict[str, np.ndarray]:
    loaded: Any = mx.load(str(checkpoint), format="safetensors")
    return {name: np.array(value) for name, value in loaded.items()}


# ---------------------------------------------------------------------------------------------------------- whole runs


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_found_and_drafts(small: Small, train: Train, tmp_path: Path, kind: str) -> None:
    said: list[tuple[str, float, str]] = []
    found = train(6, kind=kind, report=lambda *told: said.append(told))
    assert found.folder == tmp_path / ("tiny" if kind == "eagle3" else "tiny-medusa")
    assert (found.steps, found.tokens) == (4, 12 * 36)
    assert len(found.before) == len(found.after) == loop.KINDS[kind].measured
    for shares in (found.before, found.after):
        assert list(shares) == sorted(shares, reverse=True)
        assert all(0 <= share <= 1 for share in shares)
    stages = [stage for stage, _, _ in said]
    assert stages == ["answers"] * 36 + ["measure"] * 2
    assert said[35][2] == "432 tokens written"
    assert all(0 <= done <= 1 for _, done, _ in said)
    about = json.loads((found.folder / "config.json").read_text())["outrider"]
    assert about["mark"] == heads.mark(small.anatomy)
    assert (about["target"], about["steps"], about["tokens_of_text"]) == ("tiny", 4, 432)
    assert about["held_out_after"] == list(found.after)
    assert about["share_of_text_it_can_say"] == 1.0
    assert not list(tmp_path.rglob("*.part*"))
    # It is the model's, by its mark, and the text stays what it was.
    assert heads.find([tmp_path], small.anatomy) == {kind: found.folder}
    assert heads.load(found.folder, Target(small.model), small.anatomy).name == kind
    engine = load_engine(small.folder, heads=[tmp_path])
    assert engine.notices() == []
    texts = []
    for names in ((), (kind,)):
        engine.reset()
        settings = DrafterSettings(names, adaptive=False, max_draft=3)
        events = engine.generate([Message("user", "one two three")], SamplingSettings(max_tokens=20), settings)
        rounds = [e for e in events if isinstance(e, Round)]
        texts.append([t for r in rounds for t in r.tokens])
    assert texts[0] == texts[1]
    assert any(r.drafter == kind for r in rounds)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_on_where_it_was(train: Train, tmp_path: Path, kind: str) -> None:
    first = train(5, kind=kind)
    run = tmp_path / "tiny" / "run"
    checkpoint = run / ("checkpoint" if kind == "eagle3" else "checkpoint-medusa")
    kept = tensors(checkpoint)
    answers = (run / "answers-0000.npz").read_bytes()
    assert first.steps == kept["optimizer.step"] == 3
    # Nothing more is learned, so nothing changes: neither weights nor the optimizer's memory.
    again = train(1, kind=kind)
    assert (again.steps, again.before, again.after) == (3, first.before, first.after)
    found = tensors(checkpoint)
    assert found.keys() == kept.keys()
    assert all(np.array_equal(found[n], kept[n]) for n in kept if n != "optimizer.learning_rate")
    third = train(3, kind=kind)
    assert third.steps == state(tmp_path / "tiny", kind)["step"] == tensors(checkpoint)["optimizer.step"] == 5
    assert third.before == first.before  # measured once, of the untrained head
    assert third.tokens == first.tokens
    assert (run / "answers-0000.npz").read_bytes() == answers


def test_a_head_that_has_learned_is_the_one_that_goes_on(small: Small, train: Train, tmp_path: Path) -> None:
    train(5)
    before = tensors(tmp_path / "tiny" / "run" / "checkpoint")
    train(3)
    after = tensors(tmp_path / "tiny" / "run" / "checkpoint")
    assert before.keys() == after.keys()
    moved = [np.abs(after[n] - before[n]).max() for n in before if n.startswith("head.")]
    # A step of Adam moves a weight by little more than the rate: this is the same head, gone on.
    assert 0 < max(moved) < 10 * loop.RATE
    untrained = eagle.fresh(small.anatomy, np.load(tmp_path / "tiny" / "run" / "spoken.npy"), small.config)
    assert set(dict(tree_flatten(untrained.parameters()))) == {
        n.removeprefix("head.") for n in before if n.startswith("head.")
    }


def test_a_run_learns_from_more_than_it_holds_out(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[int]] = []
    real = Texts.batch

    def batch(self: Texts, rows: Any, *more: Any) -> Any:
        asked.append(list(rows))
        return real(self, rows, *more)

    monkeypatch.setattr(Texts, "batch", batch)
    train(6)
    held, learned = {0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11}
    assert [set(r) for r in asked] == [{0, 1, 2, 3}, {4, 5, 6, 7}, *[learned] * 4, {0, 1, 2, 3}, {4, 5, 6, 7}]
    assert held | learned == set(range(Texts(tmp_path / "tiny" / "run", 0).rows))


def test_prompts_are_asked_and_given_texts_are_learned(small: Small, train: Train, tmp_path: Path) -> None:
    asked: list[str] = []
    real = small.tokenizer.encode

    class Spy:
        def __getattr__(self, name: str) -> Any:
            return getattr(small.tokenizer, name)

        def encode(self, text: str, **more: Any) -> list[int]:
            asked.append(text)
            return list(real(text, **more))

    given = Shard(np.full((12, 36), 9, np.int32), np.ones((12, 36), bool), None)
    prompts = [f"prompt {i}" for i in range(20)]
    train(3 + 36, tokenizer=Spy(), prompts=prompts, given=[given])
    texts = Texts(tmp_path / "tiny" / "run", 0)
    assert texts.shards == 2
    assert (texts.ids[:12] == 9).all()  # given ones come first
    assert [q for q in asked if q.startswith("prompt")][:6] == prompts[:6]
    train(1, given=[given])  # and once
    assert Texts(tmp_path / "tiny" / "run", 0).shards == 2


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_forgotten_begins_anew(train: Train, tmp_path: Path, kind: str) -> None:
    train(4, kind=kind)
    run = tmp_path / "tiny" / "run"
    other = next(k for k in KINDS if k != kind)
    loop.forget(tmp_path / "tiny", other)  # has learned nothing here
    assert list(run.glob("state*"))
    assert list(run.glob("answers*"))
    loop.forget(tmp_path / "tiny", kind)
    assert not run.exists()
    loop.forget(tmp_path / "tiny", kind)
    assert train(4, kind=kind).steps == 2


# -------------------------------------------------------------------------------------------------------------- trouble


def test_targets_that_no_head_is_trained_for(train: Train, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="tiny: it has 2 layers"):
        train(model=tiny_model())
    strange = zoo.build("llama")
    strange.model = None
    with pytest.raises(Problem, match="tiny: its parts are not known"):
        train(model=strange)
    assert not (tmp_path / "tiny").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"what": 1}', b"\xff\xfe"])
def test_a_damaged_state_is_named(train: Train, tmp_path: Path, content: str | bytes) -> None:
    run = tmp_path / "tiny" / "run"
    run.mkdir(parents=True)
    (run / "state.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(Problem, match="is damaged") as refused:
        train()
    assert str(run) in refused.value.message
    assert "start it again" in refused.value.remedy


def test_a_damaged_checkpoint_is_named(train: Train, tmp_path: Path) -> None:
    train(3)
    path = tmp_path / "tiny" / "run" / "checkpoint"
    whole = path.read_bytes()
    for content in (b"", whole[:20], whole[:-100], b"no tensors at all"):
        path.write_bytes(content)
        with pytest.raises(Problem, match="checkpoint is damaged") as refused:
            train(2)
        assert "the answers stay" in refused.value.remedy
    path.unlink()
    assert train(2).steps > 0


@pytest.mark.parametrize("place", ["answers", "spoken", "state"])
def test_a_full_disk_is_named(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def full(*what: Any, **more: Any) -> None:
        raise OSError(28, "No space left on device")

    if place == "answers":
        monkeypatch.setattr(Texts, "add", full)
    elif place == "spoken":
        monkeypatch.setattr(np, "save", full)
    else:
        monkeypatch.setattr(loop.json, "dumps", full)
    with pytest.raises(Problem, match=r"cannot write to .*run: No space left on device") as refused:
        train()
    assert "Make room" in refused.value.remedy


def test_a_disk_that_is_full_when_weights_are_written(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, *what: Any) -> None:
        Path(path).write_bytes(b"half of it")
        raise RuntimeError("[write] Unable to write")

    monkeypatch.setattr(mx, "save_safetensors", full)
    with pytest.raises(Problem, match=r"cannot write to .*run"):
        train()
    assert not list(tmp_path.rglob("*.part*"))


def test_a_damaged_list_of_tokens_is_named(train: Train, tmp_path: Path) -> None:
    train()
    (tmp_path / "tiny" / "run" / "spoken.npy").write_bytes(b"")
    with pytest.raises(Problem, match=r"list of tokens .* is damaged"):
        train()


def test_a_checkpoint_of_another_head_is_named(small: Small, train: Train, tmp_path: Path) -> None:
    train()
    path = tmp_path / "tiny" / "run" / "checkpoint"
    found: Any = mx.load(str(path), format="safetensors")
    found["head.norm.weight"] = mx.zeros((3,))
    write_tensors(path, found)
    with pytest.raises(Problem, match="checkpoint is damaged"):
        train()


def test_few_texts_are_enough_to_learn_from(train: Train, tmp_path: Path) -> None:
    ids = np.arange(3 * 36).reshape(3, 36).astype(np.int32) % 20 + 4
    given = [Shard(ids, np.ones_like(ids, dtype=bool), None)]
    assert train(3, given=given).tokens == 3 * 36


def test_stopping_does_not_wait_for_a_whole_part(train: Train, tmp_path: Path) -> None:
    """The first part is needed; of a later one what is written so far goes."""
    ids = np.full((12, 36), 5, np.int32)
    found = train(9, given=[Shard(ids, np.ones_like(ids, dtype=bool), None)])
    assert found.tokens == 12 * 36
    assert found.steps == 0


def test_a_loss_that_is_no_number_is_named_and_not_kept(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(4)
    kept = (tmp_path / "tiny" / "run" / "checkpoint").read_bytes()
    monkeypatch.setattr(loop, "side_by_side", lambda head, loss: lambda *a: (mx.array(math.nan), head.parameters()))
    with pytest.raises(Problem, match="a number that is none"):
        train(4)
    assert (tmp_path / "tiny" / "run" / "checkpoint").read_bytes() == kept


def test_the_time_of_answers_is_kept_with_each_part_of_them(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "WRITING", 1.0)
    told = 0

    def report(stage: str, done: float, note: str) -> None:
        nonlocal told
        told += 1
        if told > 60:  # in the second part
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(100, report=report)
    assert state(tmp_path / "tiny")["wrote_s"] > 0


def test_a_stop_before_there_is_a_text(train: Train) -> None:
    with pytest.raises(Problem, match="stopped before there was a text"):
        train(0)


def test_the_target_is_as_it_was(small: Small, train: Train) -> None:
    before = [type(layer) for layer in small.anatomy.layers]
    weights = {n: np.array(v) for n, v in tree_flatten(small.model.parameters())}
    train(4)
    assert [type(layer) for layer in small.anatomy.layers] == before
    for name, value in tree_flatten(small.model.parameters()):
        assert np.array_equal(np.array(value), weights[name])


# -------------------------------------------------------------------------------------------------- the clock, the rate


def test_waiting_is_not_counted(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    answers = iter([True, True, False, True, False, False])  # before the answers, after them, before a step
    found = train(7, wait=lambda: next(answers, False))
    assert slept == [1, 1, 1]
    assert found.steps == 2
    assert found.seconds < 30


def test_a_stop_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    assert not loop.Clock(60, lambda: True, after(3)).go()
    assert len(slept) == 3
    assert loop.Clock(60, lambda: False, lambda: False).go()


def test_the_time_is_kept_to(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that each look moves on by a second: a third of the time goes into answers, the rest into steps."""
    now = iter(range(10**6))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(now)))
    found = train(10**6, minutes=0.8)
    assert found.tokens == 12 * 36  # 37 seconds: a look for each place and one more, which is more than a third
    assert 48 <= found.seconds <= 50
    assert found.steps == 11


def test_the_rate_warms_up_and_falls() -> None:
    assert loop.rate(0, 0.0) == pytest.approx(loop.RATE / loop.WARM)
    assert loop.rate(loop.WARM - 1, 0.0) == pytest.approx(loop.RATE)
    assert loop.rate(10**6, 0.5) == pytest.approx((loop.RATE + loop.LEAST_RATE) / 2)
    assert loop.rate(10**6, 1.0) == pytest.approx(loop.LEAST_RATE)
    assert loop.rate(10**6, 1.7) == pytest.approx(loop.LEAST_RATE)
    falling = [loop.rate(10**6, done / 20) for done in range(21)]
    assert falling == sorted(falling, reverse=True)


# ------------------------------------------------------------------------------------------------------------ the parts


def test_halves_are_the_whole() -> None:
    batch = random_batch(texts=5)
    one, two = loop.halves(batch)
    assert (len(one.ids), len(two.ids)) == (2, 3)
    for name in ("ids", "mine", "final"):
        parts = [np.array(getattr(half, name)) for half in (one, two)]
        assert np.array_equal(np.concatenate(parts), np.array(getattr(batch, name)))
    assert len(one.states) == len(two.states) == 3
    assert mx.array_equal(mx.concatenate([one.states[1], two.states[1]]), batch.states[1])


@pytest.mark.parametrize("texts", [1, 4])
def test_both_halves_at_once_learn_as_the_whole(texts: int) -> None:
    head, teacher, batch = random_head(), random_teacher(), random_batch(texts=texts, length=14)
    batch.mine[:] = True
    batch.ids[:] = 3  # the same number of places in both halves

    def loss(head: Any, batch: eagle.Batch, depth: int) -> mx.array:
        return eagle.loss(head, teacher, batch, depth)

    graded = loop.side_by_side(head, loss)
    for _ in range(2):  # and after the weights were changed
        for depth in (1, 3):
            cost, gradients = graded(batch, depth)
            expected, slopes = nn.value_and_grad(head, loss)(head, batch, depth)
            assert cost.item() == pytest.approx(expected.item(), rel=1e-4)
            ours, theirs = dict(tree_flatten(gradients)), dict(tree_flatten(slopes))
            assert ours.keys() == theirs.keys()
            for name, value in ours.items():
                np.testing.assert_allclose(np.array(value), np.array(theirs[name]), atol=1e-5)
        head.update({"lm_head": {"weight": 0.5 * head.lm_head.weight}})
        mx.eval(head.parameters())


def test_a_half_with_nothing_to_learn() -> None:
    """Two texts in which the target wrote nothing: the weights must be there all the same."""
    head, teacher, batch = random_head(), random_teacher(), random_batch(texts=4)
    batch.mine[:2] = False
    cost, gradients = loop.side_by_side(head, lambda h, b, depth: eagle.loss(h, teacher, b, depth))(batch, 2)
    mx.eval(cost, gradients, head.parameters())


def test_shares_are_of_all_held_out_chains(small: Small, tmp_path: Path) -> None:
    """Ten texts in batches of four: counted together, not averaged by batch."""
    texts = Texts(tmp_path, 0)
    mine = np.zeros((10, 12), bool)
    mine[9] = True
    texts.add(Shard(np.full((10, 12), 5, np.int32), mine, None))
    taps = data.Taps(small.anatomy, (0, 1, 2))

    def holds(head: Any, teacher: Any, batch: eagle.Batch, depth: int) -> tuple[np.ndarray, int]:
        return np.array([3, 1]) * int(batch.mine.any()), 4 * len(batch.ids)

    what = loop.Kind(eagle.fresh, eagle.loss, holds, loop.KINDS["eagle3"].write, 2, 2)
    found = loop.measure(what, random_head(), random_teacher(), texts, small.anatomy, taps, list(range(10)))
    taps.remove()
    assert found == (3 / 40, 1 / 40)


def test_where_a_head_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loop.place_of(tmp_path / "a", "eagle3") == tmp_path / "a"
    assert loop.place_of(tmp_path / "a", "medusa") == tmp_path / "a-medusa"
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert loop.place_of(Path("."), "medusa") == tmp_path / "here-medusa"
