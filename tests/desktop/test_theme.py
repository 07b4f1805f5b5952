"""Every text colour reads, every drafter's mark is its own."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from PySide6.QtGui import QColor, QPalette
from pytestqt.qtbot import QtBot

from desktop import theme
from desktop.settings import DRAFTERS

NAMES = (*DRAFTERS.default, "something_new")
# How red, green and blue look to eyes without one kind of cone (Machado, Oliveira and Fernandes 2009), in linear light.
BLIND = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
APART = 12.0  # in CIELAB; 2 is just seen


def lab(color: QColor, eyes: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    """A colour in CIELAB as such eyes see it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color.getRgbF()[:3]]
    red, green, blue = (min(1.0, max(0.0, sum(a * b for a, b in zip(row, linear, strict=True)))) for row in eyes)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


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
def test_more_contrast_is_given_where_it_is_asked_for(
    qtbot: QtBot, dark: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = theme.colors(palette(dark))
    monkeypatch.setattr(theme, "more_contrast", lambda: True)
    colors = theme.colors(palette(dark))
    for ink in (colors.text, colors.muted, colors.danger, colors.ghost):
        assert theme.contrast(ink, colors.panel) >= theme.MORE_READABLE
    assert theme.contrast(colors.accent, colors.base) >= theme.MORE_READABLE
    assert theme.contrast(colors.border, colors.base) >= 3 > theme.contrast(usual.border, usual.base)


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
    marks = [(theme.drafter_style(n, True).line, theme.drafter_style(n, True).cut) for n in NAMES[:-1]]
    assert len(set(marks)) == len(DRAFTERS.default)
    assert len({theme.drafter_style(n, True).ink.rgb() for n in NAMES[:-1]}) == len(DRAFTERS.default)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("eyes", BLIND)
def test_drafters_with_the_same_line_look_different_to_colour_blind_eyes(eyes: str, dark: bool) -> None:
    for one, other in combinations(DRAFTERS.default, 2):
        first, second = theme.drafter_style(one, dark), theme.drafter_style(other, dark)
        if first.line == second.line:
            assert math.dist(lab(first.ink, BLIND[eyes]), lab(second.ink, BLIND[eyes])) > APART, (one, other)


def test_titles() -> None:
    assert theme.drafter_title("lookup") == "Prompt lookup"
    assert theme.drafter_title("model") == "Draft model"
    assert theme.drafter_title("something_new") == "Something new"
    assert theme.drafter_title("") == "Drafter"


def test_order_puts_unknown_names_last() -> None:
    assert theme.drafter_order(("zeta", "model", "alpha", "lookup")) == ("lookup", "model", "alpha", "zeta")
