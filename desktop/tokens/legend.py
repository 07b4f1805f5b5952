"""What the looks of tokens mean: a sample of each beside its words, for the drafters of one reply."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from desktop.theme import Colors, colors_of, drafter_order, drafter_style
from desktop.tokens.chips import PAD, paint_chip
from desktop.tokens.pieces import Fate, Token

GAP, ROW_GAP = 14.0, 4.0
TIMES = "■ draft  ▒ check  ▨ rest"  # of the bars, as in the sidebar


def drafters_of(names: Sequence[str]) -> list[tuple[Token, bool]]:
    """A sample of each drafter and one of the model's own; none of them is being checked."""
    samples = [Token(drafter_style(n, False).title, Fate.HELD, n) for n in names]
    return [(token, False) for token in (*samples, Token("the model's own", Fate.OWN))]


def places(samples: Sequence[tuple[Token, bool]], metrics: QFontMetricsF, width: float) -> list[QRectF]:
    """Where the samples stand, in as many lines as they need."""
    height = metrics.height() + 6
    x, y, found = 0.0, 0.0, []
    for token, _ in samples:
        wide = metrics.horizontalAdvance(token.text) + 2 * PAD
        if x and x + wide > width:
            x, y = 0.0, y + height + ROW_GAP
        found.append(QRectF(x, y, wide, height))
        x += wide + GAP
    return found


def paint_legend(
    painter: QPainter | None, names: Sequence[str], colors: Colors, font: QFont, at: QPointF, width: float
) -> float:
    """Paint the drafters' samples from `at` on, or only measure without a painter; the height."""
    samples, metrics = drafters_of(names), QFontMetricsF(font)
    rects = places(samples, metrics, width)
    if painter is not None:
        painter.setFont(font)
        for rect, (token, waiting) in zip(rects, samples, strict=True):
            paint_chip(painter, rect.translated(at), token, colors, metrics, waiting)
    return rects[-1].bottom()


class Legend(QWidget):
    """Samples in a line, in more lines where there is no room."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._samples: list[tuple[Token, bool]] = []
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.set_drafters(())

    def set_drafters(self, names: Sequence[str]) -> None:
        """Show these drafters, in the order in which they are shown everywhere."""
        ordered = drafter_order(tuple(names))
        samples = drafters_of(ordered)
        if ordered:
            samples.append((Token("rejected", Fate.REJECTED, ordered[0]), False))
            samples.append((Token("fell with it", Fate.FELL, ordered[0]), False))
            samples.append((Token("being checked", Fate.HELD, ordered[0]), True))
        samples.append((Token(TIMES, Fate.UNREAD), False))
        if samples != self._samples:
            self._samples = samples
            lines = [f"{s.title}: {s.line_words}" for s in (drafter_style(n, False) for n in ordered)]
            self.setAccessibleName("Legend: " + ", ".join(t.text for t, _ in samples))
            self.setToolTip("\n".join(lines))
            self._fit()
            self.update()

    def _metrics(self) -> QFontMetricsF:
        return QFontMetricsF(self._type())

    def _type(self) -> QFont:
        font = QFont(self.font())
        font.setPointSizeF(max(7.0, font.pointSizeF() * 0.9))
        return font

    def _places(self) -> list[QRectF]:
        return places(self._samples, self._metrics(), self.width())

    def _fit(self) -> None:
        self.setFixedHeight(round(self._places()[-1].bottom()))

    def sizeHint(self) -> QSize:
        return QSize(400, self.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        if event.type() == QEvent.Type.FontChange:
            self._fit()
        elif event.type() == QEvent.Type.PaletteChange:
            self.update()
        super().changeEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setFont(self._type())
        metrics, colors = self._metrics(), colors_of(self)
        for rect, (token, waiting) in zip(self._places(), self._samples, strict=True):
            paint_chip(painter, rect, token, colors, metrics, waiting)
        painter.end()
