"""How full the model's context is, as a bar of what fills it and a few words. Knows counts; draws them."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from desktop.context import Filling, Tokens, rounded
from desktop.theme import Colors, colors_of, mix

BAR, THICK = 96, 6  # pixels
NEARLY = 0.9  # of the context, from where on the words say that little is left


def short(tokens: Tokens) -> str:
    """ "1,204" or "about 1,200"."""
    return f"{tokens.number:,}" if tokens.exact else f"about {rounded(tokens.number):,}"


class Meter(QWidget):
    """Hidden while no model is loaded."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._filling: Filling | None = None
        font = QFont(self.font())
        font.setPointSizeF(max(7.0, font.pointSizeF() * 0.82))
        self.setFont(font)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Context")
        policy = self.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # nothing moves when a model is loaded
        self.setSizePolicy(policy)
        self.hide()

    def set_filling(self, filling: Filling) -> None:
        """Show what fills the context."""
        if filling == self._filling:
            return
        self._filling = filling
        self.setVisible(filling.length > 0)
        self.setToolTip(self.explanation())
        self.setAccessibleDescription(f"{self.words()}. {self.explanation()}")
        self.update()

    def words(self) -> str:
        """What stands beside the bar."""
        if self._filling is None or not self._filling.length:
            return ""
        used, length = self._filling.used, self._filling.length
        words = f"{short(used)} of {length:,} tokens"
        if self._filling.full:
            words += ": the context is full"
        elif used.number > NEARLY * length:
            words += f": {rounded(length - used.number):,} left"
        if self._filling.left_out:
            gone = self._filling.left_out
            words = f"{gone} oldest message{'s' if gone > 1 else ''} left out · {words}"
        return words

    def explanation(self) -> str:
        """What fills it, a line each."""
        if self._filling is None:
            return ""
        lines = ["What the model reads:"]
        for name, tokens in self._parts():
            if tokens.number:
                lines.append(f"{name}: {short(tokens)}")
        if self._filling.left_out:
            lines.append("The oldest messages stay in the chat; the model does not read them any more.")
        if not self._filling.used.exact:
            lines.append("“About” is an estimate until the engine has counted.")
        return "\n".join(lines) if len(lines) > 1 else "The context is empty."

    def _parts(self) -> list[tuple[str, Tokens]]:
        f = self._filling
        if f is None:
            return []
        return [
            ("System prompt and template", f.system),
            ("Earlier messages", f.history),
            ("Files", f.attachments),
            ("This message", f.draft),
        ]

    def sizeHint(self) -> QSize:
        return QSize(BAR + 160, QFontMetrics(self.font()).height() + 2)

    def _inks(self, colors: Colors) -> list[QColor]:
        return [colors.muted, colors.accent, mix(colors.accent, colors.base, 0.45), colors.text]

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._filling is None or not self._filling.length:
            return
        colors = colors_of(self)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        full = self._filling.full
        painter.setFont(self.font())
        painter.setPen(colors.danger if full else colors.muted)
        room = self.width() - BAR - 8
        words = QFontMetrics(self.font()).elidedText(self.words(), Qt.TextElideMode.ElideLeft, room)
        align = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(QRectF(0, 0, room, self.height()), align, words)
        bar = QRectF(self.width() - BAR, (self.height() - THICK) / 2, BAR, THICK)
        shape = QPainterPath()
        shape.addRoundedRect(bar, THICK / 2, THICK / 2)
        painter.setClipPath(shape)
        painter.fillRect(bar, colors.border)
        if full:
            painter.fillRect(bar, colors.danger)
            return
        at = bar.left()
        for (_, tokens), ink in zip(self._parts(), self._inks(colors), strict=True):
            wide = BAR * tokens.number / self._filling.length
            painter.fillRect(QRectF(at, bar.top(), wide, THICK), ink)
            at += wide
