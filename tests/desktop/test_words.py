"""What a typed search means, and where it stands in a text."""

from __future__ import annotations

import pytest

from desktop.words import Term, fold, places, snippet, terms, title_of


def found(text: str, query: str) -> list[str]:
    return [text[a:b] for a, b in places(text, terms(query))]


def test_terms() -> None:
    assert terms("Red boa") == [Term(("red",), False, "Red"), Term(("boa",), True, "boa")]
    assert terms("red boats ")[-1].prefix is False
    assert terms('a "big red" boat')[1].words == ("big", "red")
    assert terms('"big re')[0] == Term(("big", "re"), True, "big re")
    assert terms('"big red"')[0].prefix is False
    assert terms("don't")[0].words == ("don", "t")
    assert terms("x")[0].prefix is False  # one letter begins too many words
    assert terms(' + "" -- * ( ') == []


@pytest.mark.parametrize(
    ("text", "query", "words"),
    [
        ("The Café in Köln", "cafe koln", ["Café", "Köln"]),
        ("Cafe\u0301 noir", "café", ["Cafe\u0301"]),
        ("red boat, big red boats", '"red boa', ["red boat", "red boats"]),
        ("a category of cats", "cat ", []),
        ("a category of cats", "cat", ["category", "cats"]),
        ("今天天气很好", "天气", ["天气"]),
        ("Straße", "strasse", ["Straße"]),
        ("snake_case", "case", ["case"]),
    ],
)
def test_places(text: str, query: str, words: list[str]) -> None:
    assert found(text, query) == words


def test_places_do_not_overlap_and_are_few() -> None:
    assert places("aa aa", terms('"aa aa" aa')) == [(0, 5)]
    assert len(places("ab " * 1000, terms("ab"))) == 500


def test_snippet() -> None:
    text = "word " * 100 + "\nthe\nharbour   is " + "here " * 100
    piece, marks = snippet(text, terms("harbour"))
    assert piece.startswith("…")
    assert piece.endswith("…")
    assert "the harbour is" in piece
    assert [piece[a:b] for a, b in marks] == ["harbour"]
    assert len(piece) <= 162
    assert snippet("short", terms("none")) == ("short", [])


def test_fold() -> None:
    assert fold("ÉCOLE") == "ecole"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n  ## Plan a  trip\nto Rome", "Plan a trip"),
        ("```python\nx = 1\n```", "x = 1"),
        ("> - What is 2**3?", "What is 2**3?"),
        ("???", "???"),
        ("", ""),
        ("word " * 30, "word " * 11 + "word…"),
        ("a" * 100, "a" * 59 + "…"),
        ("e\u0301" * 50, "e\u0301" * 29 + "…"),
        ("旅" * 80, "旅" * 59 + "…"),
    ],
)
def test_title_of(text: str, title: str) -> None:
    assert title_of(text) == title
    assert len(title_of(text)) <= 60
