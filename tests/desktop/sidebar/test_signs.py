"""The cells of the drafters: no two look the same without their colours."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from pytestqt.qtbot import QtBot

from desktop.settings import DRAFTERS
from desktop.sidebar.signs import TOO_NARROW, paint_accepted
from desktop.theme import drafter_style

SIDE = 12


def cell(name: str, dark: bool, width: float = SIDE) -> QImage:
    image = QImage(SIDE, SIDE, QImage.Format.Format_RGB32)
    image.fill(QColor("#ff00ff"))
    painter = QPainter(image)
    paint_accepted(painter, QRectF(0, 0, width, SIDE), name, dark)
    painter.end()
    return image


def shape(name: str, dark: bool) -> tuple[bool, ...]:
    """Which pixels have the drafter's ink, whatever it is."""
    image, ink = cell(name, dark), drafter_style(name, dark).ink
    return tuple(image.pixelColor(x, y) == ink for y in range(SIDE) for x in range(SIDE))


@pytest.mark.parametrize("dark", [False, True])
def test_each_drafter_has_a_shape_of_its_own(qtbot: QtBot, dark: bool) -> None:
    assert len({shape(name, dark) for name in DRAFTERS.default}) == len(DRAFTERS.default)


def test_squares_of_heads_have_a_corner_cut_off(qtbot: QtBot) -> None:
    for name in DRAFTERS.default:
        style = drafter_style(name, False)
        corner = cell(name, False).pixelColor(SIDE - 1, 0)
        assert (corner == QColor("#ff00ff")) == style.cut == (name in ("mtp", "eagle3", "eagle", "dflash", "medusa"))
        assert cell(name, False).pixelColor(0, 0) == style.ink


def test_a_narrow_cell_is_plain(qtbot: QtBot) -> None:
    for name in ("lookup", "eagle3"):
        image = cell(name, True, TOO_NARROW - 1)
        assert image.pixelColor(0, 0) == image.pixelColor(3, 0) == drafter_style(name, True).ink
