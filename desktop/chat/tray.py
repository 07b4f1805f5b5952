"""The files of the message that is being written: read beside the window, shown as chips, refused or cut in words.

Knows attachments and the room in the context; does not know chats, and never reads a file where a person waits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QMimeData, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from desktop.attachments import Attachment, cut, fenced, read_attachment
from desktop.chat.chips import ChipRow
from desktop.context import rounded
from desktop.room import Room
from desktop.theme import colors_of
from mlx_spec.events import Problem

MOST_FILES = 40


def local_files(data: QMimeData) -> list[Path]:
    """The files of this machine that a drop or the clipboard names."""
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()] if data.hasUrls() else []


class Tray(QWidget):
    """Chips, a line for what went wrong, and a question where a file is too large."""

    changed = Signal()
    _read = Signal(object, object)  # a path, and its attachment or a Problem

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.room: Room | None = None
        self._waiting: set[Path] = set()
        self._round = 0  # what is read for an earlier message is not taken
        self._large: deque[Attachment] = deque()
        self.chips = ChipRow(self, removable=True)
        self.chips.changed.connect(self._chips_changed)
        self.note = QLabel(self)
        self.note.setTextFormat(Qt.TextFormat.PlainText)
        self.note.setWordWrap(True)
        self.note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.close_note = QToolButton(self)
        self.close_note.setText("✕")
        self.close_note.setAutoRaise(True)
        self.close_note.setToolTip("Dismiss")
        self.close_note.setAccessibleName("Dismiss the note")
        self.close_note.clicked.connect(lambda: self._say(""))
        self.cut_button = QPushButton("Attach the Beginning", self)
        self.cut_button.clicked.connect(self._take_beginning)
        self.leave_button = QPushButton("Leave It Out", self)
        self.leave_button.clicked.connect(self._leave_out)
        self._buttons = [self.cut_button, self.leave_button]
        across = QHBoxLayout()
        across.addWidget(self.note, 1)
        for button in (*self._buttons, self.close_note):
            across.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addLayout(across)
        layout.addWidget(self.chips)
        self._read.connect(self._arrived)
        self._say("")

    # ------------------------------------------------------------------------------------------ files

    @property
    def attachments(self) -> list[Attachment]:
        return self.chips.attachments

    @property
    def busy(self) -> bool:
        """Whether a file is being read, or a question is open."""
        return bool(self._waiting or self._large)

    def set_attachments(self, attachments: Sequence[Attachment]) -> None:
        """Have these files and no others; what is being read is forgotten."""
        self._round += 1
        self._waiting.clear()
        self._large.clear()
        self._say("")
        self.chips.set_attachments(attachments)

    def set_room(self, room: Room) -> None:
        """Count with this from now on."""
        self.room = room
        self.chips.count = room.counter.count
        room.counter.changed.connect(self.chips.recount)

    def take(self, data: QMimeData) -> bool:
        """Attach what was dropped or pasted, if it is files; else False."""
        paths = local_files(data)
        if paths:
            self.read(paths)
        elif data.hasImage() and not data.hasText():
            self._say("Pictures cannot be attached: text, code, Markdown, CSV and PDF can.")
        else:
            return False
        return True

    def read(self, paths: Sequence[Path]) -> None:
        """Attach files. Returns at once; they are read beside the window."""
        new = [path for path in paths if path not in self._waiting]
        if len(new) + len(self.attachments) + len(self._waiting) > MOST_FILES:
            self._say(f"That is too many files: a message takes up to {MOST_FILES}.")
            return
        self._waiting.update(new)
        self._say_reading()
        number = self._round
        threading.Thread(target=self._read_all, args=(new, number), name="attachments", daemon=True).start()

    def _read_all(self, paths: list[Path], number: int) -> None:
        for path in paths:
            try:
                found: Attachment | Problem = read_attachment(path)
            except Problem as e:
                found = e
            except Exception as e:  # whatever it is, it is said; it would be lost in this thread
                found = Problem(f"{path.name} could not be read ({type(e).__name__}).", "Attach another file.")
            try:
                self._read.emit((path, number), found)
            except RuntimeError:
                return  # the window is gone

    def _arrived(self, which: tuple[Path, int], found: Attachment | Problem) -> None:
        path, number = which
        if number != self._round:
            return
        self._waiting.discard(path)
        if isinstance(found, Problem):
            self._say(f"{found.message} {found.remedy}")
        elif found in self.attachments:
            self._say(f"{found.name} is attached already.")
        else:
            if not self._waiting and not self._large:
                self._say("")
            if self._fits(found):
                self.chips.add(found)
            else:
                self._large.append(found)
                self._ask()
        self.changed.emit()

    def _free(self) -> int | None:
        """Tokens that are left beside what is there; None if that is not known."""
        if self.room is None:
            return None
        filling = self.room.filling()
        if not filling.length:
            return None
        counted = [self.room.counter.count(fenced(a)).number for a in self.attachments]
        spare = min(512, filling.length // 4)  # for the words of the message and for a reply
        # A long chat can be cut by its oldest turns; a file is measured against half of the context at least.
        return max(filling.length - filling.used.number, filling.length // 2) - spare - sum(counted)

    def _fits(self, attachment: Attachment) -> bool:
        free = self._free()
        return free is None or self.room is None or self.room.counter.count(fenced(attachment)).number <= free

    # ------------------------------------------------------------------------------------------ words

    def _say(self, words: str, asks: bool = False) -> None:
        self.note.setText(words)
        self.note.setVisible(bool(words))
        self.note.setAccessibleName(words)
        self.close_note.setVisible(bool(words) and not asks)
        for button in self._buttons:
            button.setVisible(asks)
        self._show()

    def _show(self) -> None:
        self.setVisible(not self.note.isHidden() or bool(self.chips.attachments))

    def _say_reading(self) -> None:
        names = ", ".join(path.name for path in sorted(self._waiting))
        if names and not self._large:
            self._say(f"Reading {names}…")
            self.close_note.hide()

    def _ask(self) -> None:
        if not self._large or self.room is None:
            self._say("")
            self._say_reading()
            return
        attachment, free = self._large[0], self._free()
        tokens = self.room.counter.count(fenced(attachment)).words()
        left = max(0, free or 0)
        if left < 64:
            self._say(f"{attachment.name} has {tokens}; the context has no room left for it.", asks=True)
            self.cut_button.hide()
        else:
            self._say(f"{attachment.name} has {tokens}; about {rounded(left):,} fit.", asks=True)

    def _take_beginning(self) -> None:
        if not self._large or self.room is None:
            return
        attachment, free = self._large.popleft(), self._free()
        if free is None:
            part = attachment
        else:  # an estimate may be off: leave some air
            part = cut(attachment, max(1, self.room.counter.characters(int(free * 0.9), attachment.text)))
        self.chips.add(part)
        self._ask()

    def _leave_out(self) -> None:
        if self._large:
            self._large.popleft()
        self._ask()
        self.changed.emit()

    def _chips_changed(self) -> None:
        self._show()
        self.changed.emit()

    def recolor(self) -> None:
        """Follow the scheme."""
        colors = colors_of(self)
        palette = self.note.palette()
        if palette.color(self.note.foregroundRole()) != colors.text:
            palette.setColor(self.note.foregroundRole(), colors.text)
            self.note.setPalette(palette)
