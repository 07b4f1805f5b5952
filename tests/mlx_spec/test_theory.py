"""The formulas against values worked out by hand, and against drawing."""

from __future__ import annotations

import random

import pytest

from mlx_spec.theory import acceptance_rate, best_length, expected_tokens, speed_up


def test_by_hand() -> None:
    assert expected_tokens(0.5, 2) == pytest.approx(1 + 0.5 + 0.25)
    assert expected_tokens(0, 5) == 1
    assert expected_tokens(1, 5) == 6
    assert speed_up(0.5, 2, 0.25) == pytest.approx(1.75 / 1.5)
    assert speed_up(0.5, 2, 0.25, 1.5) == pytest.approx(1.75 / 2)
    with pytest.raises(ValueError, match="out of range"):
        expected_tokens(1.2, 3)


@pytest.mark.parametrize(("alpha", "gamma"), [(0.3, 4), (0.8, 6), (0.95, 2)])
def test_against_drawing(alpha: float, gamma: int) -> None:
    rng = random.Random(1)
    rounds = []
    for _ in range(20_000):
        held = 0
        while held < gamma and rng.random() < alpha:
            held += 1
        rounds.append((gamma, held))
    assert sum(h + 1 for _, h in rounds) / len(rounds) == pytest.approx(expected_tokens(alpha, gamma), rel=0.02)
    assert acceptance_rate(rounds) == pytest.approx(alpha, abs=0.01)


def test_the_best_length() -> None:
    assert best_length(0.9, 0.0, lambda w: 1.0, 16)[0] == 16
    assert best_length(0.1, 0.5, lambda w: 1.0) == (0, 1.0)
    assert best_length(0.9, 0.0, lambda w: float(w)) == (0, 1.0)
    assert acceptance_rate([]) is None
