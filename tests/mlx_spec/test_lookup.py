from __future__ import annotations

import random

from mlx_spec.drafters.lookup import Lookup, bucket
from mlx_spec.events import SamplingSettings
from mlx_spec.sampling import History


def offer(tokens: list[int], limit: int = 5) -> tuple[str, tuple[int, ...]] | None:
    lookup = Lookup()
    lookup.begin(tokens)
    found = lookup.offer(History(tokens, 100, SamplingSettings()), limit)
    return (found.key, found.tokens) if found else None


def test_longest_context_wins() -> None:
    assert offer([1, 2, 3, 50, 9, 2, 3, 60, 1, 2, 3]) == ("3", (50, 9, 2, 3, 60))


def test_the_later_place_wins_a_tie() -> None:
    found = offer([7, 2, 3, 50, 8, 2, 3, 60, 61, 9, 2, 3])
    assert found is not None
    assert found[1][:2] == (60, 61)


def test_nothing_is_said_without_a_match() -> None:
    assert offer([1, 2, 3, 4, 5]) is None
    assert offer([1, 2]) is None
    assert offer([]) is None


def test_a_cycle_is_continued() -> None:
    assert offer([4, 5, 6, 4, 5, 6, 4, 5], 7) == ("6", (6, 4, 5, 6, 4, 5, 6))


def test_index_grows_with_the_reply_as_if_built_at_once() -> None:
    rng = random.Random(0)
    tokens = [rng.randrange(6) for _ in range(400)]
    lookup = Lookup()
    lookup.begin(tokens[:50])
    history = History(tokens[:50], 100, SamplingSettings())
    for t in tokens[50:]:
        history.extend([t])
        found = lookup.offer(history, 4)
        assert ((found.key, found.tokens) if found else None) == offer(history.tokens, 4)


def test_buckets() -> None:
    assert [bucket(n) for n in (2, 3, 4, 5, 6, 7, 20, 21, 400)] == [
        "2", "3", "4", "6", "6", "10", "20", "21+", "21+",
    ]  # fmt: skip
