"""Every text colour reads, every drafter's mark is its own."""

from __future__ import annotations

from itertools import combinations

import pytest
from PySide6.QtGui import QColor, QPalette
from pytestqt.qtbot import QtBot

from desktop import theme

NAMES = ("lookup", "model", "suffix", "layer_skip", "medusa", "eagle3", "mtp", "dflash", "something_new")


def palette(dark: bool) -> QPalette:
    made = QPalette()
    made.setColor(QPalette.ColorRole.Base, QColor("#1e1e1e" if dark else "#ffffff"))
    made.setColor(QPalette.ColorRole.Text, QColor("#eaeaea" if dark else "#111111"))
    return made


@pytest.mark.parametrize("dark", [False, True])
def test_texts_read_on_their_grounds(qtbot: QtBot, dark: bool) -> None:
    colors = theme.colors(palette(dark))
    assert colors.dark is dark
    for ink in (colors.text, colors.muted, colors.danger, colors.ghost):
        for ground in (colors.base, colors.panel):
            assert theme.contrast(ink, ground) >= theme.READABLE
    assert theme.contrast(colors.text, colors.bubble) >= theme.READABLE
    assert theme.contrast(colors.accent, colors.base) >= theme.READABLE
    assert theme.contrast(colors.on_accent, colors.accent) >= theme.READABLE


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_drafter_marks_read(qtbot: QtBot, name: str, dark: bool) -> None:
    style, colors = theme.drafter_style(name, dark), theme.colors(palette(dark))
    assert theme.contrast(colors.text, style.tint) >= theme.READABLE
    assert theme.contrast(style.ink, colors.base) >= theme.READABLE
    assert theme.contrast(style.ink, colors.panel) >= theme.READABLE
    assert style.line_words


def test_drafter_marks_differ_in_more_than_colour() -> None:
    first = theme.drafter_style("lookup", False)
    second = theme.drafter_style("model", False)
    assert first.line != second.line
    marks = [(theme.drafter_style(n, True).ink.rgb(), theme.drafter_style(n, True).line) for n in NAMES[:-1]]
    assert all(a != b for a, b in combinations(marks, 2))


def test_titles() -> None:
    assert theme.drafter_title("lookup") == "Prompt lookup"
    assert theme.drafter_title("model") == "Draft model"
    assert theme.drafter_title("something_new") == "Something new"
    assert theme.drafter_title("") == "Drafter"


def test_order_puts_unknown_names_last() -> None:
    assert theme.drafter_order(("zeta", "model", "alpha", "lookup")) == ("lookup", "model", "alpha", "zeta")
