"""The law of what is written: two tokens jointly, drawn thousands of times through the accept rules, against the
target's own; and that as many drafts hold as the laws say, for drafts that are mis-scored stay exact and get slow."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from mlx_spec import verify
from mlx_spec.sampling import DRAFT, draw

SIZE, DRAWS = 8, 4000


def laws(seed: int, temperature: float) -> np.ndarray:
    """First-token law and the second's after each first: (1 + SIZE, SIZE)."""
    logits = np.random.default_rng(seed).normal(0, 1.5, (1 + SIZE, SIZE)) / temperature
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(p / p.sum(-1, keepdims=True))


def written(rule: str, p: np.ndarray, q: np.ndarray, seed: int, wrong: str = "") -> tuple[tuple[int, int], int, int]:
    """Two tokens of one text, drafts that held, drafts that were judged."""
    logp, logq = mx.log(mx.array(p, mx.float32)), mx.log(mx.array(q, mx.float32))
    first = int(draw(logq[:1], seed, 0, 1.0, DRAFT)[0])
    second = int(draw(logq[1 + first][None], seed, 1, 1.0, DRAFT)[0])
    drafted = mx.array([first, second], mx.uint32)
    rows = mx.stack([logp[0], logp[1 + first], logp[0]])
    said = mx.stack([logq[0], logq[1 + first]])
    if wrong == "another law":
        said = mx.stack([logq[1 + first], logq[0]])
    if rule == "match":
        flags, own = verify.match(rows, drafted, seed, 0, 1.0)
    else:
        judge = verify.block if rule == "block" else verify.rejection
        flags, own = judge(rows, said, drafted, seed, 0)
    held = verify.held([int(f) for f in flags.tolist()])
    tokens = [*(first, second)[:held], int(own[held])]
    if len(tokens) < 2:  # the next round is plain
        tokens.append(int(draw(logp[1 + tokens[0]][None], seed, 1, 1.0)[0]))
    return (tokens[0], tokens[1]), held, min(2, held + 1)


def g_test(counts: np.ndarray, expected: np.ndarray) -> float:
    """The p-value of a G test; cells that expect fewer than 5 are pooled."""
    rare = expected < 5
    c, e = [*counts[~rare]], [*expected[~rare]]
    if rare.any():
        c, e = [*c, counts[rare].sum()], [*e, expected[rare].sum()]
    g = 2 * sum(a * math.log(a / b) for a, b in zip(c, e, strict=True) if a)
    k = len(c) - 1
    # Wilson and Hilferty's normal approximation of the chi-square law.
    z = ((max(g, 1e-9) / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k))
    return 0.5 * math.erfc(z / math.sqrt(2))


def drawn(rule: str, wrong: str = "") -> tuple[float, float, float]:
    """p-value of the joint law, share of first drafts that held, and the share that the laws promise."""
    p, q = laws(1, 0.9), laws(2, 1.2)
    counts, firsts = np.zeros((SIZE, SIZE)), 0
    for seed in range(DRAWS):
        (a, b), held, _ = written(rule, p, q, seed, wrong)
        counts[a, b] += 1
        firsts += held > 0
    value = g_test(counts.ravel(), (DRAWS * p[0][:, None] * p[1:]).ravel())
    return value, firsts / DRAWS, float(np.minimum(p[0], q[0]).sum())


@pytest.mark.parametrize("rule", ["match", "rejection", "block"])
def test_two_tokens_follow_the_targets_law(rule: str) -> None:
    value, held, promised = drawn(rule)
    assert value > 1e-6
    if rule == "rejection":
        assert abs(held - promised) < 3 * math.sqrt(promised * (1 - promised) / DRAWS)
    if rule == "match":  # one draw of the target against an independent draft
        p, q = laws(1, 0.9), laws(2, 1.2)
        chance = float((p[0] * q[0]).sum())
        assert abs(held - chance) < 3 * math.sqrt(chance * (1 - chance) / DRAWS)


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_wrong_laws_fail_the_same_test(rule: str) -> None:
    value, *_ = drawn(rule, "another law")
    assert value < 1e-6
