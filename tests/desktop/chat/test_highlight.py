"""Comments, strings, numbers and words of code are told apart, line by line, over open ends too."""

from __future__ import annotations

import time

import pytest
from PySide6.QtGui import QColor, QPalette

from desktop.chat.highlight import (
    _ALIASES,
    _INKS,
    _LANGUAGES,
    COMMENT,
    CONSTANT,
    KEYWORD,
    NAME,
    NUMBER,
    STRING,
    ink_of,
    language_of,
    scan,
)
from desktop.theme import colors, contrast


def pieces(code: str, name: str) -> list[tuple[str, int]]:
    language = language_of(name)
    assert language is not None
    state, found = 0, []
    for line in code.split("\n"):
        spans, state = scan(line, state, language)
        found += [(line[start : start + length], kind) for start, length, kind in spans]
    return found


def test_python() -> None:
    code = 'def ride(road):  # go\n    """Long\n    words"""\n    return None if road == 0x1F else "a#b" + \'c\''
    assert pieces(code, "python") == [
        ("def", KEYWORD), ("ride", NAME), ("# go", COMMENT), ('"""Long', STRING), ('    words"""', STRING),
        ("return", KEYWORD), ("None", CONSTANT), ("if", KEYWORD), ("0x1F", NUMBER), ("else", KEYWORD),
        ('"a#b"', STRING), ("'c'", STRING),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "code", "some"),
    [
        ("c++", "/* a\nb */ int x = 3; // c", [("/* a", COMMENT), ("b */", COMMENT), ("// c", COMMENT)]),
        ("js", "const f = `a\n${b}` + null", [("`a", STRING), ("${b}`", STRING), ("null", CONSTANT)]),
        ("sql", "SELECT a FROM t -- x", [("SELECT", KEYWORD), ("FROM", KEYWORD), ("-- x", COMMENT)]),
        ("json", '{\n  "a": [1, true]\n}', [('"a"', NAME), ("1", NUMBER), ("true", CONSTANT)]),
        ("yaml", "key: yes # c", [("key", NAME), ("yes", CONSTANT), ("# c", COMMENT)]),
        ("html", '<a href="x">y</a><!-- z\n-->', [("<a", KEYWORD), ("href", NAME), ('"x"', STRING), ("-->", COMMENT)]),
        ("bash", 'if [ "$x" ]; then # y', [("if", KEYWORD), ('"$x"', STRING), ("then", KEYWORD), ("# y", COMMENT)]),
        ("rust", "fn main<'a>() {}", [("fn", KEYWORD), ("main", NAME)]),
    ],
)  # fmt: skip
def test_others(name: str, code: str, some: list[tuple[str, int]]) -> None:
    found = pieces(code, name)
    assert [piece for piece in some if piece not in found] == []


def test_unknown_languages_are_left_alone() -> None:
    assert language_of("") is None
    assert language_of("klingon") is None
    assert language_of(" Python ") is not None
    assert set(_ALIASES.values()) <= set(_LANGUAGES)


@pytest.mark.parametrize("line", ["\\" * 5000, '"' + "\\" * 5000, "'" * 5001, "/*" * 3000, "a" * 1_000_000, "1" * 5000])
def test_hostile_lines_take_no_time(line: str) -> None:
    for language in _LANGUAGES.values():
        started = time.perf_counter()
        for state in range(len(language.spans) + 1):
            scan(line, state, language)
        assert time.perf_counter() - started < 0.3


def test_every_colour_reads_on_its_ground() -> None:
    for base, text in (("#ffffff", "#1a1a1a"), ("#1e1e1e", "#e8e8e8")):
        palette = QPalette()
        palette.setColor(QPalette.ColorRole.Base, QColor(base))
        palette.setColor(QPalette.ColorRole.Text, QColor(text))
        scheme = colors(palette)
        for kind in range(len(_INKS)):
            assert contrast(ink_of(kind, scheme), scheme.panel) >= 4.5
