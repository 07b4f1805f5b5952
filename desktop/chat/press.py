"""Sets LaTeX by ziamath, beside the window: a formula takes it some milliseconds, the first one a quarter of a second.

Knows ziamath, which draws with a font of its own and fetches nothing; does not know where a formula stands.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from desktop.chat.formulas import Formula

KEPT = 4_000  # formulas


@dataclass(frozen=True, slots=True)
class Picture:
    """SVG in black, and its size in pixels above and below the line."""

    svg: bytes
    width: float
    ascent: float
    descent: float


class Press(QObject):
    """One thread that sets formulas, and what it has set. `pressed` is emitted after each."""

    pressed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._done: dict[Formula, Picture | None] = {}
        self._asked: set[Formula] = set()
        self._wanted: queue.SimpleQueue[Formula] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def known(self, formula: Formula) -> bool:
        """Whether it has been set, or cannot be."""
        return formula in self._done

    def get(self, formula: Formula) -> Picture | None:
        """Its picture; None while there is none, which is then asked for, or where it cannot be set."""
        if formula not in self._done and formula not in self._asked:
            if len(self._done) > KEPT:
                self._done.clear()
            self._asked.add(formula)
            self._wanted.put(formula)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="formulas", daemon=True)
                self._thread.start()
        return self._done.get(formula)

    def _run(self) -> None:
        while True:
            formula = self._wanted.get()
            self._done[formula] = typeset(formula.latex, formula.display, formula.size)
            self._asked.discard(formula)
            with contextlib.suppress(RuntimeError):  # the application is gone
                self.pressed.emit()


@lru_cache(maxsize=1)
def press() -> Press:
    """The one there is."""
    return Press()


def typeset(latex: str, display: bool, size: float) -> Picture | None:
    """A formula at `size` pixels an em, None where it cannot be set."""
    # importlib.resources warns of how ziamath finds its font, on Python before 3.13.
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="ziamath")
    import ziamath

    ziamath.config.svg2 = False  # plain paths, which Qt draws
    try:
        made = ziamath.Latex(latex, size=size, inline=not display)
        _left, top, width, height = (float(part) for part in made.svgxml().get("viewBox").split())
        svg = made.svg().encode()
    except Exception:  # whatever is odd about a formula, its source is shown in its place
        return None
    if not (0 < width < 20_000 and 0 < height < 4_000):
        return None
    return Picture(svg, width, -top, height + top)
