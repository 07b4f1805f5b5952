"""Rounds on the disk outlive the versions: older ones lack fields, newer ones have more."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, replace
from pathlib import Path

from desktop.store import Store
from tests.desktop.window_engine import a_round


def test_rounds_of_other_versions_are_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    chat = store.new_chat()
    reply = store.add_message(chat.id, None, "assistant", "", "writing")
    full = replace(a_round(1, 0), own_text=" four", hopes=(0.9, 0.8, 0.1), chances=(0.5, 0.25, 1.0))
    store.append_rounds(reply.id, [full])
    store.flush()
    assert store.rounds(reply.id) == [full]
    old = {k: v for k, v in asdict(full).items() if k not in ("own_text", "hopes", "chances")}
    new = asdict(full) | {"colour": "blue", "index": 1}

    def put(c: sqlite3.Connection) -> None:
        c.execute("UPDATE rounds SET data=?", (json.dumps([old, new]),))

    store.change(put)
    first, second = store.rounds(reply.id)
    assert (first.own_text, first.hopes, first.chances) == ("", (), ())
    assert second == replace(full, index=1)
    store.close()
