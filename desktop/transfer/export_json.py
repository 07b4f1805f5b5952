"""Chats as JSON that loses nothing: every branch, who drafted what, rounds and figures. Knows bundles only."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from desktop.transfer.bundle import Bundle, Piece

FORMAT = "outrider-chats"
VERSION = 1


def parts(bundles: Iterable[Bundle]) -> Iterator[str]:
    """The file, chat by chat, so that not all of it is in memory at once."""
    exported = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    yield f'{{"format": {json.dumps(FORMAT)}, "version": {VERSION}, "exported": {json.dumps(exported)}, "chats": ['
    between = "\n"
    for bundle in bundles:
        yield between + json.dumps(_chat(bundle), ensure_ascii=False)
        between = ",\n"
    yield "\n]}\n"


def one(bundle: Bundle) -> str:
    """A file with one chat."""
    return "".join(parts([bundle]))


def _chat(bundle: Bundle) -> dict[str, Any]:
    return {
        "title": bundle.title,
        "created": bundle.created,
        "updated": bundle.updated,
        "folder": bundle.folder,
        "pinned": bundle.pinned,
        "own": bundle.own,
        "head": bundle.head,
        "pieces": [_piece(piece) for piece in bundle.pieces],
    }


def _piece(piece: Piece) -> dict[str, Any]:
    return {
        "id": piece.id,
        "parent": piece.parent,
        "role": piece.role,
        "text": piece.text,
        "state": piece.state,
        "note": piece.note,
        "model": piece.model,
        "created": piece.created,
        "runs": piece.runs,
        "stats": asdict(piece.stats) if piece.stats else None,
        "rounds": [asdict(r) for r in piece.rounds],
    }
