"""Past replies on the disk, by their token ids: what a person's model wrote once it often writes again.

One file a tokenizer (ids mean nothing to another), `<hash>.jsonl`, a line a reply: {"chat": ..., "ids": [...]}.
Lines are appended; a broken last line (power cut) is skipped. Forgetting a chat rewrites the files without it,
atomically. A file that is damaged further in is set aside as `.damaged` and written anew from the lines that can be
read. Over `MOST` tokens the oldest replies go. Nothing here decides what may be kept: the caller passes
only what the person did not want to keep private.

In memory: one flat list of ids with a separator between replies, and an index of the last two and last four
tokens to the newest places where they stood (the design of vLLM's suffix index). 2.5 microseconds and about
100 bytes a token. The files are read by a thread of their own; until then nothing is offered.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from .files import replacing

MOST = 1_000_000  # tokens kept on the disk and in memory
PLACES = 8  # newest places kept for each key
LONGEST = 32  # tokens that a match is followed back
SHORTEST = 3  # shorter matches in other conversations are noise
GAP = -1  # between two replies

_files = threading.Lock()


def tokenizer_hash(folder: Path) -> str:
    """Names a tokenizer by what it does: the same for every quantization of a model."""
    digest = hashlib.sha256()
    for name in ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "added_tokens.json"):
        with contextlib.suppress(OSError):
            digest.update(name.encode() + (folder / name).read_bytes())
    return digest.hexdigest()[:16]


def _read(path: Path) -> tuple[list[tuple[str, list[int]]], str]:
    """The replies in a file, and its fault: "damaged", "cut" (the last line alone: a power cut), or none."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return [], ""
    found, fault = [], ""
    for i, line in enumerate(lines):
        try:
            record = json.loads(line)
            ids = [int(i) for i in record["ids"]]
            if any(not 0 <= i <= 0xFFFFFFFF for i in ids):
                raise ValueError("no token")
            found.append((str(record["chat"]), ids))
        except (ValueError, TypeError, KeyError):
            fault = fault or ("damaged" if i < len(lines) - 1 else "cut")
    return found, fault


def _write(path: Path, records: Iterable[tuple[str, Sequence[int]]]) -> None:
    with replacing(path) as part, part.open("w", encoding="utf-8") as file:
        for chat, ids in records:
            file.write(_line(chat, ids))
        file.flush()
        os.fsync(file.fileno())


def _line(chat: str, ids: Sequence[int]) -> str:
    return json.dumps({"chat": chat, "ids": list(ids)}, separators=(",", ":")) + "\n"


def forget(folder: Path, chat: str) -> int:
    """Remove a chat's replies from every file in `folder`; returns how many there were."""
    gone = 0
    with _files:
        for path in folder.glob("*.jsonl"):
            records, _ = _read(path)
            left = [r for r in records if r[0] != chat]
            if len(left) < len(records):
                _write(path, left)
                gone += len(records) - len(left)
    return gone


class Replies:
    """The replies of one tokenizer. `ready` is set once the file has been read."""

    def __init__(self, path: Path, most: int = MOST) -> None:
        self.path = path
        self.most = most
        self.ready = threading.Event()
        self.notices: list[str] = []  # what a person should be told, until it is taken
        self._lock = threading.Lock()
        self._clear()
        threading.Thread(target=self._load, name="past replies", daemon=True).start()

    def _clear(self) -> None:
        self.ids: list[int] = [GAP]
        self._two: dict[tuple[int, ...], list[int]] = {}
        self._four: dict[tuple[int, ...], list[int]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def _load(self) -> None:
        with _files:
            records, fault = _read(self.path)
            if fault == "damaged":
                self._mend(records)
            elif fault == "cut":
                with contextlib.suppress(OSError):
                    _write(self.path, records)
            total, first = 0, len(records)
            while first > 0 and total + len(records[first - 1][1]) <= self.most:
                first -= 1
                total += len(records[first][1])
            if first > 0:  # the oldest go, down to three quarters, so that this is seldom
                while first < len(records) and total > 0.75 * self.most:
                    total -= len(records[first][1])
                    first += 1
                with contextlib.suppress(OSError):
                    _write(self.path, records[first:])
        for _, ids in records[first:]:
            with self._lock:
                self._index(ids)
        self.ready.set()

    def _mend(self, records: Sequence[tuple[str, Sequence[int]]]) -> None:
        aside = self.path.with_suffix(".damaged")
        try:
            os.replace(self.path, aside)
            _write(self.path, records)
            kept = f"it is kept as {aside.name}, and the {len(records)} replies that could be read are used"
        except OSError as e:
            kept = f"it could not be mended ({e.strerror})"
        self.notices.append(f"The store of past replies {self.path} was damaged: {kept}.")

    def _index(self, ids: Sequence[int]) -> None:
        flat = self.ids
        for token in ids:
            flat.append(token)
            at = len(flat)  # where the follower will stand
            for size, index in ((2, self._two), (4, self._four)):
                key = tuple(flat[at - size : at])
                if len(key) == size and GAP not in key:
                    places = index.setdefault(key, [])
                    places.append(at)
                    if len(places) > PLACES:
                        del places[0]
        flat.append(GAP)

    def add(self, chat: str, ids: Sequence[int]) -> None:
        """Keep a reply, in memory and on the disk. A disk that cannot be written costs drafts, not the reply."""
        if len(ids) < SHORTEST:
            return
        with self._lock:
            self._index(ids)
        with _files, contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(chat, ids))

    def forget(self, chat: str) -> None:
        """Forget a chat, here and in all files beside this one."""
        forget(self.path.parent, chat)
        with self._lock:
            self._clear()
            self.ready.clear()
        self._load()

    def match(self, tail: Sequence[int], limit: int) -> tuple[int, list[int]]:
        """The length of the longest match of the end of `tail`, and what most often followed it."""
        if not self.ready.is_set() or len(tail) < 2:
            return 0, []
        with self._lock:
            flat = self.ids
            places = self._four.get(tuple(tail[-4:])) or self._two.get(tuple(tail[-2:])) or []
            best: list[int] = []
            longest = SHORTEST - 1
            for place in places:
                length = 0
                while length < LONGEST and length < len(tail) and flat[place - 1 - length] == tail[-1 - length]:
                    length += 1
                if length > longest:
                    best, longest = [place], length
                elif length == longest and best:
                    best.append(place)
            best = [p for p in best if p < len(flat) and flat[p] != GAP]
            if not best:
                return 0, []
            votes = Counter(flat[p] for p in best)
            most = max(votes.values())
            place = max(p for p in best if votes[flat[p]] == most)
            draft = flat[place : place + limit]
        return longest, draft[: draft.index(GAP)] if GAP in draft else draft
