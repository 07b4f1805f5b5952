"""Reads what `export_json` wrote. Knows the format only; raises ValueError with a few words where it is broken."""

from __future__ import annotations

from typing import Any

from desktop.transfer.bundle import Bundle
from desktop.transfer.export_json import FORMAT, VERSION
from desktop.transfer.typed import build
from mlx_spec.events import Problem


def is_ours(data: Any) -> bool:
    """Whether a file says that it is of this format."""
    return isinstance(data, dict) and data.get("format") == FORMAT


def bundles(data: dict[str, Any]) -> list[Bundle]:
    """The chats. Raises `Problem` for a file of a newer version."""
    version = data.get("version")
    if not isinstance(version, int) or version < 1:
        raise ValueError("it has no version")
    if version > VERSION:
        raise Problem(
            f"The file comes from a newer Outrider (format {version}; {VERSION} is known).",
            "Update Outrider. Nothing was changed.",
        )
    chats = data.get("chats")
    if not isinstance(chats, list):
        raise ValueError("it holds no chats")
    return [build(Bundle, chat) for chat in chats]
