"""Files that the system hands to the app: opened from Finder, dropped on the icon, or named when it is started.

A model is loaded, a file of chats is imported, anything else goes to the message that is being written. Finder sends
one event a file; those that come together are taken together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtGui import QFileOpenEvent

from desktop.transfer import files
from mlx_spec.events import Problem

TOGETHER_MS = 150
SMALL = 64 << 20  # bytes of a JSON file that is looked into before it is decided what it is


@dataclass(slots=True)
class Sorted:
    """What is to be done with which files."""

    model: Path | None = None
    chats: list[Path] = field(default_factory=list)
    attachments: list[Path] = field(default_factory=list)


def is_model(path: Path) -> bool:
    """Whether a path is a GGUF file or a folder that mlx-lm loads."""
    if path.is_dir():
        return (path / "config.json").is_file() and any(path.glob("*.safetensors"))
    return path.suffix.lower() == ".gguf"


def holds_chats(path: Path) -> bool:
    """Whether a file is one that Import takes. Reads JSON; call it where nobody waits."""
    kind = path.suffix.lower()
    if kind == ".zip":
        return True  # nothing else can be done with one, and Import says what is wrong with it
    try:
        return kind == ".json" and path.stat().st_size <= SMALL and bool(files.load_one(path))
    except (Problem, OSError):
        return False


def sort(paths: Sequence[Path]) -> Sorted:
    """Tell files apart. Of several models the last is meant."""
    found = Sorted()
    for path in dict.fromkeys(paths):
        if is_model(path):
            found.model = path
        elif holds_chats(path):
            found.chats.append(path)
        else:
            found.attachments.append(path)
    return found


class Opened(QObject):
    """Listens to the application; `arrived` has the files that came together. Made before there is a window."""

    arrived = Signal(list)

    def __init__(self, application: QObject) -> None:
        super().__init__(application)
        self._paths: list[Path] = []
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(TOGETHER_MS)
        self._timer.timeout.connect(self._tell)
        application.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QFileOpenEvent) and event.file():
            self.add([Path(event.file())])
            return True
        return False

    def add(self, paths: Sequence[Path]) -> None:
        """Take files, now or soon."""
        if paths:
            self._paths += paths
            self._timer.start()

    def _tell(self) -> None:
        paths, self._paths = self._paths, []
        self.arrived.emit(paths)
