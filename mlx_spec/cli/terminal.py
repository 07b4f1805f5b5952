"""What the command says on stderr while it works: progress and one-line notes. stdout is left to results.

A program that runs the command reads its progress from stdout instead, one JSON object a line (`JsonLines`).
"""

from __future__ import annotations

import json
import shutil
import sys
import time

REDRAW_EVERY = 0.1  # seconds between redraws of a bar
STEP = 10  # percent between plain lines where stderr is no terminal
VERBS = {
    "download": "Fetching",
    "import": "Importing",
    "read": "Reading",
    "check": "Checking",
    "prompt": "Reading",
    "search": "Searching",
}


def size(n: float) -> str:
    """Bytes for a person: "98 MB"."""
    for unit in ("bytes", "kB", "MB"):
        if n < 1000:
            return f"{n:.0f} {unit}"
        n /= 1000
    return f"{n:.1f} GB"


class Progress:
    """Shows stages of work: a bar that redraws itself on a terminal, a line now and then elsewhere.

    Called as `progress(stage, what, done, total)`, `total` 0 meaning that it is not known.
    """

    def __init__(self) -> None:
        self._tty = sys.stderr.isatty()
        self._line = ""  # what stands in the terminal's last line
        self._stage = ("", "")
        self._percent = -STEP
        self._drawn = 0.0

    def __call__(self, stage: str, what: str, done: int = 0, total: int = 0) -> None:
        new = (stage, what) != self._stage
        if new:
            self._stage, self._percent = (stage, what), -STEP
        text = f"{VERBS.get(stage, stage.capitalize())} {what}"
        percent = min(100, 100 * done // total) if total else 0
        if self._tty:
            now = time.monotonic()
            if new or percent == 100 or now - self._drawn >= REDRAW_EVERY:
                self._drawn = now
                self._draw(text, done, total, percent)
        elif new or (total and percent >= self._percent + STEP):
            self._percent = percent
            amount = f": {percent} % of {_amount(stage, total)}" if total else ""
            print(text + amount, file=sys.stderr, flush=True)

    def _draw(self, text: str, done: int, total: int, percent: int) -> None:
        amount = ""
        if total:
            stage = self._stage[0]
            filled = percent // 5
            bar = "#" * filled + "." * (20 - filled)
            amount = f" [{bar}] {percent:3d} % of {_amount(stage, total)}"
        elif done:
            amount = f" {_amount(self._stage[0], done)}"
        width = shutil.get_terminal_size().columns - 1
        room = max(10, width - len(amount))
        if len(text) > room:
            text = text[: room - 3] + "..."
        line = (text + amount)[:width]
        sys.stderr.write("\r" + line + " " * max(0, len(self._line) - len(line)))
        sys.stderr.flush()
        self._line = line

    def clear(self) -> None:
        """Take the bar away, so that other lines can be printed."""
        if self._line:
            sys.stderr.write("\r" + " " * len(self._line) + "\r")
            sys.stderr.flush()
            self._line = ""


class JsonLines:
    """Progress for a program: one object a line on stdout, written at once. Called like a `Progress`."""

    def __init__(self) -> None:
        self._last = ("", "")
        self._said = 0.0

    def say(self, **fields: object) -> None:
        """Write one object of these fields."""
        print(json.dumps(fields), flush=True)

    def __call__(self, stage: str, what: str, done: int = 0, total: int = 0) -> None:
        now = time.monotonic()
        if (stage, what) != self._last or now - self._said >= REDRAW_EVERY:
            self._last, self._said = (stage, what), now
            self.say(stage=stage, note=what, share=done / total if total else None)

    def clear(self) -> None:
        """There is no bar to take away."""


def _amount(stage: str, n: int) -> str:
    return f"{n:,}" if stage in ("prompt", "search") else size(n)
