"""Writes chats to files and reads them from files, whoever made them; says in one sentence what is wrong with one.

A file that is written is there wholly or not at all. Reading changes nothing: what was read is put into the store by
whoever asked. Knows the formats and the disk; does not know any widget.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from desktop.store import Store
from desktop.transfer import export_json, import_chatgpt, import_json, import_lmstudio
from desktop.transfer.bundle import Bundle, check, take
from desktop.transfer.formats import Format, file_name
from mlx_spec.events import Problem

LARGEST = 1 << 30  # bytes of a file that is read
KNOWN = "Outrider's JSON, ChatGPT's conversations.json or export (.zip), or a conversation of LM Studio"


# ------------------------------------------------------------------------------------------------- write


def save_one(store: Store, chat_id: int, form: Format, path: Path) -> None:
    """Write one chat. Raises `Problem` if it cannot be written; a file that was there stays then."""
    bundle = take(store, chat_id, form.with_rounds)
    _save(path, [form.write(bundle)])


def save_all(store: Store, chats: Sequence[int], form: Format, path: Path) -> None:
    """Write many chats: as one JSON file, or as a ZIP archive with one file a chat."""
    if form.with_rounds:
        _save(path, export_json.parts(take(store, number) for number in chats))
        return
    temporary = _beside(path)
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            used: set[str] = set()
            for number in chats:
                bundle = take(store, number, False)
                folder = f"{Path(file_name(bundle.folder, 'x')).stem}/" if bundle.folder else ""
                name = file_name(bundle.title, form.ending)
                stem, k = Path(name).stem, 1
                while (folder + name).casefold() in used:
                    k += 1
                    name = f"{stem} {k}.{form.ending}"
                used.add((folder + name).casefold())
                archive.writestr(folder + name, form.write(bundle).encode("utf-8", "replace"))
        os.replace(temporary, path)
    except OSError as e:
        temporary.unlink(missing_ok=True)
        raise _unwritten(path, e) from e


def _save(path: Path, parts: Iterable[str]) -> None:
    temporary = _beside(path)
    try:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            for part in parts:
                file.write(part)
        os.replace(temporary, path)
    except OSError as e:
        temporary.unlink(missing_ok=True)
        raise _unwritten(path, e) from e


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.writing"[:200])


def _unwritten(path: Path, error: OSError) -> Problem:
    return Problem(f"{path} cannot be written: {error.strerror or error}.", "Choose another place.")


# -------------------------------------------------------------------------------------------------- read


def load(paths: Sequence[Path]) -> list[Bundle]:
    """The chats in some files. Raises `Problem` for the first file that is not known or is broken."""
    found: list[Bundle] = []
    for path in paths:
        found += load_one(path)
    return found


def load_one(path: Path) -> list[Bundle]:
    """The chats in one file."""
    try:
        found = _bundles(_parse(_read(path), path), path)
        for bundle in found:
            check(bundle)
    except (ValueError, RecursionError) as e:
        words = "it is nested too deeply" if isinstance(e, RecursionError) else str(e)
        raise Problem(f"{path.name} is damaged: {words}.", "Nothing was imported. Export it again.") from e
    if not any(bundle.pieces for bundle in found):
        raise Problem(f"{path.name} holds no messages.", f"Choose {KNOWN}.")
    return [bundle for bundle in found if bundle.pieces]


def _bundles(data: Any, path: Path) -> list[Bundle]:
    if import_json.is_ours(data):
        return import_json.bundles(data)
    if import_chatgpt.is_chatgpt(data):
        return import_chatgpt.bundles(data)
    if import_lmstudio.is_lmstudio(data):
        return import_lmstudio.bundles(data, path.name.split(".")[0])
    raise _foreign(path)


def _foreign(path: Path) -> Problem:
    return Problem(f"{path.name} is not a file of chats that Outrider knows.", f"Choose {KNOWN}.")


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise Problem(f"{path.name} is too large to be read.", "Split it, or import its chats one by one.")
        with path.open("rb") as file:
            is_archive = file.read(4) == b"PK\x03\x04"
        if not is_archive:
            return path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if entry.filename.rpartition("/")[2] == "conversations.json" and entry.file_size <= LARGEST:
                    return archive.read(entry)
    except OSError as e:
        raise Problem(f"{path} cannot be read: {e.strerror or e}.", "Choose another file.") from e
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as e:
        raise Problem(f"{path.name} is a damaged archive.", "Nothing was imported. Export or download it again.") from e
    raise _foreign(path)


def _parse(data: bytes, path: Path) -> Any:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise _foreign(path) from e
    if text.lstrip()[:1] not in ("{", "["):
        raise _foreign(path)
    try:
        return json.loads(text)
    except ValueError as e:
        raise ValueError("it is cut off or no JSON") from e
