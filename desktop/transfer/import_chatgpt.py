"""Reads the conversations.json of ChatGPT's data export: one tree of messages a chat, every branch of it.

What a person does not see there (system texts, tools and what they return, hidden thoughts) is left out; the replies
around it are joined. Raises ValueError with a few words where the file is broken.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from desktop.transfer.bundle import Bundle, Piece
from desktop.transfer.typed import Wrong


def is_chatgpt(data: Any) -> bool:
    """Whether the data look like ChatGPT's: a list of chats, or one chat, with a tree in "mapping"."""
    first = data[0] if isinstance(data, list) and data else data
    return isinstance(first, dict) and isinstance(first.get("mapping"), dict)


def bundles(data: Any) -> list[Bundle]:
    """The chats of the file."""
    return [_bundle(chat) for chat in (data if isinstance(data, list) else [data])]


def _bundle(chat: Any) -> Bundle:
    if not isinstance(chat, dict) or not isinstance(chat.get("mapping"), dict):
        raise Wrong("a chat has no tree of messages")
    created = _time(chat.get("create_time"), time.time())
    pieces, numbers = _pieces(chat["mapping"], created)
    head = numbers.get(str(chat.get("current_node")))
    if head is None and pieces:
        head = pieces[-1].id
    title = chat.get("title")
    return Bundle(
        " ".join(title.split())[:200] if isinstance(title, str) else "",
        created,
        _time(chat.get("update_time"), created),
        tuple(pieces),
        head,
        pinned=chat.get("is_starred") is True or bool(chat.get("pinned_time")),
    )


def _pieces(mapping: dict[str, Any], created: float) -> tuple[list[Piece], dict[str, int]]:
    """The kept messages, parents first, and for each node the kept message that it is or stands under."""
    children: dict[str | None, list[str]] = {}
    for key, node in mapping.items():
        if not isinstance(node, dict):
            raise Wrong("a message is no object")
        parent = node.get("parent")
        children.setdefault(parent if isinstance(parent, str) and parent in mapping else None, []).append(key)
    for key, node in mapping.items():  # the order of siblings is the parent's word
        order = {name: k for k, name in enumerate(node.get("children") or []) if isinstance(name, str)}
        if key in children:
            children[key].sort(key=lambda name: order.get(name, len(order)))
    pieces: dict[int, Piece] = {}
    numbers: dict[str, int] = {}
    waiting: list[tuple[str, int | None, bool]] = [(key, None, False) for key in reversed(children.get(None, []))]
    seen = 0
    while waiting:
        key, above, alone = waiting.pop()
        seen += 1
        piece = _piece(mapping[key].get("message"), len(pieces) + 1, above, created)
        if piece is not None:
            before = pieces.get(above) if above is not None else None
            if before is not None and alone and before.role == piece.role == "assistant":
                pieces[before.id] = replace(
                    before, text=f"{before.text}\n\n{piece.text}", model=piece.model or before.model
                )
            else:
                pieces[piece.id] = piece
                above = piece.id
        if above is not None:
            numbers[key] = above
        below = children.get(key, [])
        # A reply is joined to the one above it only where nothing else goes on from there.
        only = len(below) == 1 and (piece is not None or alone)
        waiting += [(child, above, only) for child in reversed(below)]
    if seen != len(mapping):
        raise Wrong("its messages go round in a circle")
    return list(pieces.values()), numbers


def _piece(message: Any, number: int, parent: int | None, created: float) -> Piece | None:
    if not isinstance(message, dict):
        return None
    author = message.get("author")
    role = author.get("role") if isinstance(author, dict) else None
    more = message.get("metadata")
    more = more if isinstance(more, dict) else {}
    hidden = more.get("is_visually_hidden_from_conversation") is True
    to_tool = role == "assistant" and message.get("recipient", "all") not in ("all", None)
    if role not in ("user", "assistant") or hidden or to_tool:
        return None
    text = _text(message.get("content"))
    if not text.strip():
        return None
    model = more.get("model_slug")
    stopped = role == "assistant" and message.get("status") == "in_progress"
    return Piece(
        number,
        parent,
        role,
        text,
        "cut" if stopped else "done",
        model=model if isinstance(model, str) and role == "assistant" else "",
        created=_time(message.get("create_time"), created),
    )


def _text(content: Any) -> str:
    if not isinstance(content, dict):
        return ""
    kind = content.get("content_type")
    if kind in ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"):
        return ""
    if kind == "code" and isinstance(content.get("text"), str):
        language = content.get("language")
        language = language if isinstance(language, str) and language.isalnum() and language != "unknown" else ""
        return f"```{language}\n{content['text']}\n```"
    parts = content.get("parts")
    if not isinstance(parts, list):
        return content["text"] if isinstance(content.get("text"), str) else ""
    found = []
    for part in parts:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, dict):
            if isinstance(part.get("text"), str):
                found.append(part["text"])
            elif "image" in str(part.get("content_type")):
                found.append("[image]")
    return "\n\n".join(text for text in found if text)


def _time(value: Any, otherwise: float) -> float:
    """Seconds since 1970, or what to take where there are none."""
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e11
    return float(value) if fits else otherwise
