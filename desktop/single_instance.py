"""One app at a time for one data folder: a second start brings the first one's window to the front."""

from __future__ import annotations

import hashlib
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

WAIT_MS = 1000


class SingleInstance(QObject):
    """`first` says whether this is the one; `raised` is emitted when another start asked for the window."""

    raised = Signal()

    def __init__(self, home: Path) -> None:
        super().__init__()
        home.mkdir(parents=True, exist_ok=True)
        self._name = "outrider-" + hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:16]
        self._lock = QLockFile(str(home / "app.lock"))
        self._lock.setStaleLockTime(0)  # a lock whose process is gone is taken over, however young
        self._server = QLocalServer(self)
        self.first = self._lock.tryLock(100)
        if self.first:
            QLocalServer.removeServer(self._name)
            self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
            self._server.newConnection.connect(self._answer)
            self._server.listen(self._name)

    def _answer(self) -> None:
        while socket := self._server.nextPendingConnection():
            socket.disconnected.connect(socket.deleteLater)
            socket.disconnectFromServer()
        self.raised.emit()

    def raise_first(self) -> bool:
        """Ask the running app to show itself; True if it heard."""
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        return socket.waitForConnected(WAIT_MS)

    def close(self) -> None:
        self._server.close()
        if self.first:
            self._lock.unlock()
