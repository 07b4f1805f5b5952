"""The figures of the sidebar, against sums done by hand."""

from __future__ import annotations

import pytest

from desktop.sidebar.stats import (
    SPAN_S,
    Stats,
    bytes_text,
    rate_text,
    ratio_text,
    ratio_words,
    seconds_text,
)
from tests.desktop.sidebar.rounds import make_finished, make_round


def test_nothing_is_known_at_first() -> None:
    stats = Stats()
    assert stats.rate is None
    assert stats.plain_rate is None
    assert stats.ratio is None
    assert stats.overall.acceptance is None
    assert stats.overall.tokens_per_pass is None
    assert stats.budget.shares() == (0.0, 0.0, 0.0)


def test_rate_is_weighted_by_time_not_by_round() -> None:
    stats = Stats()
    stats.add([make_round(total_s=0.1), make_round(drafter="lookup", drafted=9, accepted=9, total_s=0.9)])
    assert stats.rate == pytest.approx(11 / 1.0)


def test_rate_rolls_over_the_window_and_keeps_a_few_slow_rounds() -> None:
    stats = Stats()
    stats.add([make_round(total_s=0.1) for _ in range(50)])
    stats.add([make_round(drafter="lookup", drafted=1, accepted=1, total_s=0.1) for _ in range(50)])
    assert stats.rate == pytest.approx(20.0)
    slow = Stats()
    slow.add([make_round(total_s=5.0) for _ in range(3)] + [make_round(total_s=1.0)])
    assert slow.rate == pytest.approx(4 / 16.0)


def test_ratio_waits_for_a_measured_plain_pass_and_keeps_the_last() -> None:
    stats = Stats()
    stats.add([make_round(drafter="model", drafted=1, accepted=1, total_s=0.1)])
    assert stats.ratio is None
    assert ratio_text(stats.ratio) == "measuring…"
    stats.add([make_round(drafter="model", drafted=1, accepted=1, total_s=0.1, plain_s=0.08)])
    stats.add([make_round(drafter="model", drafted=1, accepted=1, total_s=0.1)])
    assert stats.plain_rate == pytest.approx(12.5)
    assert stats.ratio == pytest.approx(1.6)


def test_a_loss_is_called_slower() -> None:
    stats = Stats()
    stats.add([make_round(total_s=0.2, plain_s=0.1)])
    assert ratio_text(stats.ratio) == "0.50× plain"
    assert ratio_words(stats.ratio) == "slower than plain decoding"
    assert ratio_words(1.0) == "as fast as plain decoding"
    assert ratio_words(1.8) == "faster than plain decoding"
    assert "not been measured" in ratio_words(None)
    assert "off" in ratio_words(1.0, drafting=False)


def test_figures_by_drafter() -> None:
    stats = Stats()
    stats.add(
        [
            make_round(drafter="lookup", drafted=4, accepted=2),
            make_round(drafter="lookup", drafted=2, accepted=2, own=False),
            make_round(drafter="model", drafted=4, accepted=0),
            make_round(),
        ]
    )
    lookup, model = stats.by_drafter["lookup"], stats.by_drafter["model"]
    assert (lookup.rounds, lookup.drafted, lookup.accepted, lookup.tokens) == (2, 6, 4, 5)
    assert lookup.acceptance == pytest.approx(4 / 6)
    assert lookup.tokens_per_pass == pytest.approx(2.5)
    assert model.acceptance == 0.0
    assert model.tokens_per_pass == 1.0
    assert stats.overall.tokens_per_pass == pytest.approx(7 / 4)
    assert stats.overall.acceptance == pytest.approx(4 / 10)


def test_budget_adds_up() -> None:
    stats = Stats()
    stats.add([make_round(total_s=1.0, draft_s=0.2, verify_s=0.7)])
    assert stats.budget.shares() == pytest.approx((0.2, 0.7, 0.1))


def test_a_finished_reply_shows_its_mean_and_the_next_starts_anew() -> None:
    stats = Stats()
    stats.start_reply()
    stats.add([make_round(total_s=0.1)])
    stats.finish_reply(make_finished(tokens=40, decode_s=2.0, plain_s=0.1))
    assert stats.rate == pytest.approx(20.0)
    assert stats.ratio == pytest.approx(2.0)
    stats.start_reply()
    assert stats.rate is None
    assert stats.plain_s == 0.1  # still the best that is known
    stats.add([make_round(total_s=0.1)])
    assert stats.samples[-1].first


def test_chart_samples_are_thinned_and_dropped() -> None:
    stats = Stats()
    stats.mark("Prompt lookup off")
    stats.add([make_round(total_s=0.01) for _ in range(10_000)])
    assert stats.clock == pytest.approx(100.0)
    assert len(stats.samples) <= SPAN_S / 0.1 + 2
    assert stats.samples[0].at >= stats.clock - SPAN_S - 0.2
    assert not stats.marks


def test_forget_keeps_nothing_of_another_model() -> None:
    stats = Stats()
    stats.add([make_round(plain_s=0.1)])
    stats.forget()
    assert stats.plain_s is None
    assert not stats.samples


def test_zero_time_rounds_do_no_harm() -> None:
    stats = Stats()
    stats.add([make_round(total_s=0.0)])
    assert stats.rate is None


def test_texts() -> None:
    assert rate_text(None) == "–"
    assert rate_text(12.34) == "12.3 tok/s"
    assert rate_text(212.3) == "212 tok/s"
    assert bytes_text(1_300_000_000) == "1.3 GB"
    assert bytes_text(98_362_432) == "98.4 MB"
    assert bytes_text(12) == "12 bytes"
    assert seconds_text(0.0014) == "1.4 ms"
    assert seconds_text(0.32) == "320 ms"
    assert seconds_text(2.34) == "2.3 s"
    assert ratio_text(1.84) == "1.8× plain"
    assert ratio_text(1.04) == "1.04× plain"
