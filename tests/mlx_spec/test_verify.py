"""The accept rules are exact: the law of the text equals the target's, by enumeration of all cases."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from mlx_spec import verify

Law = dict[tuple[int, ...], float]
Model = dict[tuple[int, ...], np.ndarray]

mx_cpu = mx.Device(mx.cpu)


def model(rng: np.random.Generator, vocabulary: int, depth: int) -> Model:
    contexts = (c for n in range(depth + 1) for c in itertools.product(range(vocabulary), repeat=n))
    return {c: rng.dirichlet(np.full(vocabulary, 0.7)) for c in contexts}


def target_law(p: Model, vocabulary: int, length: int) -> Law:
    law: Law = {}
    for text in itertools.product(range(vocabulary), repeat=length):
        law[text] = float(np.prod([p[text[:i]][text[i]] for i in range(length)]))
    return law


def extend(law: Law, text: tuple[int, ...], weight: float, p: Model, length: int) -> None:
    """Let the target go on alone until `length`."""
    if weight == 0:
        return
    if len(text) == length:
        law[text] = law.get(text, 0.0) + weight
        return
    for token, chance in enumerate(p[text]):
        extend(law, (*text, token), weight * float(chance), p, length)


def drafts(q: Model, n: int, stop: Callable[[tuple[int, ...]], bool]) -> list[tuple[tuple[int, ...], float]]:
    """Every draft of at most `n` tokens with its probability; `stop` may end it after a prefix."""
    out: list[tuple[tuple[int, ...], float]] = []

    def grow(text: tuple[int, ...], weight: float) -> None:
        if weight == 0:
            return
        if len(text) == n or (text and stop(text)):
            out.append((text, weight))
            return
        for token, chance in enumerate(q[text]):
            grow((*text, token), weight * float(chance))

    grow((), 1.0)
    return out


def rejection_law(p: Model, q: Model, n: int, stop: Callable[[tuple[int, ...]], bool], wrong: str = "") -> Law:
    """The law of the text after one round of the rejection rule, by the functions that decode uses."""
    law: Law = {}
    with mx.stream(mx_cpu):
        for draft, weight in drafts(q, n, stop):
            surviving = weight
            for i, token in enumerate(draft):
                pi, qi = (mx.array(m[draft[:i]][None], mx.float64) for m in (p, q))
                accept = verify.accept_probability(pi, qi, mx.array([token])).item()
                rest = np.array(verify.residual(pi, qi))[0]
                if wrong == "no residual":
                    rest = p[draft[:i]]
                if wrong == "draft's own sample":
                    accept, rest = 1.0, rest  # what was drafted is kept, whatever the target says
                for other, chance in enumerate(rest):
                    extend(law, (*draft[:i], other), surviving * (1 - accept) * float(chance), p, n + 1)
                surviving *= accept
            extend(law, draft, surviving, p, n + 1)
    return law


def tree_law(p: Model, q: Model, places: tuple[int, ...], n: int, wrong: str = "") -> Law:
    """The law of the text after one round of a chain of `n` with second choices at `places`."""
    law: Law = {}
    vocabulary = len(p[()])

    def extend_round(text: tuple[int, ...], weight: float) -> None:
        i = len(text)
        if i == n:
            extend(law, text, weight, p, n + 1)
            return
        pi, qi = (mx.array(m[text][None], mx.float64) for m in (p, q))
        for first, drawn in enumerate(q[text]):
            drafted = mx.array([first])
            accept = verify.accept_probability(pi, qi, drafted).item()
            extend_round((*text, first), weight * drawn * accept)
            refused = weight * drawn * (1 - accept)
            left, others = verify.second_laws(pi, qi, drafted)
            if wrong == "drawn like the first":
                others = qi
            rest = np.array(left)[0]
            if i not in places:
                for other in range(vocabulary):
                    extend(law, (*text, other), refused * rest[other], p, n + 1)
                continue
            truly = np.array(verify.second_laws(pi, qi, drafted)[1])[0]
            beyond = np.array(verify.residual(left, others))[0]
            for second, chance in enumerate(truly):
                takes = verify.accept_probability(left, others, mx.array([second])).item()
                if wrong == "only likely ones are drawn" and chance < 0.5:
                    takes, beyond_here = 0.0, rest
                else:
                    beyond_here = beyond
                extend(law, (*text, second), refused * chance * takes, p, n + 1)
                for other in range(vocabulary):
                    extend(law, (*text, other), refused * chance * (1 - takes) * beyond_here[other], p, n + 1)

    with mx.stream(mx_cpu):
        extend_round((), 1.0)
    return law


def block_law(p: Model, q: Model, n: int, stop: Callable[[tuple[int, ...]], bool], wrong: str = "") -> Law:
    """The law of the text after one round of the block rule: the last success among the drafts wins."""
    law: Law = {}
    with mx.stream(mx_cpu):
        for draft, weight in drafts(q, n, stop):
            pi, qi = (mx.array(np.stack([m[draft[:i]] for i in range(len(draft))]), mx.float64) for m in (p, q))
            chances, rests = (np.array(a) for a in verify.block_chances(pi, qi, mx.array(draft)))
            if wrong == "a failure ends it":
                surviving = weight
                for i in range(len(draft)):
                    for token, chance in enumerate(rests[i]):
                        extend(law, (*draft[:i], token), surviving * (1 - chances[i]) * chance, p, n + 1)
                    surviving *= chances[i]
                extend(law, draft, surviving, p, n + 1)
                continue
            later = weight  # no longer draft was taken
            for length in range(len(draft), 0, -1):
                taken = later * float(chances[length - 1])
                later -= taken
                if length == len(draft):
                    extend(law, draft, taken, p, n + 1)
                    continue
                for token, chance in enumerate(p[draft[:length]] if wrong == "no residual" else rests[length]):
                    extend(law, (*draft[:length], token), taken * float(chance), p, n + 1)
            for token, chance in enumerate(rests[0]):
                extend(law, (token,), later * float(chance), p, n + 1)
    return law


def match_law(p: Model, q: Model, n: int) -> Law:
    """One round of `match`: every row's own draw is enumerated, and the held drafts cut the text."""
    law: Law = {}
    vocabulary = len(p[()])
    for draft, weight in drafts(q, n, lambda _: False):
        rows = [p[draft[:i]] for i in range(len(draft) + 1)]
        for draws in itertools.product(range(vocabulary), repeat=len(rows)):
            chance = weight * float(np.prod([row[y] for row, y in zip(rows, draws, strict=True)]))
            a = verify.held([x == y for x, y in zip(draft, draws, strict=False)])
            extend(law, (*draft[:a], draws[a]), chance, p, n + 1)
    return law


def variation(a: Law, b: Law) -> float:
    return 0.5 * sum(abs(a.get(k, 0.0) - b.get(k, 0.0)) for k in a.keys() | b.keys())


SIZES = [(2, 2), (3, 2), (2, 3), (3, 3)]


@pytest.mark.parametrize(("vocabulary", "n"), SIZES)
def test_rejection_is_exact(vocabulary: int, n: int) -> None:
    rng = np.random.default_rng(vocabulary * 10 + n)
    p, q = model(rng, vocabulary, n + 1), model(rng, vocabulary, n + 1)
    greedy = {c: np.eye(vocabulary)[np.argmax(law)] for c, law in q.items()}
    truth = target_law(p, vocabulary, n + 1)
    for law in (q, greedy):
        assert variation(rejection_law(p, law, n, lambda _: False), truth) < 1e-12
    # Stopping after a token that the drafter is unsure of is legal: the token stays in the draft.
    assert variation(rejection_law(p, q, n, lambda text: q[text].max() < 0.6), truth) < 1e-12


@pytest.mark.parametrize(("vocabulary", "n"), SIZES)
def test_block_is_exact(vocabulary: int, n: int) -> None:
    rng = np.random.default_rng(vocabulary * 1000 + n)
    p, q = model(rng, vocabulary, n + 1), model(rng, vocabulary, n + 1)
    truth = target_law(p, vocabulary, n + 1)
    assert variation(block_law(p, q, n, lambda _: False), truth) < 1e-12
    assert variation(block_law(p, q, n, lambda text: q[text].max() < 0.6), truth) < 1e-12


@pytest.mark.parametrize(("vocabulary", "n"), SIZES)
def test_second_choices_are_exact(vocabulary: int, n: int) -> None:
    rng = np.random.default_rng(vocabulary * 7 + n)
    p, q = model(rng, vocabulary, n + 1), model(rng, vocabulary, n + 1)
    truth = target_law(p, vocabulary, n + 1)
    for places in ((0,), (n - 1,), tuple(range(n))):
        assert variation(tree_law(p, q, places, n), truth) < 1e-12


@pytest.mark.parametrize("wrong", ["drawn like the first", "only likely ones are drawn"])
def test_wrong_second_choices_fail_the_same_test(wrong: str) -> None:
    rng = np.random.default_rng(7)
    p, q = model(rng, 3, 3), model(rng, 3, 3)
    assert variation(tree_law(p, q, (0, 1), 2, wrong), target_law(p, 3, 3)) > 1e-3


def test_second_choices_follow_the_law_on_the_device() -> None:
    """First tokens of many rounds, noise included, and the tokens after a second choice that held."""
    p, q, after = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.3, 0.6]), np.array([0.2, 0.2, 0.6])
    rows = mx.log(mx.array(np.stack([p, after, after]).astype(np.float32)))
    logq = mx.log(mx.array(q[None].astype(np.float32)))
    rng = np.random.default_rng(0)
    count, later = np.zeros(3), np.zeros(3)
    rounds = 3000
    for seed in range(rounds):
        first = int(rng.choice(3, p=q))
        others = np.where(np.arange(3) == first, 0, q)
        second = int(rng.choice(3, p=others / others.sum()))
        own = verify.rejection_tree(rows, logq, mx.array([first, second], mx.uint32), (0,), seed, 10).tolist()
        count[own[0]] += 1
        if own[0] == second:
            later[own[2]] += 1
    assert np.all(np.abs(count / rounds - p) < 3.5 * np.sqrt(p * (1 - p) / rounds))
    n = later.sum()
    assert n > 200
    assert np.all(np.abs(later / n - after) < 3.5 * np.sqrt(after * (1 - after) / n))


@pytest.mark.parametrize("wrong", ["no residual", "a failure ends it"])
def test_wrong_block_rules_fail_the_same_test(wrong: str) -> None:
    rng = np.random.default_rng(7)
    p, q = model(rng, 3, 4), model(rng, 3, 4)
    assert variation(block_law(p, q, 3, lambda _: False, wrong), target_law(p, 3, 4)) > 1e-3


def test_block_takes_no_fewer_drafts_than_rejection() -> None:
    rng = np.random.default_rng(11)
    gains = []
    for _ in range(20):
        p, q = model(rng, 3, 3), model(rng, 3, 3)
        block = rejection = 0.0
        for draft, weight in drafts(q, 3, lambda _: False):
            pi, qi = (mx.array(np.stack([m[draft[:i]] for i in range(3)]).astype(np.float32)) for m in (p, q))
            later = weight
            for i, h in reversed(list(enumerate(np.array(verify.block_chances(pi, qi, mx.array(draft))[0])))):
                block += later * float(h) * (i + 1)
                later *= 1 - float(h)
            accept = np.array(verify.accept_probability(pi, qi, mx.array(draft)))
            rejection += weight * float(np.cumprod(accept).sum())
        gains.append(block - rejection)
    assert min(gains) > -1e-5
    assert max(gains) > 0.02


def test_block_draws_follow_the_law() -> None:
    """The device path: the first two tokens of many rounds against the target's law."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    logp, logq = (mx.log(mx.array(np.stack([m] * k).astype(np.float32))) for m, k in ((p, 3), (q, 2)))
    rng = np.random.default_rng(0)
    rounds = 3000
    count = np.zeros(3)
    for seed in range(rounds):
        draft = rng.choice(3, p=q, size=2)
        flags, own = verify.block(logp, logq, mx.array(draft.astype(np.uint32)), seed, 10)
        a = verify.held(flags.tolist())
        count[draft[0] if a else own[0].item()] += 1
    assert np.all(np.abs(count / rounds - p) < 3.5 * np.sqrt(p * (1 - p) / rounds))


@pytest.mark.parametrize(("vocabulary", "n"), SIZES)
def test_match_is_exact(vocabulary: int, n: int) -> None:
    rng = np.random.default_rng(vocabulary * 100 + n)
    p, q = model(rng, vocabulary, n + 1), model(rng, vocabulary, n + 1)
    assert variation(match_law(p, q, n), target_law(p, vocabulary, n + 1)) < 1e-12


@pytest.mark.parametrize("wrong", ["no residual", "draft's own sample"])
def test_wrong_rules_fail_the_same_test(wrong: str) -> None:
    rng = np.random.default_rng(7)
    p, q = model(rng, 3, 3), model(rng, 3, 3)
    assert variation(rejection_law(p, q, 2, lambda _: False, wrong), target_law(p, 3, 3)) > 0.01


def test_residual_of_equal_laws_is_the_law() -> None:
    p = mx.array([[0.25, 0.75]])
    assert np.allclose(verify.residual(p, p), p)


def test_rejection_draws_follow_the_law() -> None:
    """The device path, noise included: first tokens of many rounds against p, a three-sigma band."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    logp = mx.log(mx.array(np.stack([p, p]).astype(np.float32)))
    logq = mx.log(mx.array(q[None].astype(np.float32)))
    rng = np.random.default_rng(0)
    rounds = 3000
    count = np.zeros(3)
    for seed in range(rounds):
        drafted = int(rng.choice(3, p=q))
        flags, own = verify.rejection(logp, logq, mx.array([drafted], mx.uint32), seed, 10)
        count[drafted if flags.item() else own[0].item()] += 1
    assert np.all(np.abs(count / rounds - p) < 3.5 * np.sqrt(p * (1 - p) / rounds))


def test_held_counts_the_run_at_the_start() -> None:
    assert verify.held([]) == 0
    assert verify.held([True, False, True]) == 1
    assert verify.held([True, True]) == 2
