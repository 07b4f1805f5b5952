"""Words and signs that the pages of the model browser share: verdicts, figures, labels."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QSizePolicy

from desktop.sidebar.drafter_table import shrink
from desktop.theme import colors_of

# A sign and a word each, so that no verdict hangs on a colour.
VERDICTS = {"fits": "✓ Fits", "tight": "◐ Tight", "too large": "✕ Too large", "unknown": "? Not known"}
CANNOT = "– Cannot be used"


def count_text(count: int) -> str:
    """A number of downloads, short: 1.2 M, 34 k, 512."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if count >= size:
            value = count / size
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return str(count)


def time_text(seconds: float) -> str:
    """How long something takes still, roughly."""
    if seconds < 60:
        return "less than a minute left"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"about {minutes} minute{'' if minutes == 1 else 's'} left"
    return f"about {minutes / 60:.0f} hours left"


def label(text: str = "", small: bool = False, bold: bool = False, select: bool = False) -> QLabel:
    """A label of plain text that wraps."""
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setWordWrap(True)
    made.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
    if select:
        made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if small:
        shrink(made, 0.9)
    if bold:
        font = made.font()
        font.setBold(True)
        made.setFont(font)
    return made


def say(where: QLabel, text: str, wrong: bool = False) -> None:
    """Put a sentence into a label, in the colour of trouble where it is one; an empty one hides it."""
    where.setText(text)
    where.setVisible(bool(text))
    parent = where.parentWidget()
    palette = parent.palette() if parent is not None else where.palette()
    if wrong:
        palette.setColor(palette.ColorRole.WindowText, colors_of(where).danger)
    where.setPalette(palette)
