"""Reads a conversation of LM Studio (*.conversation.json), with every version of every message; and plain lists of
messages with "role" and "content", as its older versions and many programs write them.

Raises ValueError with a few words where the file is broken.
"""

from __future__ import annotations

import time
from typing import Any

from desktop.transfer.bundle import Bundle, Piece
from desktop.transfer.typed import Wrong


def is_lmstudio(data: Any) -> bool:
    """Whether the data are one conversation with a list of messages."""
    return isinstance(data, dict) and isinstance(data.get("messages"), list)


def bundles(data: dict[str, Any], name: str) -> list[Bundle]:
    """The chat of the file; `name` is its title if it has none itself."""
    created = _time(data.get("createdAt"), time.time())
    last = max((_time(data.get(key), 0.0) for key in ("userLastMessagedAt", "assistantLastMessagedAt")), default=0.0)
    pieces: list[Piece] = []
    parent: int | None = None
    for message in data["messages"]:
        versions, chosen = _versions(message)
        shown: int | None = None
        for k, version in enumerate(versions):
            piece = _piece(version, len(pieces) + 1, parent, created)
            if piece is not None:
                pieces.append(piece)
                if k == chosen or shown is None:
                    shown = piece.id
        # What follows was said after the version that is shown.
        parent = shown if shown is not None else parent
    title = data.get("name") or data.get("title")
    title = " ".join(title.split())[:200] if isinstance(title, str) and title.strip() else name
    return [Bundle(title, created, max(created, last), tuple(pieces), parent, pinned=data.get("pinned") is True)]


def _versions(message: Any) -> tuple[list[Any], int]:
    if not isinstance(message, dict):
        raise Wrong("a message is no object")
    versions = message.get("versions")
    if versions is None and "role" in message:
        return [message], 0
    chosen = message.get("currentlySelected", 0)
    if not isinstance(versions, list) or not isinstance(chosen, int):
        raise Wrong("a message has no versions")
    return versions, chosen


def _piece(version: Any, number: int, parent: int | None, created: float) -> Piece | None:
    if not isinstance(version, dict):
        raise Wrong("a version of a message is no object")
    role = version.get("role")
    if role not in ("user", "assistant", "system"):
        return None
    steps = version.get("steps")
    if isinstance(steps, list):
        texts = [_step(step) for step in steps if isinstance(step, dict) and step.get("type") == "contentBlock"]
        text = "\n\n".join(t for t in texts if t)
    else:
        text = _content(version.get("content"))
    if not text.strip():
        return None
    sender = version.get("senderInfo")
    model = sender.get("senderName") if isinstance(sender, dict) else None
    model = model if isinstance(model, str) and role == "assistant" else ""
    return Piece(number, parent, role, text, model=model, created=created)


def _step(step: dict[str, Any]) -> str:
    text = _content(step.get("content"))
    style = step.get("style")
    if text and isinstance(style, dict) and style.get("type") == "thinking":
        return f"<think>\n{text.strip()}\n</think>"
    return text


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    found = []
    for part in content:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, dict) and part.get("type", "text") in ("text", "input_text", "output_text"):
            found.append(part["text"] if isinstance(part.get("text"), str) else "")
        elif isinstance(part, dict) and part.get("type") in ("file", "image", "image_url"):
            label = part.get("name") or part.get("fileIdentifier")
            found.append(f"[file: {label}]" if isinstance(label, str) else "[file]")
    return "\n".join(text for text in found if text)


def _time(value: Any, otherwise: float) -> float:
    """Milliseconds (or seconds) since 1970 as seconds, or what to take where there are none."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1e14:
        return otherwise
    return value / 1000 if value > 1e11 else float(value)
