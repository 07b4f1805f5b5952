"""The target's states as passes leave them: those of rejected rows go, old ones go, the rest is where it was."""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx
import numpy as np
import pytest

from mlx_spec.anatomy import dissect
from mlx_spec.hidden import Hidden
from mlx_spec.target import Target

from .tiny import tiny_model

WANTED = (-1, 1, 3)  # the embedding, a layer, what the head reads
IDS = [5 + i * 7 % 300 for i in range(40)]


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target(tiny_model(layers=3))
    anatomy = dissect(made.model)
    assert anatomy is not None
    made.hidden = Hidden(anatomy, (3, -1, 1, 1), most=16)
    yield made
    made.hidden.remove()


def hidden(target: Target) -> Hidden:
    assert target.hidden is not None
    return target.hidden


def expected(target: Target, ids: list[int]) -> list[np.ndarray]:
    """The states of a fresh read of `ids`, in the order of `WANTED`."""
    model = target.model
    h = model.model.embed_tokens(mx.array([ids]))
    states = [h]
    for layer in model.model.layers:
        h = layer(h, "causal", None)
        states.append(h)
    return [np.array(s[0]) for s in (states[0], states[2], model.model.norm(states[3]))]


def same(target: Target, start: int, stop: int) -> None:
    for ours, theirs in zip(hidden(target).rows(start, stop, WANTED), expected(target, target.tokens), strict=True):
        np.testing.assert_allclose(np.array(ours), theirs[start:stop], atol=1e-4)


def test_rows_of_several_passes_are_those_of_one(target: Target) -> None:
    list(target.prefill(IDS[:10], step=4))
    target.run(mx.array(IDS[10:13]), IDS[10:13])
    target.run(mx.array(IDS[13:14]), IDS[13:14])
    assert hidden(target).wanted == WANTED
    assert (hidden(target).start, hidden(target).stop) == (0, 14)
    for start, stop in ((0, 14), (3, 9), (4, 8), (11, 12), (13, 14)):
        same(target, start, stop)
    (only,) = hidden(target).rows(2, 5, (1,))
    np.testing.assert_allclose(np.array(only), expected(target, target.tokens)[1][2:5], atol=1e-4)


def test_rejected_rows_go(target: Target) -> None:
    list(target.prefill(IDS[:6]))
    target.begin()
    target.run(mx.array([9, 8, 7, 6]), [9, 8, 7, 6])
    target.keep(8, [9, 8])
    assert hidden(target).stop == 8
    target.begin()
    target.run(mx.array([50, 51]), [50, 51])
    assert target.tokens == [*IDS[:6], 9, 8, 50, 51]
    same(target, 0, 10)
    with pytest.raises(LookupError, match="rows 8 to 11 are not known"):
        hidden(target).rows(8, 11, WANTED)


def test_the_path_of_a_tree_stays(target: Target) -> None:
    list(target.prefill(IDS[:4]))
    target.run(mx.array([9, 8, 7, 6]), [9, 8, 7, 6])
    before = hidden(target).rows(4, 8, WANTED)
    hidden(target).pick(4, [0, 2])
    assert hidden(target).stop == 6
    for ours, all_four in zip(hidden(target).rows(4, 6, WANTED), before, strict=True):
        assert np.array_equal(np.array(ours), np.array(all_four)[[0, 2]])
    hidden(target).pick(2, [0])  # no pass began there
    assert hidden(target).stop == 6


def test_old_rows_go_with_their_pass(target: Target) -> None:
    list(target.prefill(IDS, step=8))
    assert (hidden(target).start, hidden(target).stop) == (24, 40)  # as many as asked for, whole passes
    same(target, 24, 40)
    with pytest.raises(LookupError):
        hidden(target).rows(20, 30, WANTED)
    with pytest.raises(LookupError):
        hidden(target).rows(30, 30, WANTED)


def test_one_long_pass_is_kept_whole(target: Target) -> None:
    list(target.prefill(IDS))
    assert hidden(target).start == 0
    same(target, 0, 40)


def test_a_snapshot_is_what_was_known_then(target: Target) -> None:
    list(target.prefill(IDS[:6]))
    snapshot = target.snapshot()
    target.run(mx.array([9, 8]), [9, 8])
    target.restore(snapshot)
    assert hidden(target).stop == 6
    target.run(mx.array([50]), [50])
    target.keep(7, [50])
    same(target, 0, 7)


def test_passes_of_others_are_not_taken(target: Target) -> None:
    list(target.prefill(IDS[:6]))
    target.model(mx.array([[1, 2, 3]]))  # a drafter's, say, or a measurement
    assert hidden(target).stop == 6
    target.run(mx.array([50]), [50])
    same(target, 0, 7)


def test_nothing_is_taken_any_more(target: Target) -> None:
    kept, layers = hidden(target), target.model.model.layers
    tapped = type(layers[1])
    list(target.prefill(IDS[:6]))
    kept.remove()
    assert (kept.start, kept.stop) == (0, 0)
    assert type(layers[1]) is not tapped
    assert type(layers[1]) is type(layers[0])
    target.run(mx.array([50]), [50])
    assert kept.stop == 0
