"""Files as chips: name, size, tokens; opened to be looked at, removed where that is possible.

Knows attachments and token counts; does not know messages, chats or how a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFont, QFontDatabase, QFontMetrics, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QDialog,
    QDialogButtonBox,
    QPlainTextEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from desktop.attachments import Attachment, fenced
from desktop.color_scheme import inherit_scheme
from desktop.context import Tokens
from desktop.theme import colors_of, mix

HEIGHT, BADGE, PAD, GAP = 44, 28, 8, 6  # pixels
WIDEST = 280
LOOKED_AT = 200_000  # characters of a file that are laid out when it is opened
LINE = 2_000  # a longer line is broken there: it is laid out as a whole


def size_words(size: int) -> str:
    """ "512 bytes", "12 KB" or "3.4 MB"."""
    if size < 1000:
        return f"{size} byte{'' if size == 1 else 's'}"
    if size < 1_000_000:
        return f"{size / 1000:.0f} KB"
    return f"{size / 1e6:.1f} MB"


class Chip(QAbstractButton):
    """One file. Clicked, it is shown; Delete or its button removes it."""

    removed = Signal(object)

    def __init__(self, attachment: Attachment, removable: bool, parent: QWidget) -> None:
        super().__init__(parent)
        self.attachment = attachment
        self._words = size_words(attachment.size)
        self._small = QFont(self.font())
        self._small.setPointSizeF(max(7.0, self._small.pointSizeF() * 0.85))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.clicked.connect(lambda: show_text(attachment, self))
        self._cross: QToolButton | None = None
        if removable:
            self._cross = QToolButton(self)
            self._cross.setText("✕")
            self._cross.setAutoRaise(True)
            self._cross.setCursor(Qt.CursorShape.ArrowCursor)
            self._cross.setToolTip("Remove")
            self._cross.setAccessibleName(f"Remove {attachment.name}")
            self._cross.setFixedSize(22, 22)
            self._cross.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # Delete does the same
            self._cross.clicked.connect(lambda: self.removed.emit(self))
        self.set_tokens(None)

    @property
    def removable(self) -> bool:
        return self._cross is not None

    def set_tokens(self, tokens: Tokens | None) -> None:
        """Say how many tokens the file takes, None while nothing is known."""
        self._words = size_words(self.attachment.size) + (f", {tokens.words()}" if tokens else "")
        if self.attachment.whole:
            self._words += ", cut"
        name = self.attachment.name
        cut = f"\nThe first {len(self.attachment.text):,} of {self.attachment.whole:,} characters."
        self.setToolTip(f"{name}\n{self._words}{cut if self.attachment.whole else ''}")
        self.setAccessibleName(f"{name}, {self._words}")
        self.resize(self.sizeHint())
        self.update()

    def words(self) -> str:
        """What stands under the name."""
        return self._words

    def sizeHint(self) -> QSize:
        wide = max(self.fontMetrics().horizontalAdvance(self.attachment.name), self._small_wide())
        return QSize(min(WIDEST, wide + BADGE + 3 * PAD + (22 if self.removable else 4)), HEIGHT)

    def _small_wide(self) -> int:
        return QFontMetrics(self._small).horizontalAdvance(self._words)

    def resizeEvent(self, event: object) -> None:
        if self._cross is not None:
            self._cross.move(self.width() - 25, 3)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.removable and event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.removed.emit(self)
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = colors_of(self)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        focused = self.hasFocus()
        painter.setPen(QPen(colors.accent if focused else colors.border, 1.5 if focused else 1.0))
        painter.setBrush(colors.panel if not self.isDown() else mix(colors.panel, colors.text, 0.08))
        painter.drawRoundedRect(box, 9, 9)
        badge = QRectF(PAD, (HEIGHT - BADGE) / 2, BADGE, BADGE)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.accent)
        painter.drawRoundedRect(badge, 6, 6)
        tiny = QFont(self._small)
        tiny.setBold(True)
        tiny.setPixelSize(9)
        painter.setFont(tiny)
        painter.setPen(colors.on_accent)
        ending = self.attachment.name.rpartition(".")[2].upper() if "." in self.attachment.name else ""
        painter.drawText(badge, Qt.AlignmentFlag.AlignCenter, ending if 0 < len(ending) <= 4 else "TXT")
        left = PAD + BADGE + PAD
        room = self.width() - left - PAD - (18 if self.removable else 0)
        painter.setFont(self.font())
        painter.setPen(colors.text)
        name = self.fontMetrics().elidedText(self.attachment.name, Qt.TextElideMode.ElideMiddle, room)
        painter.drawText(QRectF(left, 4, room, HEIGHT / 2 - 3), Qt.AlignmentFlag.AlignVCenter, name)
        painter.setFont(self._small)
        painter.setPen(colors.muted)
        words = QFontMetrics(self._small).elidedText(self._words, Qt.TextElideMode.ElideRight, room + 18)
        painter.drawText(QRectF(left, HEIGHT / 2, room + 18, HEIGHT / 2 - 4), Qt.AlignmentFlag.AlignVCenter, words)


class ChipRow(QWidget):
    """Chips beside each other, in as many lines as they need. Hidden while there are none."""

    changed = Signal()

    def __init__(self, parent: QWidget, removable: bool = False) -> None:
        super().__init__(parent)
        self._removable = removable
        self._chips: list[Chip] = []
        self.count: Callable[[str], Tokens] | None = None
        self.setAccessibleName("Attached files")
        self.hide()

    @property
    def chips(self) -> list[Chip]:
        return list(self._chips)

    @property
    def attachments(self) -> list[Attachment]:
        return [chip.attachment for chip in self._chips]

    def set_attachments(self, attachments: Sequence[Attachment]) -> None:
        """Show these and no others."""
        for chip in self._chips:
            chip.hide()
            chip.deleteLater()
        self._chips = []
        for attachment in attachments:
            self._make(attachment)
        self._fit()
        self.changed.emit()

    def add(self, attachment: Attachment) -> None:
        """Show one more."""
        self._make(attachment)
        self._fit()
        self.changed.emit()

    def _make(self, attachment: Attachment) -> None:
        chip = Chip(attachment, self._removable, self)
        chip.removed.connect(self._remove)
        chip.show()
        self._chips.append(chip)
        if self.count is not None:
            chip.set_tokens(self.count(fenced(attachment)))

    def recount(self) -> None:
        """The counts may be known better now."""
        if self.count is not None and self._chips:
            for chip in self._chips:
                chip.set_tokens(self.count(fenced(chip.attachment)))
            self._fit()

    def _remove(self, chip: Chip) -> None:
        if chip not in self._chips:
            return
        at = self._chips.index(chip)
        self._chips.remove(chip)
        if chip.hasFocus():
            if self._chips:
                self._chips[min(at, len(self._chips) - 1)].setFocus()
            else:
                self.focusNextChild()
        chip.hide()
        chip.deleteLater()
        self._fit()
        self.changed.emit()

    def arrange(self, width: int) -> tuple[int, int]:
        """Put the chips into lines of this width; the width and height that they take."""
        x = y = used = 0
        for chip in self._chips:
            wide = min(chip.sizeHint().width(), max(80, width))
            if x and x + wide > width:
                x, y = 0, y + HEIGHT + GAP
            chip.setGeometry(x, y, wide, HEIGHT)
            x += wide + GAP
            used = max(used, x - GAP)
        return used, (y + HEIGHT if self._chips else 0)

    def _fit(self) -> None:
        self.setVisible(bool(self._chips))
        height = self.arrange(self.width())[1]
        if height != self.minimumHeight() or height != self.maximumHeight():
            self.setFixedHeight(height)

    def resizeEvent(self, event: object) -> None:
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.PaletteChange):
            self.update()


def show_text(attachment: Attachment, near: QWidget) -> QDialog:
    """A window with the text of a file, as the model reads it."""
    dialog = QDialog(near.window())
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(attachment.name)
    inherit_scheme(dialog)
    view = QPlainTextEdit(dialog)
    view.setReadOnly(True)
    view.setAccessibleName(f"Text of {attachment.name}")
    view.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
    lines = []
    for line in attachment.text[:LOOKED_AT].split("\n"):
        lines += [line[at : at + LINE] for at in range(0, max(1, len(line)), LINE)]
    left = len(attachment.text) - LOOKED_AT
    if left > 0:
        lines += ["", f"{left:,} more characters are attached, and not shown here."]
    if attachment.whole:
        lines += ["", f"The file has {attachment.whole:,} characters; the rest of it is not attached."]
    view.setPlainText("\n".join(lines))
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, dialog)
    buttons.rejected.connect(dialog.reject)
    layout = QVBoxLayout(dialog)
    layout.addWidget(view)
    layout.addWidget(buttons)
    dialog.resize(720, 560)
    dialog.open()
    return dialog
