"""Texts and questions of the caller's, to train a drafter on besides what its target writes by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..events import Problem
from .answers import Shard

ROWS = 64  # texts of a shard
SUFFIXES = (".txt", ".md")


def prompts(path: Path) -> list[str]:
    """The lines of a file that have something in them. Raises `Problem`."""
    try:
        found = [line.strip() for line in path.read_text("utf-8").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as e:
        raise Problem(f"The prompts in {path} cannot be read: {e}.", "Give a text file, one question a line.") from e
    if not found:
        raise Problem(f"There is no prompt in {path}.", "Write one question a line.")
    return found


def texts(path: Path, tokenizer: Any, length: int) -> list[Shard]:
    """The texts of a folder, or the chats of a file of JSON lines, end to end in rows of `length` tokens. Of a chat
    the replies count as the target's, of a text all. Raises `Problem` if there is nothing to learn from."""
    ids: list[int] = []
    mine: list[bool] = []
    for part, own in _parts(path, tokenizer):
        ids += part
        mine += own
    rows = len(ids) // length
    if rows < 1:
        raise Problem(f"{path} has {len(ids):,} tokens, too few to learn from.", f"Give at least {length:,}.")
    table = np.array(ids[: rows * length], np.int32).reshape(rows, length)
    marks = np.array(mine[: rows * length], bool).reshape(rows, length)
    return [Shard(table[i : i + ROWS], marks[i : i + ROWS], None) for i in range(0, rows, ROWS)]


def _parts(path: Path, tokenizer: Any) -> Iterator[tuple[list[int], list[bool]]]:
    try:
        if path.is_dir():
            files = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES)
            for file in files:
                part = _encode(tokenizer, file.read_text("utf-8", errors="replace"))
                yield part, [True] * len(part)
            return
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            if line.strip():
                yield _chat(line, number, path, tokenizer)
    except (OSError, UnicodeDecodeError) as e:
        raise Problem(f"The texts in {path} cannot be read: {e}.", "Give a folder, or a file of JSON lines.") from e


def _chat(line: str, number: int, path: Path, tokenizer: Any) -> tuple[list[int], list[bool]]:
    try:
        messages = [{"role": str(m["role"]), "content": str(m["content"])} for m in json.loads(line)["messages"]]
    except (ValueError, KeyError, TypeError) as e:
        raise Problem(
            f"Line {number} of {path} is no chat ({type(e).__name__}).",
            'Each line is {"messages": [{"role": ..., "content": ...}, ...]}.',
        ) from e
    ids: list[int] = []
    mine: list[bool] = []
    if not getattr(tokenizer, "has_chat_template", False):
        for m in messages:
            part = _encode(tokenizer, m["content"] + "\n\n")
            ids += part
            mine += [m["role"] == "assistant"] * len(part)
        return ids, mine
    for i, m in enumerate(messages):
        # What a message adds to the rendered chat is its own.
        part = _encode(tokenizer, _added(tokenizer, messages, i))
        ids += part
        mine += [m["role"] == "assistant"] * len(part)
    return ids, mine


def _added(tokenizer: Any, messages: Sequence[dict[str, str]], i: int) -> str:
    def render(count: int, start: bool) -> str:
        if not count:
            return ""
        text = tokenizer.apply_chat_template(messages[:count], add_generation_prompt=start, tokenize=False)
        return str(text)

    try:
        own = messages[i]["role"] == "assistant"
        before, after = render(i, own), render(i + 1, i + 1 < len(messages) and messages[i + 1]["role"] == "assistant")
    except Exception as e:  # a template is a program of someone else's
        raise Problem(f"The model's chat template does not take a chat: {e}.", "Leave that chat out.") from e
    return after[len(before) :] if after.startswith(before) else messages[i]["content"]


def _encode(tokenizer: Any, text: str) -> list[int]:
    return [int(t) for t in tokenizer.encode(text, add_special_tokens=False)]
