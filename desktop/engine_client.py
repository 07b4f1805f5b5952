"""The window's end of the pipe: starts the engine process, sends requests, collects events, notices its death.

No mlx here: what the child runs is a function that imports it there. Events pile up in a deque, which whoever shows
them drains at their own pace; `arrived` is emitted once between two drains, so that nobody has to poll.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from PySide6.QtCore import QObject, Signal

from mlx_spec import host
from mlx_spec.events import Event, Request, Shutdown


def last_words(code: int | None) -> str:
    """What an exit code says, for a person."""
    if code == -signal.SIGKILL:
        return "The engine was killed; perhaps the machine ran out of memory."
    if code in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS):
        return f"The engine crashed ({signal.Signals(-code).name})."
    if code is not None and code < 0:
        return f"The engine was ended by signal {-code}."
    return "The engine ended unexpectedly." if not code else f"The engine ended with code {code}."


class EngineClient(QObject):
    """One engine process at a time. `target` is what it runs, given its end of the pipe."""

    arrived = Signal()
    died = Signal(str)

    def __init__(self, target: Callable[[Connection], None] = host.main) -> None:
        super().__init__()
        self._target = target
        self._events: deque[Event] = deque()
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._told = threading.Event()
        self._send_lock = threading.Lock()
        self._generation = 0
        self.divert: Callable[[Event], bool] | None = None  # takes events that are not for whoever drains

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self.alive:
            return
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=self._target, args=(theirs,), name="outrider-engine", daemon=True)
        process.start()
        theirs.close()  # so that the child's end closes when the child dies
        self._process, self._connection = process, ours
        self._generation += 1
        self._events.clear()
        threading.Thread(
            target=self._read, args=(ours, process, self._generation), name="engine events", daemon=True
        ).start()

    def _read(self, connection: Connection, process: BaseProcess, generation: int) -> None:
        while True:
            try:
                event = connection.recv()
            except (EOFError, OSError):
                break
            if generation == self._generation:
                self._events.append(event)
                if not self._told.is_set():
                    self._told.set()
                    self._emit_safely(self.arrived)
        process.join(5)
        if generation == self._generation:
            self._emit_safely(self.died, last_words(process.exitcode))

    @staticmethod
    def _emit_safely(signal_: object, *values: object) -> None:
        # The application may be gone by the time the child ends.
        with contextlib.suppress(RuntimeError):
            signal_.emit(*values)  # type: ignore[attr-defined]

    def drain(self) -> list[Event]:
        """All events that came since the last call, in order."""
        self._told.clear()
        events = []
        while self._events:
            event = self._events.popleft()
            if self.divert is None or not self.divert(event):
                events.append(event)
        return events

    def send(self, request: Request) -> bool:
        """False if the process is not there to take it; its death is told by `died`."""
        with self._send_lock:
            if self._connection is None:
                return False
            try:
                self._connection.send(request)
            except (OSError, ValueError):
                return False
            return True

    def restart(self) -> None:
        """End what runs and start anew."""
        self.close(1.0)
        self.start()

    def close(self, timeout: float = 3.0) -> None:
        """Leave no process behind: ask, then end it, then kill it."""
        self._generation += 1  # whatever it still says is not news
        process, connection = self._process, self._connection
        self._process = None
        if process is not None:
            self.send(Shutdown())
            process.join(timeout)
            if process.is_alive():
                process.terminate()
                process.join(1)
            if process.is_alive():
                process.kill()
                process.join(5)
        self._connection = None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()
        self._events.clear()
        self._told.clear()
