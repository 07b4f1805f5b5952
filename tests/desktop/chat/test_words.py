"""What the transcript says in words."""

from __future__ import annotations

from desktop.chat.words import progress_line, rejected_of, state_line, stats_line
from mlx_spec.events import DrafterStats, Finished, PromptProgress
from tests.desktop.chat.helpers import a_round


def test_stats_line() -> None:
    full = Finished(1, "length", (), 42, 9, 0, 20, 0.5, 0.6, 1.35, 1, 0.058, {"m": DrafterStats(1, 50, 25)})
    assert stats_line(full) == ("42 tokens, 31 tok/s, 1.8× plain, 50 % of drafts held, ended at the token limit")
    bare = Finished(1, "stop", (), 1, 9, 0, 1, 0.5, 0.6, 0.5, 1, None)
    assert stats_line(bare) == "1 token, 2.0 tok/s"
    assert stats_line(None) == ""


def test_state_and_progress() -> None:
    assert state_line("done", "") == ""
    assert state_line("stopped", "") == "Stopped."
    assert progress_line(PromptProgress(1, 5, 10, 0)) == "Reading the prompt: 5 / 10"


def test_rejected_drafts_are_placed_after_what_held() -> None:
    rounds = [a_round(["ab", "c"], ["X", "Y"], "d"), a_round([], ["Z"], "e"), a_round(["f"], [], "g")]
    assert rejected_of(rounds) == [(3, "XY", "model"), (4, "Z", "model")]
    assert rejected_of(rounds, 10)[0] == (13, "XY", "model")
