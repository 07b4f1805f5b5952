"""The table of the drafters: sign, name, acceptance, held of drafted, tokens a pass; the legend of the colours.

Rows come from the drafters that the model can run, however many they are. Knows figures, not rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from desktop.sidebar.signs import paint_accepted
from desktop.sidebar.stats import DrafterFigures
from desktop.theme import drafter_title, is_dark

HEADS = ("", "Drafter", "Accepted", "Held", "Per pass")
TIPS = (
    "",
    "Who proposed the tokens, with the colour and sign that mark them in the text",
    "Share of the drafted tokens that held",
    "Tokens that held, of those drafted, in this reply",
    "Tokens that one pass of the model gave, its own token included; plain decoding gives 1",
)


class Sign(QWidget):
    """A drafter's cell as it looks in the rounds."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self.setFixedSize(14, 14)

    def sizeHint(self) -> QSize:
        return QSize(14, 14)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        paint_accepted(painter, QRectF(1, 1, 12, 12), self._name, is_dark(self.palette()))
        painter.end()


class DrafterTable(QWidget):
    """One row a drafter and one for all; grey where a drafter is switched off."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(7)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(1, 1)
        self._rows: dict[str, tuple[QLabel, QLabel, QLabel, QLabel]] = {}
        self._names: tuple[str, ...] = ()
        self._on: frozenset[str] = frozenset()
        self.set_drafters((), ())

    def set_drafters(self, names: Sequence[str], on: Sequence[str]) -> None:
        """Show rows for `names`; those not in `on` are shown as switched off."""
        self._on = frozenset(on)
        if tuple(names) != self._names or not self._rows:
            self._names = tuple(names)
            self._build()
        for name in self._names:
            enabled = name in self._on
            for label in self._rows[name]:
                label.setEnabled(enabled)
            self._rows[name][0].setText(drafter_title(name) + ("" if enabled else " (off)"))

    def _build(self) -> None:
        while (item := self._grid.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        self._rows = {}
        for column, (head, tip) in enumerate(zip(HEADS, TIPS, strict=True)):
            label = self._label(head, column, small=True)
            label.setToolTip(tip)
            self._grid.addWidget(label, 0, column)
        for row, name in enumerate((*self._names, ""), start=1):
            if name:
                self._grid.addWidget(Sign(name), row, 0, Qt.AlignmentFlag.AlignCenter)
            title = drafter_title(name) if name else "All passes"
            labels = (self._label(title, 1), self._label("–", 2), self._label("–", 3), self._label("–", 4))
            for column, label in enumerate(labels, start=1):
                self._grid.addWidget(label, row, column)
            self._rows[name] = labels

    def _label(self, text: str, column: int, small: bool = False) -> QLabel:
        label = QLabel(text)
        label.setTextFormat(Qt.TextFormat.PlainText)
        if column > 1:
            label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        shrink(label, 0.82 if small else 0.92)
        return label

    def set_figures(self, by_drafter: Mapping[str, DrafterFigures], overall: DrafterFigures) -> None:
        """Fill in the numbers; a drafter that is missing has proposed nothing yet."""
        for name, labels in self._rows.items():
            figures = overall if not name else by_drafter.get(name, DrafterFigures())
            acceptance, per_pass = figures.acceptance, figures.tokens_per_pass
            labels[1].setText("–" if acceptance is None else f"{acceptance * 100:.0f} %")
            labels[2].setText(f"{figures.accepted}/{figures.drafted}" if figures.drafted else "–")
            labels[3].setText("–" if per_pass is None else f"{per_pass:.2f}")

    def changeEvent(self, event: QEvent) -> None:
        if event.type() == QEvent.Type.PaletteChange:
            self.update()
        super().changeEvent(event)


def shrink(label: QLabel, factor: float = 0.85) -> None:
    """Make a label's type a little smaller than its surroundings."""
    font = label.font()
    font.setPointSizeF(max(7.0, font.pointSizeF() * factor))
    label.setFont(font)
