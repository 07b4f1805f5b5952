"""One app at a time for one data folder: a second start hands its files to the first and raises its window."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

WAIT_MS = 1000


class SingleInstance(QObject):
    """`first` says whether this is the one; `raised` is emitted when another start asked for the window, with the files
    that it was given."""

    raised = Signal(list)

    def __init__(self, home: Path) -> None:
        super().__init__()
        home.mkdir(parents=True, exist_ok=True)
        self._name = "outrider-" + hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:16]
        self._lock = QLockFile(str(home / "app.lock"))
        self._lock.setStaleLockTime(0)  # a lock whose process is gone is taken over, however young
        self._server = QLocalServer(self)
        self._callers: list[QLocalSocket] = []
        self.first = self._lock.tryLock(100)
        if self.first:
            QLocalServer.removeServer(self._name)
            self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
            self._server.newConnection.connect(self._answer)
            self._server.listen(self._name)

    def _answer(self) -> None:
        while socket := self._server.nextPendingConnection():
            self._callers.append(socket)
            socket.disconnected.connect(self._hear)
        self._hear()

    def _hear(self) -> None:
        """A caller says all that it has to say, and goes."""
        gone = [s for s in self._callers if s.state() is QLocalSocket.LocalSocketState.UnconnectedState]
        for socket in gone:
            self._callers.remove(socket)
            paths: list[Path] = []
            with contextlib.suppress(ValueError, TypeError):  # not one of ours; the window is shown all the same
                paths = [Path(name) for name in json.loads(bytes(socket.readAll().data()))]
            socket.deleteLater()
            self.raised.emit(paths)

    def raise_first(self, paths: Sequence[Path] = ()) -> bool:
        """Ask the running app to show itself and to open files; True if it heard."""
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if not socket.waitForConnected(WAIT_MS):
            return False
        socket.write(json.dumps([str(path) for path in paths]).encode())
        socket.disconnectFromServer()
        return socket.state() is QLocalSocket.LocalSocketState.UnconnectedState or socket.waitForDisconnected(WAIT_MS)

    def close(self) -> None:
        self._server.close()
        if self.first:
            self._lock.unlock()
