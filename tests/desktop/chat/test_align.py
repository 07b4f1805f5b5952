"""Source places found again in rendered text."""

from __future__ import annotations

import pytest

from desktop.chat.align import align, positions, utf16_length


@pytest.mark.parametrize(
    ("source", "text", "word"),
    [
        ("a **bold** word", "a bold word", "bold"),
        ("see [here](http://x.org/tail) tail end", "see here tail end", "end"),
        ("1. one\n2. two", "one\u2029two", "two"),
        ("- `code` x", "code x", "code"),
        ("😀 **b** 😀 c", "😀 b 😀 c", "c"),
        ("a &amp; b", "a & b", "b"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "\ufdd0a\ufdd0b\ufdd01\ufdd02\ufdd1", "2"),
        ("x * y * z", "x * y * z", "z"),
    ],
)
def test_a_word_is_found_again(source: str, text: str, word: str) -> None:
    places = align(source, text)
    assert len(places) == len(source) + 1
    assert places == sorted(places)
    at = source.rindex(word)
    first, last = places[at], places[at + len(word)]
    units = text.encode("utf-16-le")
    assert units[first * 2 : last * 2].decode("utf-16-le").strip("\ufdd0\ufdd1\u2029") == word


def test_empty_and_same() -> None:
    assert align("***", "") == [0, 0, 0, 0]
    assert align("abc", "abc") == [0, 1, 2, 3]


def test_positions_count_as_qt_does() -> None:
    assert positions("a😀b", 5) == [5, 6, 8, 9]
    assert utf16_length("a😀b") == 4
