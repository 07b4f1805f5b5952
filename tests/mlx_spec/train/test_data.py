"""Texts on disk: what was kept is found again, what had no room is computed again, and comes to the same."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from mlx_spec.anatomy import Taps
from mlx_spec.events import Problem
from mlx_spec.train.answers import Shard
from mlx_spec.train.data import Texts, frequent, shuffled, think

from .conftest import Small

LENGTH = 20
ROOM = 1 << 30


def ids(rows: int, seed: int, length: int = LENGTH) -> np.ndarray:
    return np.random.default_rng(seed).integers(3, 320, (rows, length)).astype(np.int32)


def shard(small: Small, taps: Taps, seed: int, rows: int = 3) -> Shard:
    text = ids(rows, seed)
    return Shard(text, text % 2 == 0, think(small.anatomy, taps, text))


def test_a_folder_is_taken_up_again(tmp_path: Path, small: Small, taps: Taps) -> None:
    texts = Texts(tmp_path / "run", ROOM)
    assert (texts.shards, texts.rows, texts.tokens) == (0, 0, 0)
    one, two = shard(small, taps, 1), shard(small, taps, 2, rows=2)
    texts.add(one)
    texts.add(two)
    assert (texts.shards, texts.rows, texts.tokens) == (2, 5, 5 * LENGTH)
    again = Texts(tmp_path / "run", ROOM)
    for found in (texts, again):
        assert np.array_equal(found.ids, np.concatenate([one.ids, two.ids]))
        assert np.array_equal(found.mine, np.concatenate([one.mine, two.mine]))
        assert one.states is not None
        assert two.states is not None
        for row, states in enumerate([*one.states, *two.states]):
            kept = found.states(row)
            assert kept is not None
            assert np.array_equal(kept, states)
    assert not list((tmp_path / "run").glob("*.part"))


def test_states_beyond_the_room_are_computed_anew(tmp_path: Path, small: Small, taps: Taps) -> None:
    one, two = shard(small, taps, 1), shard(small, taps, 2)
    assert one.states is not None
    texts = Texts(tmp_path / "some", one.states.nbytes + 10)
    everything = Texts(tmp_path / "all", ROOM)
    for part in (one, two):
        texts.add(part)
        everything.add(part)
    assert texts.states(2) is not None
    assert texts.states(3) is None
    assert sorted(p.name for p in (tmp_path / "some").glob("states-*")) == ["states-0000.npy"]
    rows = [4, 0, 5]  # some are kept, some are not
    ours, kept = (t.batch(rows, small.anatomy, taps) for t in (texts, everything))
    assert np.array_equal(ours.ids, np.concatenate([one.ids, two.ids])[rows])
    assert np.array_equal(ours.mine, kept.mine)
    assert len(ours.states) == 3
    for a, b in zip([*ours.states, ours.final], [*kept.states, kept.final], strict=True):
        assert a.shape == (3, LENGTH, 64)
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=2e-3, atol=2e-3)
    # And they are what the taps say, the last being what the model's head reads.
    final = small.anatomy.body(mx.array(ours.ids))
    np.testing.assert_allclose(np.array(ours.final), np.array(final), rtol=2e-3, atol=2e-3)


def test_texts_that_were_given_have_no_states(tmp_path: Path, small: Small, taps: Taps) -> None:
    texts = Texts(tmp_path, ROOM)
    texts.add(Shard(ids(2, 3), np.ones((2, LENGTH), bool), None))
    texts.add(shard(small, taps, 4))
    assert texts.states(1) is None
    assert texts.states(2) is not None


def test_shards_of_another_length_are_left_alone(tmp_path: Path, small: Small, taps: Taps) -> None:
    texts = Texts(tmp_path, ROOM)
    texts.add(shard(small, taps, 1))
    texts.add(Shard(ids(4, 2, LENGTH + 5), np.ones((4, LENGTH + 5), bool), None))
    last = shard(small, taps, 3, rows=1)
    texts.add(last)
    assert (texts.rows, texts.shards) == (4, 3)
    assert np.array_equal(texts.ids[3:], last.ids)
    kept = texts.states(3)
    assert kept is not None
    assert last.states is not None
    assert np.array_equal(kept, last.states[0])


def test_what_is_removed_is_not_mixed_up(tmp_path: Path, small: Small, taps: Taps) -> None:
    texts = Texts(tmp_path, ROOM)
    parts = [shard(small, taps, seed) for seed in range(3)]
    for part in parts:
        texts.add(part)
    (tmp_path / "answers-0000.npz").unlink()
    texts.add(parts[0])
    assert sorted(p.name for p in tmp_path.glob("answers-*")) == [f"answers-000{i}.npz" for i in (1, 2, 3)]
    assert texts.rows == 9
    # The last one goes, and a new one with no room for states takes its number.
    (tmp_path / "answers-0003.npz").unlink()
    none = Texts(tmp_path, 0)
    none.add(shard(small, taps, 9))
    assert none.rows == 9
    assert none.states(8) is None


@pytest.mark.parametrize("name", ["answers-0000.npz", "states-0000.npy"])
@pytest.mark.parametrize("keep", [0, 100])
def test_a_damaged_file_is_named(tmp_path: Path, small: Small, taps: Taps, name: str, keep: int) -> None:
    Texts(tmp_path, ROOM).add(shard(small, taps, 1))
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:keep])
    with pytest.raises(Problem, match=name) as refused:
        Texts(tmp_path, ROOM)
    assert "Remove that file" in refused.value.remedy


def test_a_disk_that_is_full_leaves_what_was_there(
    tmp_path: Path, small: Small, taps: Taps, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = Texts(tmp_path, ROOM)
    texts.add(shard(small, taps, 1))
    before = sorted(p.name for p in tmp_path.iterdir())

    def full(file: object, **arrays: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space"):
        texts.add(Shard(ids(3, 2), np.ones((3, LENGTH), bool), None))
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert Texts(tmp_path, ROOM).rows == 3


def test_the_frequent_tokens(tmp_path: Path) -> None:
    texts = Texts(tmp_path, 0)
    written = np.array([[7, 7, 7, 5, 5, 9], [7, 5, 8, 8, 8, 8]], np.int32)
    mine = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]], bool)  # nobody asks for what the target did not write
    texts.add(Shard(written, mine, None))
    chosen, share = frequent(texts, 2, 20)
    assert chosen.tolist() == [5, 7]
    assert chosen.dtype == np.int32
    assert share == pytest.approx(7 / 8)
    # `always` comes first, and one that is none of the vocabulary is passed over.
    chosen, share = frequent(texts, 2, 20, [2, 99])
    assert chosen.tolist() == [2, 7]
    assert share == pytest.approx(4 / 8)
    # What is left is filled from the lowest ids on; more than all there are is all.
    assert frequent(texts, 5, 20)[0].tolist() == [0, 1, 5, 7, 9]
    assert frequent(texts, 50, 20)[0].tolist() == list(range(20))


@pytest.mark.parametrize(("rows", "batch"), [(12, 4), (10, 4), (3, 3), (5, 1)])
def test_every_row_comes_once_before_any_comes_twice(rows: int, batch: int) -> None:
    names = [100 + r for r in range(rows)]
    batches = list(islice(shuffled(names, batch, seed=1), 3 * rows))
    assert {len(b) for b in batches} == {batch}
    order = [r for b in batches for r in b]
    rounds = [order[i : i + rows] for i in range(0, 3 * rows, rows)]
    for once in rounds:
        assert sorted(once) == names
    if rows > 4:
        assert rounds[0] != rounds[1]
    assert batches == list(islice(shuffled(names, batch, seed=1), 3 * rows))
    if rows > 4:
        assert batches != list(islice(shuffled(names, batch, seed=2), 3 * rows))
