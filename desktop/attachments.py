"""Files that are put into a message: how they are read, and the form in which they stand in its text.

A message that carries files is one text: each file under a line with its name, fenced, then what was typed. The model
reads that text, the store keeps it, and the window takes it apart again to show the files as chips; so an edit, a
copy of a chat and an export keep the files without knowing of them. Knows text and files; no widget, no database.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from desktop.pdf_text import pdf_text
from mlx_spec.events import Problem

LARGEST = 64 << 20  # bytes of a file that is read at all
MOST = 2_000_000  # characters of text that are taken of one file; no context holds more

_HEAD = re.compile(r"File: ([^\n]+)\n(`{3,})([^`\n]*)\n")
_CUT = re.compile(r"(.*) \[first [\d,]+ of ([\d,]+) characters\]")
_RUNS = re.compile("`{3,}")
_UNWANTED = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")
# Only where the ending of the name is not what the fence should say.
_LANGUAGES = {
    "py": "python", "pyi": "python", "js": "javascript", "mjs": "javascript", "ts": "typescript", "md": "markdown",
    "rs": "rust", "rb": "ruby", "sh": "bash", "zsh": "bash", "yml": "yaml", "h": "c", "hpp": "cpp", "cc": "cpp",
    "kt": "kotlin", "cs": "csharp", "htm": "html", "txt": "", "text": "", "log": "", "pdf": "",
}  # fmt: skip
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file's text. `whole` is how many characters the file has where only its beginning is taken, else 0."""

    name: str
    text: str
    whole: int = 0

    @property
    def size(self) -> int:
        """Bytes of the text."""
        return len(self.text.encode("utf-8", "replace"))


@lru_cache(maxsize=64)
def fenced(attachment: Attachment) -> str:
    """An attachment as it stands in a prompt; the fence is longer than any in the text."""
    mark = "`" * max([3, *(len(run) + 1 for run in _RUNS.findall(attachment.text))])
    ending = attachment.name.rpartition(".")[2].lower() if "." in attachment.name else ""
    language = _LANGUAGES.get(ending, ending if ending.isalnum() and len(ending) <= 10 else "")
    cut = f" [first {len(attachment.text):,} of {attachment.whole:,} characters]" if attachment.whole else ""
    return f"File: {attachment.name}{cut}\n{mark}{language}\n{attachment.text}\n{mark}"


def join(attachments: Sequence[Attachment], typed: str) -> str:
    """The text of a message: its files, then what was typed."""
    parts = [fenced(attachment) for attachment in attachments]
    return "\n\n".join([*parts, typed] if typed or not parts else parts)


def split(text: str) -> tuple[list[Attachment], str]:
    """Take the text of a message apart: `join` gives exactly it again. Any other text has no files."""
    found: list[Attachment] = []
    at = 0
    while (head := _HEAD.match(text, at)) is not None:
        start, mark = head.end(), head[2]
        end = text.find(f"\n{mark}", start - 1)
        if end < 0:
            break
        after = end + 1 + len(mark)
        if text[after : after + 2] not in ("", "\n\n"):
            break
        cut = _CUT.fullmatch(head[1])
        name, whole = (cut[1], int(cut[2].replace(",", ""))) if cut else (head[1], 0)
        found.append(Attachment(name, text[start:end], whole))
        at = min(after + 2, len(text))
    typed = text[at:]
    if not found or join(found, typed) != text:
        return [], text
    return found, typed


def subject(text: str) -> str:
    """What a message is about: what was typed, or else its files' names."""
    attachments, typed = split(text)
    return typed if typed.strip() else ", ".join(attachment.name for attachment in attachments)


def cut(attachment: Attachment, characters: int) -> Attachment:
    """The beginning of an attachment, up to the last whole line within `characters`."""
    if len(attachment.text) <= characters:
        return attachment
    kept = attachment.text[: max(1, characters)]
    line = kept.rfind("\n")
    kept = (kept[:line] if line > len(kept) // 2 else kept).rstrip("\n") or kept[:1]
    return Attachment(attachment.name, kept, attachment.whole or len(attachment.text))


def take_text(name: str, text: str) -> Attachment:
    """Text as an attachment. Raises `Problem` if there is none."""
    name = _UNWANTED.sub(" ", name).strip() or "file"
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd").strip("\n")
    if not text.strip():
        raise Problem(f"{name} is empty.", "Attach another file.")
    return cut(Attachment(name, text), MOST)


def read_attachment(path: Path) -> Attachment:
    """Read a file: any text in UTF-8 or with a byte order mark, or the text of a PDF. Raises `Problem`.

    A PDF may take seconds; call it where nobody waits.
    """
    name = path.name or str(path)
    try:
        if path.is_dir():
            raise Problem(f"{name} is a folder.", "Attach the files in it.")
        if not path.is_file():  # reading a pipe or a device might never end
            raise Problem(f"{name} is not there, or is no file.", "Attach another one.")
        size = path.stat().st_size
        if size > LARGEST:
            limit = f"Files of up to {LARGEST >> 20} MB can be attached."
            raise Problem(f"{name} has {size / (1 << 20):,.0f} MB.", limit)
        data = path.read_bytes()
    except OSError as e:
        raise Problem(f"{name} cannot be read: {e.strerror}.", "Check the file and its permissions.") from e
    if data[:1024].lstrip().startswith(b"%PDF-"):
        return take_text(name, pdf_text(data, name))
    return take_text(name, decode(data, name))


def decode(data: bytes, name: str) -> str:
    """The text of a file's bytes. Raises `Problem` where it is no text, or in an encoding that is not said."""
    encoding = next((e for mark, e in _BOMS if data.startswith(mark)), "")
    if not encoding and b"\0" in data[:65_536]:
        raise Problem(f"{name} is not a text file.", "Text, code, Markdown, CSV and PDF can be attached.")
    try:
        text = data.decode(encoding or "utf-8")
    except UnicodeDecodeError as e:
        known = "Save it as UTF-8, then attach it again."
        raise Problem(f"{name} is not text in UTF-8 (byte {e.start:,} is not).", known) from e
    if len(_CONTROL.findall(text[:65_536])) > 16 + min(len(text), 65_536) // 50:
        raise Problem(f"{name} is not a text file.", "Text, code, Markdown, CSV and PDF can be attached.")
    return text
