"""Rows and rounds as the store and the engine give them."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QPointF
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from desktop.store import MessageRow
from mlx_spec.events import Round, Span


def row(number: int, role: str = "assistant", text: str = "", state: str = "done", **more: object) -> MessageRow:
    known = {"note": "", "spans": (Span(text),), "stats": None, "model": "Test 1B"} | more
    return MessageRow(id=number, chat_id=1, parent_id=None, role=role, text=text, state=state, created=0.0, **known)


def a_round(held: Sequence[str] = (), failed: Sequence[str] = (), own: str = "", drafter: str = "model") -> Round:
    drafted = (*held, *failed)
    spans = tuple(Span(t, drafter) for t in held) + ((Span(own),) if own else ())
    return Round(
        request=1,
        index=0,
        position=0,
        drafter=drafter if drafted else None,
        drafted=tuple(range(len(drafted))),
        drafted_text=drafted,
        accepted=len(held),
        tokens=tuple(range(len(held) + 1)),
        spans=spans,
        width=len(drafted) + 1,
        draft_s=0.001,
        verify_s=0.01,
        total_s=0.011,
    )


def wheel(widget: QWidget, steps: int) -> None:
    """Turn the wheel over a widget, upwards for positive steps."""
    window = widget.window()
    middle = widget.mapTo(window, widget.visibleRegion().boundingRect().center())
    QTest.wheelEvent(window.windowHandle(), QPointF(middle), QPoint(0, 120 * steps))
    QApplication.processEvents()
