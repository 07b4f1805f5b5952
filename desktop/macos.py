"""The only file that is for macOS alone: sleep and App Nap held off, notices, memory pressure, less motion.

Cocoa is spoken to by ctypes, a message at a time; where that fails, and on other systems, everything here says no and
does nothing. Whether a thing should be done is decided elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from functools import lru_cache
from typing import Any

MAC = sys.platform == "darwin"
USER_INITIATED = 0x00FFFFFF  # NSActivityUserInitiated: neither App Nap nor idle sleep; the display may sleep
PRESSURE = {1: "normal", 2: "warning", 4: "critical"}


class Cocoa:
    """Messages to objects of Cocoa. Raises `OSError` where there is none."""

    def __init__(self, library: Any = None) -> None:
        self._library = library or ctypes.CDLL("/usr/lib/libobjc.A.dylib")
        if library is None:
            ctypes.CDLL("/System/Library/Frameworks/AppKit.framework/AppKit")
        for name in ("objc_getClass", "sel_registerName"):
            function = getattr(self._library, name)
            function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_char_p]

    def type(self, name: str) -> ctypes.c_void_p:
        """A class by its name."""
        return ctypes.c_void_p(self._library.objc_getClass(name.encode()))

    def send(self, target: Any, selector: str, *arguments: Any, result: Any = ctypes.c_void_p) -> Any:
        """Send a message. Arguments are ctypes values; on arm64 every message needs its own types."""
        kinds = [type(argument) for argument in arguments]
        call = ctypes.CFUNCTYPE(result, ctypes.c_void_p, ctypes.c_void_p, *kinds)(("objc_msgSend", self._library))
        return call(target, ctypes.c_void_p(self._library.sel_registerName(selector.encode())), *arguments)

    def text(self, words: str) -> ctypes.c_void_p:
        """An NSString."""
        return ctypes.c_void_p(
            self.send(self.type("NSString"), "stringWithUTF8String:", ctypes.c_char_p(words.encode()))
        )


@lru_cache(maxsize=1)
def cocoa() -> Cocoa | None:
    """Cocoa, or None where there is none."""
    if not MAC:
        return None
    try:
        return Cocoa()
    except (OSError, AttributeError):
        return None


# ------------------------------------------------------------------------------------------ sleep and App Nap


class Activity:
    """An activity that was begun with the system, which it neither naps nor sleeps through."""

    def __init__(self, reason: str, cocoa: Cocoa) -> None:
        self._cocoa = cocoa
        self._info = ctypes.c_void_p(cocoa.send(cocoa.type("NSProcessInfo"), "processInfo"))
        options = ctypes.c_uint64(USER_INITIATED)
        begin = "beginActivityWithOptions:reason:"
        self._token = ctypes.c_void_p(cocoa.send(self._info, begin, options, cocoa.text(reason)))
        cocoa.send(self._token, "retain")

    def end(self) -> None:
        """Let the system sleep again."""
        self._cocoa.send(self._info, "endActivity:", self._token, result=None)
        self._cocoa.send(self._token, "release", result=None)


def caffeinate_command(pid: int) -> list[str]:
    """Keep the machine from idle sleep for as long as `pid` lives; the display may sleep."""
    return ["/usr/bin/caffeinate", "-i", "-w", str(pid)]


class Awake:
    """Hold or let go; both may be called again and again.

    Where Cocoa does not answer, `caffeinate` at least keeps the machine awake. It is part of every macOS and ends with
    the process that it is given, so nothing is left behind even by a kill.
    """

    def __init__(self, mac: bool | None = None) -> None:
        self._mac = MAC if mac is None else mac
        self._activity: Activity | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def held(self) -> bool:
        return self._activity is not None or self._process is not None

    def hold(self, on: bool) -> None:
        if not self._mac or on == self.held:
            return
        if on:
            self._begin()
        elif self._activity is not None:
            self._activity.end()
            self._activity = None
        elif self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def _begin(self) -> None:
        there = cocoa()
        if there is not None:
            self._activity = Activity("A model is at work.", there)
            return
        try:
            self._process = subprocess.Popen(caffeinate_command(os.getpid()))
        except OSError:
            self._mac = False  # no caffeinate: sleep is not held off, and nothing else depends on it


# ------------------------------------------------------------------------------------------------- the rest


def reduce_motion() -> bool:
    """Whether the person asked the system for less motion."""
    there = cocoa()
    if there is None:
        return False
    workspace = ctypes.c_void_p(there.send(there.type("NSWorkspace"), "sharedWorkspace"))
    return bool(there.send(workspace, "accessibilityDisplayShouldReduceMotion", result=ctypes.c_bool))


def memory_pressure() -> str:
    """Normal, warning or critical, as the kernel sees it; empty where it is not known."""
    if not MAC:
        return ""
    level, size = ctypes.c_int(0), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
    name = b"kern.memorystatus_vm_pressure_level"
    failed = ctypes.CDLL(None).sysctlbyname(name, ctypes.byref(level), ctypes.byref(size), None, ctypes.c_size_t(0))
    return "" if failed else PRESSURE.get(level.value, "")


def notice_command(title: str, words: str) -> list[str]:
    """Put up a notification. AppleScript's own needs neither a bundle nor a signature nor leave to be asked for, which
    the framework does; the words are handed over as arguments, so that nothing in them is taken for a script."""
    script = ("on run these", "display notification (item 2 of these) with title (item 1 of these)", "end run")
    lines = [part for line in script for part in ("-e", line)]
    # Words that begin with a dash would be taken for options.
    return ["/usr/bin/osascript", *lines, "--", title, words]
