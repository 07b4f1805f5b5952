"""Where a person writes: grows with the text, Enter sends, Shift-Enter makes a new line, Escape stops a reply.

Files come by drop, by paste or by the paper clip, and stand above the text as chips. Never sends while an input
method is composing, and never drops what was typed. Knows the room in the context; no chat and no engine.
"""

from __future__ import annotations

import math
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDropEvent,
    QFont,
    QKeyEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPalette,
    QPen,
    QResizeEvent,
    QTextOption,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from desktop.attachments import join, split
from desktop.chat.meter import Meter
from desktop.chat.tray import Tray, local_files
from desktop.room import Room
from desktop.theme import colors_of, mix

WIDEST = 780  # pixels, as the column of messages
LINES = 8  # to which the field grows before it scrolls
METER_MS = 150  # after the last key until the meter follows


class Field(QPlainTextEdit):
    """The text field itself."""

    entered = Signal()
    escaped = Signal()
    files_given = Signal(object)  # the mime data of a drop or a paste that is files

    def __init__(self, parent: QWidget, takes_files: bool = False, lines: int = LINES) -> None:
        super().__init__(parent)
        self._lines = lines
        self._takes_files = takes_files
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        option = QTextOption()
        option.setTextDirection(Qt.LayoutDirection.LayoutDirectionAuto)
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.document().setDefaultTextOption(option)
        self.document().setDocumentMargin(2)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    @property
    def composing(self) -> bool:
        """Whether an input method has text that is not settled."""
        return bool(self.textCursor().block().layout().preeditAreaText())

    def _fit(self) -> None:
        # A QPlainTextEdit's document measures its height in lines.
        lines = max(1, min(self._lines, math.ceil(self.document().size().height())))
        height = lines * self.fontMetrics().lineSpacing() + 8
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)
        many = self.document().size().height() > self._lines
        policy = Qt.ScrollBarPolicy.ScrollBarAsNeeded if many else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        if self.verticalScrollBarPolicy() != policy:
            self.setVerticalScrollBarPolicy(policy)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.composing:
            event.ignore()  # the key belongs to the input method
            return
        shift = bool(event.modifiers() & (Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.AltModifier))
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if shift:
                self.textCursor().insertText("\n")
                self.ensureCursorVisible()
            else:
                self.entered.emit()
            return
        if event.key() == Qt.Key.Key_Escape:
            self.escaped.emit()
            event.accept()
            return
        super().keyPressEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return super().canInsertFromMimeData(source) or (self._takes_files and source.hasImage())

    def insertFromMimeData(self, source: QMimeData) -> None:
        if self._takes_files and (local_files(source) or (source.hasImage() and not source.hasText())):
            self.files_given.emit(source)
        elif source.hasText():  # plain text, whatever else there is
            self.textCursor().insertText(source.text().replace("\0", "\ufffd"))
            self.ensureCursorVisible()


class SendButton(QAbstractButton):
    """A round button: an arrow up sends, a square stops."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setFixedSize(32, 32)
        self.stops = False
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = colors_of(self)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.isEnabled():
            ground = mix(colors.accent, colors.text, 0.25) if self.isDown() else colors.accent
            ink = colors.on_accent
        else:
            ground, ink = colors.border, colors.base
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(ground)
        painter.drawEllipse(self.rect().adjusted(1, 1, -1, -1))
        middle = QRectF(self.rect()).center()
        x, y = middle.x(), middle.y()
        if self.stops:
            painter.setBrush(ink)
            painter.drawRoundedRect(QRectF(x - 5, y - 5, 10, 10), 1.5, 1.5)
        else:
            painter.setPen(QPen(ink, 2.0, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
            painter.drawLine(round(x), round(y - 6), round(x), round(y + 6))
            painter.drawLine(round(x - 5), round(y - 1), round(x), round(y - 6))
            painter.drawLine(round(x + 5), round(y - 1), round(x), round(y - 6))
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(colors.text, 1.5))
            painter.drawEllipse(self.rect().adjusted(1, 1, -2, -2))


class ClipButton(QAbstractButton):
    """A paper clip: attaches files."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setFixedSize(32, 32)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName("Attach files")
        self.setToolTip("Attach text, code, Markdown, CSV or PDF")

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = colors_of(self)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.hasFocus() or self.underMouse():
            painter.setPen(QPen(colors.accent, 1.5) if self.hasFocus() else Qt.PenStyle.NoPen)
            painter.setBrush(colors.panel)
            painter.drawEllipse(self.rect().adjusted(1, 1, -2, -2))
        painter.translate(QRectF(self.rect()).center())
        painter.rotate(40)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        ink = colors.text if self.isDown() else colors.muted
        painter.setPen(QPen(ink, 1.6, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        wire = QPainterPath()
        wire.moveTo(4.5, -3.5)
        wire.lineTo(4.5, 4)
        wire.arcTo(QRectF(-4.5, -0.5, 9, 9), 0, -180)
        wire.lineTo(-4.5, -5)
        wire.arcTo(QRectF(-4.5, -8, 6, 6), 180, -180)
        wire.lineTo(1.5, 3.5)
        wire.arcTo(QRectF(-1.5, 2, 3, 3), 0, -180)
        wire.lineTo(-1.5, -3)
        painter.drawPath(wire)


class Composer(QWidget):
    """The field, its files and buttons, how full the context is, and a line that says why nothing can be sent."""

    submitted = Signal(str)
    stop_requested = Signal()
    text_changed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._generating = False
        self._allowed = True
        self._why = ""
        self.field = Field(self, takes_files=True)
        self.field.setPlaceholderText("Write a message")
        self.field.setAccessibleName("Message")
        font = QFont(self.font())
        if font.pointSizeF() > 0:
            font.setPointSizeF(font.pointSizeF() * 1.1)
        self.field.setFont(font)
        self.button = SendButton(self)
        self.clip = ClipButton(self)
        self.tray = Tray(self)
        self.meter = Meter(self)
        self._room: Room | None = None
        self._measuring = QTimer(self)
        self._measuring.setSingleShot(True)
        self._measuring.setInterval(METER_MS)
        self._measuring.timeout.connect(self._measure)
        self.why = QLabel(self)
        self.why.setTextFormat(Qt.TextFormat.PlainText)
        self.why.setWordWrap(True)
        self.why.setForegroundRole(QPalette.ColorRole.WindowText)
        self.why.hide()
        across = QHBoxLayout()
        across.setContentsMargins(7, 0, 7, 6)
        across.setSpacing(6)
        across.addWidget(self.clip, 0, Qt.AlignmentFlag.AlignBottom)
        across.addWidget(self.field, 1)
        across.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 6, 20, 6)
        layout.setSpacing(0)
        files = QVBoxLayout()
        files.setContentsMargins(12, 6, 12, 4)
        files.addWidget(self.tray)
        layout.addWidget(self.why)
        layout.addLayout(files)
        layout.addLayout(across)
        layout.addSpacing(4)
        layout.addWidget(self.meter)
        self.setAcceptDrops(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.setFocusProxy(self.field)
        self.field.entered.connect(self.submit)
        self.field.escaped.connect(self._stop)
        self.field.textChanged.connect(self._changed)
        self.field.files_given.connect(self.tray.take)
        self.tray.changed.connect(self._changed)
        self.button.clicked.connect(self._pressed)
        self.clip.clicked.connect(self._choose_files)
        self._refresh()

    def text(self) -> str:
        """The message as it is now: its files and what is in the field."""
        return join(self.tray.attachments, self.field.toPlainText())

    def set_text(self, text: str) -> None:
        """Put a message here: its files become chips, the rest goes into the field, the cursor at its end.

        What was in the field comes back with undo.
        """
        attachments, typed = split(text)
        if attachments != self.tray.attachments or self.tray.busy:
            self.tray.set_attachments(attachments)
        self.set_typed(typed)

    def set_typed(self, text: str) -> None:
        """Put a text into the field, beside the files that are there."""
        if text == self.field.toPlainText():
            return
        cursor = self.field.textCursor()
        cursor.beginEditBlock()
        cursor.select(cursor.SelectionType.Document)
        cursor.insertText(text.replace("\0", "\ufffd"))
        cursor.endEditBlock()
        cursor.movePosition(cursor.MoveOperation.End)
        self.field.setTextCursor(cursor)

    def quote(self, text: str) -> None:
        """Quote a text, each line after a ">", at the end of what is typed; the cursor is below it."""
        lines = text.replace("\0", "\ufffd").replace("\u2029", "\n").strip("\n").split("\n")
        if not text.strip():
            return
        typed = self.field.toPlainText()
        gap = "" if not typed else "\n" * max(0, 2 - (len(typed) - len(typed.rstrip("\n"))))
        cursor = self.field.textCursor()
        cursor.movePosition(cursor.MoveOperation.End)
        cursor.insertText(gap + "\n".join(f"> {line}".rstrip() for line in lines) + "\n\n")
        self.field.setTextCursor(cursor)
        self.field.ensureCursorVisible()
        self.field.setFocus()

    def set_generating(self, generating: bool) -> None:
        """While a reply is written the button stops it; writing goes on, sending waits."""
        self._generating = generating
        self._refresh()

    def set_enabled_to_send(self, enabled: bool, why: str = "") -> None:
        """Allow sending, or say why it is not possible now. Writing is always possible."""
        self._allowed, self._why = enabled, why
        self._refresh()

    def set_room(self, room: Room) -> None:
        """Show from now on how full the context is."""
        self._room = room
        self.tray.set_room(room)
        room.changed.connect(self._measure_soon)
        self._measure()

    def _measure_soon(self) -> None:
        if self._room is not None and not self._measuring.isActive():
            self._measuring.start()

    def _measure(self) -> None:
        if self._room is not None:
            self.meter.set_filling(self._room.filling(self.text()))

    def attach(self, paths: list[Path]) -> None:
        """Attach files of this machine."""
        self.tray.read(paths)

    def _choose_files(self) -> None:
        dialog = QFileDialog(self, "Attach Files")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.filesSelected.connect(lambda names: self.attach([Path(name) for name in names]))
        dialog.open()

    def _changed(self) -> None:
        self._refresh()
        self._measure_soon()
        self.text_changed.emit(self.text())

    def _refresh(self) -> None:
        self.button.stops = self._generating
        name = "Stop" if self._generating else "Send"
        self.button.setAccessibleName(name)
        self.button.setToolTip("Stop (Esc)" if self._generating else "Send (Enter)")
        filled = not self.field.document().isEmpty() or bool(self.tray.attachments)
        self.button.setEnabled(self._generating or (self._allowed and filled))
        self.why.setText(self._why)
        self.why.setVisible(bool(self._why) and not self._allowed)
        self.button.update()

    def _pressed(self) -> None:
        if self._generating:
            self.stop_requested.emit()
        else:
            self.submit()

    def _stop(self) -> None:
        if self._generating:
            self.stop_requested.emit()

    def submit(self) -> None:
        """Send what is here, if it can be sent."""
        text = self.text()
        if self._generating or not self._allowed or not text.strip() or self.field.composing or self.tray.busy:
            return
        self.set_text("")
        self.submitted.emit(text)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        side = max(20, (self.width() - WIDEST) // 2)
        layout = self.layout()
        if layout is not None and layout.contentsMargins().left() != side:
            layout.setContentsMargins(side, 6, side, 6)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "tray"):
            self.tray.recolor()
            self.update()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if local_files(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        if self.tray.take(event.mimeData()):
            event.acceptProposedAction()

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = colors_of(self)
        painter = QPainter(self)
        painter.fillRect(self.rect(), colors.base)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        inside = self.field.geometry().united(self.button.geometry()).united(self.clip.geometry())
        if not self.tray.isHidden():
            inside = inside.united(self.tray.geometry())
        box = QRectF(inside).adjusted(-6, -5, 6, 5)
        focused = self.field.hasFocus()
        painter.setPen(QPen(colors.accent if focused else colors.border, 1.5 if focused else 1.0))
        painter.setBrush(colors.base)
        painter.drawRoundedRect(box, 18, 18)
