from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.sample_utils import make_logits_processors, make_sampler

from mlx_spec.events import SamplingSettings
from mlx_spec.sampling import DRAW, History, draw, gumbel, key, process

ROWS = mx.array(np.random.default_rng(0).normal(0, 3, (4, 50)).astype(np.float32))


def law(settings: SamplingSettings, rows: mx.array = ROWS) -> np.ndarray:
    return np.exp(np.array(process(rows, settings)))


def test_rows_are_distributions() -> None:
    for s in (
        SamplingSettings(temperature=1),
        SamplingSettings(temperature=0.5, top_p=0.8, min_p=0.02, top_k=7),
    ):
        assert np.allclose(law(s).sum(-1), 1, atol=1e-5)


def test_top_k_keeps_k() -> None:
    assert ((law(SamplingSettings(temperature=1, top_k=5)) > 0).sum(-1) == 5).all()


def test_top_p_keeps_the_smallest_set_that_reaches_p() -> None:
    p = law(SamplingSettings(temperature=1))
    kept = law(SamplingSettings(temperature=1, top_p=0.8)) > 0
    for row, keep in zip(p, kept, strict=True):
        inside = np.sort(row[keep])
        assert inside.sum() >= 0.8 > inside[1:].sum()


@pytest.mark.parametrize(
    "options", [{"top_p": 0.7}, {"min_p": 0.05}, {"top_k": 4}, {"top_p": 0.9, "min_p": 0.01, "top_k": 9}]
)
def test_support_is_that_of_mlx_lm(options: dict[str, float]) -> None:
    """Tokens that mlx-lm's sampler ever draws, against those with mass here."""
    sampler = make_sampler(temp=1.0, **options)
    logp = ROWS - mx.logsumexp(ROWS, axis=-1, keepdims=True)
    mx.random.seed(0)
    seen = np.zeros(ROWS.shape, bool)
    for _ in range(400):
        seen[np.arange(4), np.array(sampler(logp))] = True
    settings = SamplingSettings(temperature=1.0, **options)  # type: ignore[arg-type]
    assert not (seen & (law(settings) == 0)).any()


def test_penalties_are_those_of_mlx_lm_and_see_the_prompt() -> None:
    tokens = [1, 2, 2, 3]
    settings = SamplingSettings(
        repetition_penalty=1.3, presence_penalty=0.4, frequency_penalty=0.2, logit_bias=((7, 1.5),)
    )
    ours = process(ROWS[:1], settings, History(tokens, 50, settings).counts(None))
    theirs = ROWS[:1]
    for processor in make_logits_processors({7: 1.5}, 1.3, 20, 0.4, 20, 0.2, 20):
        theirs = processor(mx.array(tokens), theirs)
    assert np.allclose(np.array(ours), np.array(theirs), atol=1e-5)


@pytest.mark.parametrize("window", [0, 6])
def test_each_row_sees_the_draft_before_it(window: int) -> None:
    settings = SamplingSettings(presence_penalty=1.0, penalty_context=window)
    tokens, draft = [1, 2, 3, 1, 2, 3, 9, 9], [4, 4, 5]
    counts = History(tokens, 50, settings).counts(mx.array(draft))
    assert counts is not None
    for i in range(len(draft) + 1):
        text = tokens + draft[:i]
        text = text[-window:] if window else text
        assert np.array_equal(np.array(counts)[i], np.bincount(text, minlength=50))


def test_history_counts_after_commits_equal_a_fresh_count() -> None:
    settings = SamplingSettings(frequency_penalty=1.0, penalty_context=4)
    history = History([1, 2, 3], 50, settings)
    history.extend([4, 5, 1, 1])
    assert np.array_equal(np.array(history.counts(None))[0], np.bincount([4, 5, 1, 1], minlength=50))


def test_noise_depends_on_position_only() -> None:
    logp = process(ROWS, SamplingSettings(temperature=1))
    together = np.array(draw(logp, 9, 100, 1.0))
    alone = [int(draw(logp[i : i + 1], 9, 100 + i, 1.0).item()) for i in range(4)]  # type: ignore[arg-type]
    assert together.tolist() == alone
    assert not np.array_equal(np.array(gumbel(9, 1, 50)), np.array(gumbel(9, 2, 50)))


def test_keys_differ() -> None:
    keys = {tuple(np.array(key(s, p, k)).tolist()) for s in range(8) for p in range(64) for k in range(4)}
    assert len(keys) == 8 * 64 * 4


def test_draws_follow_the_law() -> None:
    settings = SamplingSettings(temperature=1.0, top_k=4)
    logp = process(ROWS[:1], settings)
    p = np.exp(np.array(logp))[0]
    n = 4000
    noise = mx.stack([gumbel(1, i, 50, DRAW) for i in range(n)])
    drawn = np.bincount(np.array(mx.argmax(logp + noise, axis=-1)), minlength=50) / n
    assert np.all(np.abs(drawn - p) < 4 * np.sqrt(p * (1 - p) / n) + 1e-9)
