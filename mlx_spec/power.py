"""Whether the machine runs on its battery. Knows macOS; elsewhere it says no."""

from __future__ import annotations

import subprocess
import sys


def on_battery() -> bool:
    """True while a Mac draws from its battery. What cannot be told counts as mains."""
    if sys.platform != "darwin":
        return False
    try:
        told = subprocess.run(["pmset", "-g", "batt"], capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return told_by(told)


def told_by(report: str) -> bool:
    """What `pmset -g batt` says in its first line."""
    return "'Battery Power'" in report.partition("\n")[0]
