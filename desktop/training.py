"""Making a drafter in a process of its own: `mlx-spec train` beside the window, which never loads mlx itself.

The process tells its progress as JSON, one object a line. It is asked to end, never killed unless it does not answer:
what it has made is on the disk at any moment, and the next run goes on from there. If the app dies, the process meets a
closed pipe and ends, too. Knows no widget.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, QProcess, Signal

from desktop.engine_client import last_words
from desktop.macos import Awake

COMMAND = (sys.executable, "-m", "mlx_spec")
PATIENCE_S = 8.0  # for a step and a checkpoint, when the app is closed
MOST_WORDS = 8_000  # characters of what is said on stderr


@dataclass(frozen=True, slots=True)
class Step:
    """What is being done: how far this stage is, 0 to 1, and how long all of it takes still. None: not known."""

    stage: str
    share: float | None
    note: str
    minutes_left: float | None


@dataclass(frozen=True, slots=True)
class Made:
    """A drafter that was made. `before` and `after` are the shares of held-out chains kept to 1, 2, ... tokens."""

    model: str
    kind: str
    folder: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    minutes: float
    bytes: int
    stopped: bool  # early, by the person

    @property
    def tokens_a_pass(self) -> float:
        """What a chain of that length gives, its target's own token included."""
        return 1 + sum(self.after)


class Training(QObject):
    """At most one training at a time."""

    stepped = Signal(object)  # Step
    made = Signal(object)  # Made
    stopped = Signal()  # before there was anything to learn from
    failed = Signal(str)  # one sentence, maybe two

    def __init__(self, parent: QObject | None = None, command: Sequence[str] = COMMAND) -> None:
        super().__init__(parent)
        self._command = tuple(command)
        self._process: QProcess | None = None
        self._model = ""
        self._unfinished = b""  # a line that is not whole yet
        self._said = ""
        self._ended = False  # it said what it came to
        self._stopping = False
        self._awake = Awake()

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def stopping(self) -> bool:
        return self._stopping

    @property
    def model(self) -> str:
        """Which model the drafter is for, of this run or the last."""
        return self._model

    def start(self, model: str, kind: str, minutes: int, disk_gb: float, again: bool = False) -> None:
        """Train a drafter of `kind` for `model` (a name, a folder, a file or a hub id). Does nothing while one runs."""
        if self.running:
            return
        self._model, self._said, self._unfinished = model, "", b""
        self._ended = self._stopping = False
        process = QProcess(self)
        process.readyReadStandardOutput.connect(self._read)
        process.readyReadStandardError.connect(self._listen)
        process.finished.connect(self._finished)
        process.errorOccurred.connect(self._not_started)
        arguments = ["train", "--model", model, "--kind", kind, "--minutes", str(minutes), "--disk", f"{disk_gb:g}"]
        self._process = process
        self._awake.hold(True)
        process.start(self._command[0], [*self._command[1:], *arguments, "--json", *(["--again"] if again else [])])

    def stop(self) -> None:
        """Ask it to end; it says so when it has, with what it has learned."""
        if self._process is not None:
            self._stopping = True
            self._process.terminate()

    def close(self) -> None:
        """End it, for the app ends: nothing of it runs on, and nothing is told any more."""
        process, self._process = self._process, None
        self._awake.hold(False)
        if process is None:
            return
        process.blockSignals(True)
        process.terminate()
        until, said = time.monotonic() + PATIENCE_S, self._unfinished
        while process.state() is not QProcess.ProcessState.NotRunning and time.monotonic() < until:
            if process.waitForReadyRead(50):
                said += process.readAllStandardOutput().data()
            if any(_kept(line) for line in said.split(b"\n")):
                break  # what it does after that takes long and can be done again
        if not process.waitForFinished(0):
            process.kill()
            process.waitForFinished(1_000)
        process.deleteLater()

    # ----------------------------------------------------------------------------------------- what it says

    def _read(self) -> None:
        if self._process is None:
            return
        *lines, self._unfinished = (self._unfinished + self._process.readAllStandardOutput().data()).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            said = json.loads(line)
            if "stage" in said:
                left = said.get("minutes_left")
                self.stepped.emit(Step(str(said["stage"]), said.get("share"), str(said.get("note", "")), left))
            elif "after" in said:
                self._ended = True
                before, after = tuple(said["before"]), tuple(said["after"])
                self.made.emit(
                    Made(self._model, said["kind"], said["folder"], before, after, said["minutes"], said["bytes"],
                         said["stopped"])
                )  # fmt: skip
            elif said.get("stopped"):
                self._ended = True
                self.stopped.emit()
        except (ValueError, TypeError, KeyError, AttributeError):
            return  # a library's own words among ours

    def _listen(self) -> None:
        if self._process is not None:
            words = bytes(self._process.readAllStandardError().data()).decode("utf-8", "replace")
            self._said = (self._said + words)[-MOST_WORDS:]

    def _finished(self, code: int, status: QProcess.ExitStatus) -> None:
        self._read()
        self._listen()
        process, self._process = self._process, None
        self._awake.hold(False)
        if process is not None:
            process.deleteLater()
        if self._ended:
            return
        if self._stopping:
            self.stopped.emit()
        else:
            self.failed.emit(why(self._said, code, status is QProcess.ExitStatus.CrashExit))

    def _not_started(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart and self._process is not None:
            process, self._process = self._process, None
            self._awake.hold(False)
            process.deleteLater()
            self.failed.emit(f"The training could not be started: {process.errorString()}.")


def _kept(line: bytes) -> bool:
    """Whether a line says that all was learned and is on the disk."""
    try:
        said = json.loads(line)
        return bool(said["stage"] == "measure" and said["share"] == 1.0)
    except (ValueError, TypeError, KeyError):
        return False


def why(said: str, code: int, crashed: bool) -> str:
    """Why it ended without a result, for a person: its own sentence if it said one, else what its end means."""
    own = [line.removeprefix("mlx-spec: ") for line in said.splitlines() if line.startswith("mlx-spec: ")]
    if own:
        return own[-1]
    words = last_words(-code if crashed else code).replace("The engine", "The training")
    last = said.strip().splitlines()[-1:] if not crashed else []
    return f"{words} It said last: {last[0][:200]}" if last else words
