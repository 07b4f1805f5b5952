"""The command that makes the pictures, with an engine that needs no model."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from desktop.screenshot import main

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


def test_all_windows_in_both_schemes(qtbot: QtBot, tmp_path: Path) -> None:
    assert main([str(tmp_path), "--all", "--engine", "tests.desktop.race.engine:main", "--size", "1180x780"]) == 0
    names = {f"{window}-{scheme}.png" for window in ("window", "tokens", "race") for scheme in ("light", "dark")}
    assert {p.name for p in tmp_path.glob("*.png")} == names
    for name in names:
        image = QImage(str(tmp_path / name))
        corner = image.pixelColor(image.width() - 4, image.height() - 4).lightnessF()
        assert (corner < 0.5) == name.endswith("-dark.png"), name
