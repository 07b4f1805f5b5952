"""Questions of ours: the same for a seed, all filled in, and many of them."""

from __future__ import annotations

from itertools import islice

from mlx_spec.train.questions import FORMS, TASKS, TOPICS, questions


def some(seed: int, n: int = 4000) -> list[str]:
    return list(islice(questions(seed), n))


def test_a_seed_has_its_own_questions() -> None:
    assert some(3) == some(3)
    assert some(3)[:20] != some(4)[:20]


def test_every_place_is_filled_in() -> None:
    for question in some(0):
        assert "{" not in question
        assert "}" not in question
        assert question == question.strip()


def test_they_differ() -> None:
    asked = some(1)
    assert len(set(asked)) > 0.8 * len(asked)
    starts = {form.partition("{")[0] for form in FORMS}
    assert {start for start in starts if any(q.startswith(start) for q in asked)} == starts
    for parts in (FORMS, TOPICS, TASKS):
        assert len(set(parts)) == len(parts)
        assert all(part == part.strip() and part for part in parts)


def test_topics_of_a_question_are_not_the_same() -> None:
    compared = [q.removeprefix("Compare ").removesuffix(".") for q in some(2) if q.startswith("Compare ")]
    assert compared
    for pair in compared:
        one, _, other = pair.partition(" and ")
        assert one != other
