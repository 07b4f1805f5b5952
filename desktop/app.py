"""Starting and ending the app: one instance, its files, its window, and what happens when something breaks."""

from __future__ import annotations

import argparse
import gc
import logging
import logging.handlers
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QTimer
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication, QMessageBox

from desktop.conversation import Conversation
from desktop.engine_client import EngineClient
from desktop.opened import Opened
from desktop.settings import MODEL, Settings
from desktop.single_instance import SingleInstance
from desktop.store import Store
from mlx_spec.events import Failed, Problem
from models.paths import home

ICON = Path(__file__).parent / "icons" / "outrider.svg"
log = logging.getLogger("outrider")


def start_log(folder: Path) -> Path:
    """Log to a file of bounded size; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "outrider.log"
    handler = logging.handlers.RotatingFileHandler(file, maxBytes=1_000_000, backupCount=2, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    return file


class Mishaps:
    """Unforeseen errors: all into the log, one sentence a minute at most to the person."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._box: QMessageBox | None = None

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            QApplication.quit()
            return
        log.error("%s", "".join(traceback.format_exception(kind, error, trace)))
        if self._box is not None and self._box.isVisible():
            return
        self._box = QMessageBox(
            QMessageBox.Icon.Warning,
            "Outrider",
            f"Something went wrong that Outrider did not expect ({kind.__name__}). Your chats are safe.",
        )
        self._box.setInformativeText(f"You can go on. The details are in {self._file}.")
        self._box.open()


def complain(problem: Problem) -> None:
    """A problem that keeps the app from starting."""
    print(f"outrider: {problem}", file=sys.stderr)
    box = QMessageBox(QMessageBox.Icon.Critical, "Outrider", problem.message)
    box.setInformativeText(problem.remedy)
    box.exec()


def collect_garbage() -> None:
    """Collect as Python would by itself, were it on: called from the window's thread alone.

    By itself it collects in whichever thread makes objects, and widgets that are ended in another one end the app.
    """
    for generation in (2, 1, 0):
        if gc.get_count()[generation] > gc.get_threshold()[generation]:
            gc.collect(generation)
            return


def run(argv: Sequence[str]) -> int:
    """The app, from start to end; returns the exit code."""
    parser = argparse.ArgumentParser(prog="outrider", description="Chat with a model on this machine.")
    parser.add_argument("--home", type=Path, help="the data folder (chats, settings, models)")
    parser.add_argument("--model", help="starter, a folder, a GGUF file or a hub id; kept as the chosen model")
    parser.add_argument("files", nargs="*", type=Path, help="files to attach or import, or a model to load")
    options = parser.parse_args(argv[1:])
    files = [path.expanduser().absolute() for path in options.files]
    if options.home:
        os.environ["OUTRIDER_HOME"] = str(options.home.expanduser().absolute())

    from desktop.citizen import Citizen
    from desktop.window import MainWindow

    app = QApplication([argv[0]])
    app.setApplicationName("Outrider")
    app.setApplicationDisplayName("Outrider")
    app.setOrganizationName("Outrider")
    app.setWindowIcon(QIcon(str(ICON)))
    opened = Opened(app)
    try:
        single = SingleInstance(home())
    except OSError as e:
        complain(Problem(f"{home()} cannot be written: {e.strerror}.", "Choose another folder with --home."))
        return 1
    if not single.first:
        single.raise_first(files)
        return 0
    sys.excepthook = Mishaps(start_log(home() / "logs"))
    settings = Settings(home() / "settings.json")
    troubles: list[Problem] = []  # told by the writer thread, shown by this one
    try:
        store = Store(home() / "chats.db", troubles.append)
        if options.model:
            settings.set(MODEL, options.model)
    except Problem as e:
        complain(e)
        return 1
    conversation = Conversation(store, settings, EngineClient())
    window = MainWindow(conversation, settings, store)
    Citizen(window, opened)

    def show_window(paths: Sequence[Path] = ()) -> None:
        opened.add(paths)
        window.showNormal() if window.isMinimized() else window.show()
        window.raise_()
        window.activateWindow()

    gc.disable()

    def tick() -> None:  # lets Python see signals, and shows what the writer thread met
        while troubles:
            trouble = troubles.pop(0)
            conversation.problem.emit(Failed(0, trouble.message, trouble.remedy))
        collect_garbage()

    single.raised.connect(show_window)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: window.close())
    heartbeat = QTimer()
    heartbeat.timeout.connect(tick)
    heartbeat.start(250)
    app.aboutToQuit.connect(conversation.close)
    window.show()
    # After the first paint: the window must not wait for files.
    QTimer.singleShot(0, conversation.start)
    opened.add(files)
    for notice in settings.notices + store.notices:
        log.warning("%s", notice)
        QTimer.singleShot(0, lambda n=notice: conversation.problem.emit(Failed(0, n)))
    code = app.exec()
    conversation.close()
    store.close()
    single.close()
    return code
