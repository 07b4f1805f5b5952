"""The only file that is for macOS alone: holding off App Nap and idle sleep while something runs.

`caffeinate` is part of every macOS and ends with the process it is given, so nothing is left behind even by a kill.
On other systems this does nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys


def caffeinate_command(pid: int) -> list[str]:
    """Keep the machine from idle sleep for as long as `pid` lives; the display may sleep."""
    return ["/usr/bin/caffeinate", "-i", "-w", str(pid)]


class Awake:
    """Hold or let go; both may be called again and again."""

    def __init__(self, mac: bool | None = None) -> None:
        self._mac = sys.platform == "darwin" if mac is None else mac
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def held(self) -> bool:
        return self._process is not None

    def hold(self, on: bool) -> None:
        if not self._mac or on == self.held:
            return
        if on:
            try:
                self._process = subprocess.Popen(caffeinate_command(os.getpid()))
            except OSError:
                self._mac = False  # no caffeinate: sleep is not held off, and nothing else depends on it
        elif self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None
