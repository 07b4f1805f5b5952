"""A chat as Markdown: the shown path, as it was written. Knows bundles only."""

from __future__ import annotations

import re
import time

from desktop.transfer.bundle import Bundle, Piece, path_of


def markdown(bundle: Bundle) -> str:
    """The text of the file."""
    lines = [f"# {_one_line(bundle.title) or 'Chat'}", "", f"*{day(bundle.created)}*", ""]
    for piece in path_of(bundle):
        lines += [f"## {speaker(piece)}", "", piece.text.strip("\n"), ""]
        if piece.state != "done":
            lines += [f"*{ended(piece)}*", ""]
    return "\n".join(lines)


def speaker(piece: Piece) -> str:
    """Who says a piece, for a person."""
    if piece.role == "user":
        return "You"
    if piece.role == "system":
        return "System"
    return _one_line(piece.model.rstrip("/").rpartition("/")[2]) or "Reply"


def ended(piece: Piece) -> str:
    """Why a reply is not complete."""
    return {"stopped": "Stopped.", "failed": "Failed.", "cut": "Cut off."}.get(piece.state, "") + (
        f" {piece.note}" if piece.note else ""
    )


def day(when: float) -> str:
    """A date and time that sorts, in local time; "" for one that no calendar has."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))
    except (OverflowError, ValueError, OSError):
        return ""


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
