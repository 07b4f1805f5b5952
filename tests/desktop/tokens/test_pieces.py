"""A round taken apart, a reply's own clock, and what is said of a token."""

from __future__ import annotations

from dataclasses import replace

import pytest

from desktop.tokens.pieces import Fate, describe_token, place_of, seen, share, tokens_of
from desktop.tokens.timeline import Moment, Timeline
from tests.desktop.tokens.samples import TEXT, reply
from tests.desktop.window_engine import a_round

FULL = replace(a_round(1, 0), own_text=" four", hopes=(0.9, 0.8, 0.1), chances=(0.5, 0.25, 1.0))


def test_tokens_in_the_order_of_the_text() -> None:
    found = tokens_of(FULL)
    assert [(t.text, t.fate) for t in found] == [
        (" one", Fate.HELD),
        (" two", Fate.HELD),
        (" three", Fate.REJECTED),
        (" four", Fate.OWN),
    ]
    assert [t.hope for t in found] == [0.9, 0.8, 0.1, None]
    assert [t.chance for t in found] == [0.5, 0.25, None, 1.0]
    assert [t.drafter for t in found] == ["lookup", "lookup", "lookup", None]


def test_what_stands_behind_a_rejected_token_fell_with_it() -> None:
    assert [t.fate for t in tokens_of(replace(FULL, accepted=1, tokens=(1, 4)))] == [
        Fate.HELD,
        Fate.REJECTED,
        Fate.FELL,
        Fate.OWN,
    ]


def test_an_end_inside_the_draft_rejects_nothing() -> None:
    ended = replace(FULL, tokens=(1, 2), own_text="")
    assert [t.fate for t in tokens_of(ended)] == [Fate.HELD, Fate.HELD, Fate.UNREAD]


def test_a_round_of_an_older_version_shows_its_own_token_by_the_text() -> None:
    old = replace(FULL, own_text="", hopes=(), chances=())
    assert tokens_of(old)[-1].text == " four"
    assert all(t.hope is None and t.chance is None for t in tokens_of(old))


def test_every_character_leads_to_its_token() -> None:
    made = reply()
    shown = "".join(s.text for r in made for s in r.spans)
    assert shown == TEXT
    at = 0
    for r in made:
        for token in tokens_of(r):
            if token.fate in (Fate.HELD, Fate.OWN):
                assert place_of(made, at) == (r, token)
                assert place_of(made, at + len(token.text) - 1) == (r, token)
                at += len(token.text)
    assert at == len(TEXT)
    assert place_of(made, at) is None
    assert place_of(made, -1) is None
    assert place_of([], 0) is None


def test_a_token_is_described_with_all_that_is_known() -> None:
    tokens = tokens_of(FULL)
    assert describe_token(FULL, tokens[0]).splitlines() == [
        "“ one”  Prompt lookup proposed it, and it held",
        "Probability: 90 % by the drafter, 50 % by the model",
        "Pass 1: Prompt lookup drafted 3, 2 held; 50 ms: draft 1.0 ms, check 40 ms, rest 9.0 ms",
    ]
    assert "Rejected here: “ three”" in describe_token(FULL, tokens[3])
    assert "rejected" in describe_token(FULL, tokens[2])
    assert "Probability" not in describe_token(a_round(1, 0), tokens_of(a_round(1, 0))[3])


def test_how_tokens_and_chances_are_written() -> None:
    assert [seen(t) for t in ("\n", " \t", "  ", "", " a\n")] == ["↵", " ⇥", "␣␣", "·", " a↵"]
    assert len(seen("x" * 1000)) == 40
    assert [share(p) for p in (0.87, 0.004, 0.00001, 1.0, 0.9991)] == [
        "87 %",
        "0.4 %",
        "under 0.01 %",
        "100 %",
        "99.91 %",
    ]


# ---------------------------------------------------------------------------------------------- its clock


def test_the_clock_of_a_reply() -> None:
    plain = replace(FULL, drafter=None, drafted=(), drafted_text=(), accepted=0, tokens=(9,), draft_s=0.0, total_s=0.1)
    line = Timeline([FULL, plain])  # 50 ms with 1 ms of drafting, then 100 ms
    assert line.total == pytest.approx(0.15)
    assert line.at(0.0) == Moment(0)
    assert line.at(0.002) == Moment(0, waiting=True)
    assert line.at(0.06) == Moment(1)
    assert line.at(9.0) == Moment(2)
    assert [line.count(n) for n in (0, 1, 2)] == [0, 3, 4]
    assert line.next(0.0) == pytest.approx(0.05)
    assert line.next(0.05) == pytest.approx(0.15)
    assert line.next(7.0) == line.total
    assert line.previous(0.15) == pytest.approx(0.05)
    assert line.previous(0.03) == 0.0
    line.stretch(0.3)
    assert line.total == pytest.approx(0.3)
    assert line.end_of(1) == pytest.approx(0.1)


@pytest.mark.parametrize("seconds", [k / 7 + 0.1 for k in range(40)])
def test_the_last_second_shows_the_end(seconds: float) -> None:
    line = Timeline(reply())
    line.stretch(seconds)
    assert line.total == seconds
    assert line.at(seconds) == Moment(len(line.rounds))


def test_steps_visit_every_round_both_ways() -> None:
    line = Timeline(reply())
    at, forth = 0.0, []
    while at < line.total:
        at = line.next(at)
        forth.append(line.at(at).rounds)
    assert forth == list(range(1, len(line.rounds) + 1))
    back = []
    while at > 0:
        at = line.previous(at)
        back.append(line.at(at).rounds)
    assert back == [*forth[-2::-1], 0]


def test_nothing_yet() -> None:
    line = Timeline()
    assert (line.total, line.at(1.0), line.next(0.0), line.previous(1.0), line.count(3)) == (
        0.0,
        Moment(0),
        0.0,
        0.0,
        0,
    )
