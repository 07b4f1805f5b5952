"""The suffix automaton against a plain search for the longest earlier copy."""

from __future__ import annotations

import random
import time

import pytest

from mlx_spec.controller import Candidate, Controller
from mlx_spec.drafters.lookup import Lookup
from mlx_spec.drafters.suffix import CLIMB, Suffix
from mlx_spec.events import SamplingSettings
from mlx_spec.sampling import History


def history(tokens: list[int]) -> History:
    return History(tokens, 100_000, SamplingSettings())


def longest(tokens: list[int]) -> tuple[int, int]:
    """Length and last end of the longest suffix that stood before, by trying all."""
    n = len(tokens)
    for length in range(n - 1, 0, -1):
        for end in range(n - 2, length - 2, -1):
            if tokens[end + 1 - length : end + 1] == tokens[n - length :]:
                return length, end
    return 0, -1


def test_the_longest_match_and_its_latest_place() -> None:
    rng = random.Random(3)
    for letters in (2, 3, 6):
        drafter, tokens = Suffix(), [rng.randrange(letters)]
        drafter.begin(tokens)
        for _ in range(120):
            tokens.append(rng.randrange(letters))
            offer = drafter.offer(history(tokens), 4)
            length, end = longest(tokens)
            if length < 2:
                assert offer is None
                continue
            assert drafter._match[0] == length
            assert offer is not None
            copied = [*tokens[end + 1 :], *([-1] * 4)][: min(4, len(tokens) - 1 - end)]
            assert list(offer.tokens[: len(copied)]) == copied


def test_text_that_goes_round_is_continued() -> None:
    drafter = Suffix()
    drafter.begin([])
    offer = drafter.offer(history([1, 2, 3, 1, 2, 3, 1, 2]), 7)
    assert offer is not None
    assert offer.tokens == (3, 1, 2, 3, 1, 2, 3)


def test_nothing_is_offered_where_nothing_repeats() -> None:
    drafter = Suffix()
    drafter.begin([])
    assert drafter.offer(history([1, 2, 3, 4, 5]), 8) is None
    assert drafter.offer(history([1, 2, 3, 4, 5, 1]), 8) is None


def test_a_conversation_that_goes_on_is_not_indexed_again() -> None:
    drafter = Suffix()
    drafter.begin([1, 2, 3])
    drafter.begin([1, 2, 3, 4])
    assert len(drafter._tokens) == 4
    drafter.begin([9, 9])
    assert drafter._tokens == [9, 9]


def test_a_long_conversation_costs_little() -> None:
    """100,000 tokens, the worst of them one token over and over: far under a second for a token's worth."""
    rng = random.Random(0)
    tokens = [rng.randrange(3000) for _ in range(60_000)] + [7] * 40_000
    drafter = Suffix()
    started = time.perf_counter()
    drafter.begin(tokens)
    assert time.perf_counter() - started < 20  # budget with much room: about 1 s
    started = time.perf_counter()
    for i in range(100):
        tokens.append(7 if i % 2 else 5)
        drafter.offer(_light(tokens), 16)
    assert (time.perf_counter() - started) / 100 < 0.01
    assert CLIMB < 1000


def _light(tokens: list[int]) -> History:
    made = History([], 100_000, SamplingSettings())
    made.tokens = tokens
    return made


@pytest.mark.parametrize("drafter", [Suffix(), Lookup()])
def test_a_hundred_thousand_tokens_cost_next_to_nothing(drafter: Suffix | Lookup) -> None:
    """A round's share of copying drafters at a long context: far under 1 % of a pass, which takes tens of ms."""
    rng = random.Random(1)
    words = [[rng.randrange(50_000) for _ in range(rng.randrange(2, 30))] for _ in range(400)]
    prompt: list[int] = []
    while len(prompt) < 100_000:
        prompt += rng.choice(words)
    drafter.begin(prompt)
    text = History(prompt, 50_000, SamplingSettings())
    controller = Controller()
    controller.begin()
    reply = [t for _ in range(30) for t in rng.choice(words)]
    started = time.process_time()
    for token in reply:
        text.extend([token])
        offer = drafter.offer(text, 16)
        if offer:
            controller.choose([Candidate(drafter.name, offer.key, offer.limit)])
        controller.record(None, 0, 1, 0.0, 0.05)
    assert (time.process_time() - started) / len(reply) < 0.0005
