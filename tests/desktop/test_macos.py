"""What is said to macOS, seen by a stand-in for Cocoa; and that elsewhere nothing is said."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pytest

from desktop import macos


class Listening:
    """Cocoa that writes down what it is sent and answers with a number for each object."""

    def __init__(self, **answers: object) -> None:
        self.heard: list[tuple[str, ...]] = []
        self.answers = answers

    def type(self, name: str) -> ctypes.c_void_p:
        self.heard.append(("type", name))
        return ctypes.c_void_p(len(self.heard))

    def text(self, words: str) -> ctypes.c_void_p:
        self.heard.append(("text", words))
        return ctypes.c_void_p(len(self.heard))

    def send(self, target: Any, selector: str, *arguments: Any, result: Any = ctypes.c_void_p) -> Any:
        self.heard.append((selector, *(str(a.value) for a in arguments)))
        return self.answers.get(selector, 100 + len(self.heard))


def selectors(there: Listening) -> list[str]:
    return [heard[0] for heard in there.heard]


def test_an_activity_is_held_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Listening()
    monkeypatch.setattr(macos, "cocoa", lambda: there)
    awake = macos.Awake(mac=True)
    awake.hold(True)
    awake.hold(True)
    assert awake.held
    begun = [h for h in there.heard if h[0] == "beginActivityWithOptions:reason:"]
    assert len(begun) == 1
    assert int(begun[0][1]) == 0x00FFFFFF  # user initiated: neither App Nap nor idle sleep
    assert int(begun[0][1]) & 1 << 20  # idle system sleep
    assert not int(begun[0][1]) & 1 << 40  # the display may sleep
    assert "retain" in selectors(there)
    awake.hold(False)
    assert not awake.held
    assert selectors(there)[-2:] == ["endActivity:", "release"]
    awake.hold(False)
    assert selectors(there).count("endActivity:") == 1


def test_motion(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Listening(accessibilityDisplayShouldReduceMotion=True)
    monkeypatch.setattr(macos, "cocoa", lambda: there)
    assert macos.reduce_motion()
    monkeypatch.setattr(macos, "cocoa", lambda: None)
    assert not macos.reduce_motion()


def test_a_notice_takes_words_as_they_are() -> None:
    words = '-e quit" & do shell script "true'
    command = macos.notice_command('A "title"', words)
    assert command[0] == "/usr/bin/osascript"
    assert command[-3:] == ["--", 'A "title"', words]
    script = [command[k + 1] for k, part in enumerate(command[:-3]) if part == "-e"]
    assert not any(words in line or "title" in line.replace("with title", "") for line in script)


@pytest.mark.skipif(sys.platform == "darwin", reason="says what other systems get")
def test_elsewhere_nothing_is_said() -> None:
    assert macos.cocoa() is None
    assert macos.memory_pressure() == ""
    assert not macos.reduce_motion()


@pytest.mark.mac
@pytest.mark.skipif(sys.platform != "darwin", reason="needs a Mac")
def test_a_mac_answers() -> None:
    awake = macos.Awake()
    awake.hold(True)
    assert awake._activity is not None
    awake.hold(False)
    assert macos.memory_pressure() in ("normal", "warning", "critical")
    assert macos.reduce_motion() in (True, False)
