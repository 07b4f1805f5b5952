"""The kinds of files that chats are written to, and what a file is called after a chat."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from desktop.transfer import export_html, export_json, export_markdown
from desktop.transfer.bundle import Bundle


@dataclass(frozen=True, slots=True)
class Format:
    """`write` makes the text of a file for one chat."""

    name: str
    ending: str
    write: Callable[[Bundle], str]
    with_rounds: bool = False


MARKDOWN = Format("Markdown", "md", export_markdown.markdown)
HTML = Format("HTML, with the drafters' colours", "html", export_html.page)
JSON = Format("Outrider JSON, complete", "json", export_json.one, with_rounds=True)
FORMATS = (MARKDOWN, HTML, JSON)


def file_name(title: str, ending: str) -> str:
    """A name that every file system takes."""
    name = re.sub(r'[\x00-\x1f\x7f<>:"/\\|?*]+', " ", title)
    name = " ".join(name.split()).strip(". ")[:80].rstrip(". ")
    if not name or re.fullmatch(r"(?i)con|prn|aux|nul|com\d|lpt\d", name):
        name = "Chat"
    return f"{name}.{ending}"
