from __future__ import annotations

import pytest
from PySide6.QtCore import QRect
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from desktop.screens import bring_back, brought_back

LAPTOP = QRect(0, 25, 1440, 875)
BESIDE = QRect(1440, 0, 2560, 1440)


@pytest.mark.parametrize(
    ("window", "screens", "stands"),
    [
        (QRect(100, 100, 1180, 780), [LAPTOP], QRect(100, 100, 1180, 780)),
        (QRect(1000, 100, 1180, 780), [LAPTOP], QRect(1000, 100, 1180, 780)),  # half outside, and to be dragged
        (QRect(2000, 300, 1180, 780), [LAPTOP, BESIDE], QRect(2000, 300, 1180, 780)),
        (QRect(2000, 300, 1180, 780), [LAPTOP], QRect(130, 72, 1180, 780)),  # the screen beside is gone
        (QRect(2000, 300, 2400, 1300), [LAPTOP], QRect(0, 25, 1440, 875)),  # and it was larger
        (QRect(-1100, 100, 1180, 780), [LAPTOP], QRect(0, 100, 1180, 780)),  # hardly anything of it is seen
        (QRect(100, -300, 1180, 780), [LAPTOP], QRect(100, 25, 1180, 780)),  # its title bar is above
        (QRect(5000, 5000, 800, 600), [], QRect(5000, 5000, 800, 600)),
    ],
)
def test_where_a_window_stands(window: QRect, screens: list[QRect], stands: QRect) -> None:
    assert brought_back(window, screens) == stands
    assert brought_back(stands, screens) == stands


def test_a_real_window_comes_back(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(400, 300)
    window.move(9000, 9000)
    window.show()
    bring_back(window)
    assert window.screen().availableGeometry().contains(window.geometry())
    assert (window.width(), window.height()) == (400, 300)
