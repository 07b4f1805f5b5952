from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from desktop.app import collect_garbage
from desktop.macos import Awake, caffeinate_command
from desktop.single_instance import SingleInstance


def test_the_second_start_raises_the_first(qtbot: QtBot, tmp_path: Path) -> None:
    first = SingleInstance(tmp_path)
    second = SingleInstance(tmp_path)
    assert first.first
    assert not second.first
    with qtbot.waitSignal(first.raised, timeout=3000) as told:
        assert second.raise_first()
    assert told.args == [[]]
    with qtbot.waitSignal(first.raised, timeout=3000) as told:
        assert second.raise_first([Path("/a b/ü.txt"), Path("/c.gguf")])
    assert told.args == [[Path("/a b/ü.txt"), Path("/c.gguf")]]
    elsewhere = SingleInstance(tmp_path / "other")
    assert elsewhere.first
    first.close()
    third = SingleInstance(tmp_path)
    assert third.first
    for one in (second, third, elsewhere):
        one.close()


def test_awake_does_nothing_off_the_mac_and_ends_what_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    off = Awake(mac=False)
    off.hold(True)
    assert not off.held
    monkeypatch.setattr("desktop.macos.caffeinate_command", lambda pid: ["sleep", "60"])
    on = Awake(mac=True)
    on.hold(True)
    on.hold(True)
    assert on.held
    on.hold(False)
    assert not on.held
    assert caffeinate_command(5)[-2:] == ["-w", "5"]


def test_garbage_is_collected_by_hand() -> None:
    class Knot:
        def __init__(self) -> None:
            self.itself = self

    gc.collect()
    gc.disable()
    try:
        knot = weakref.ref(Knot())
        collect_garbage()
        assert knot() is not None  # little came together
        keep = [[] for _ in range(2 * gc.get_threshold()[0])]
        collect_garbage()
        assert knot() is None
        assert keep
    finally:
        gc.enable()


def test_the_app_starts_and_ends_by_a_signal(tmp_path: Path) -> None:
    """The real command with a model that is not there: the window stands, and leaves cleanly when asked."""
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-m", "desktop", "--home", str(tmp_path), "--model", str(tmp_path / "none")]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 30
    while not (tmp_path / "chats.db").exists() and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(1.5)
    assert process.poll() is None
    again = subprocess.run(command, env=environment, timeout=30)
    assert again.returncode == 0
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 0
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


def test_a_newer_database_is_one_sentence(tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "chats.db") as c:
        c.execute("PRAGMA user_version=99")
    c.close()
    code = (
        "import sys; from PySide6.QtWidgets import QMessageBox; QMessageBox.exec = lambda self: 0\n"
        "from desktop.app import run; sys.exit(run(['outrider', '--home', sys.argv[1]]))"
    )
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert "newer Outrider" in ended.stderr
    assert "Traceback" not in ended.stderr
