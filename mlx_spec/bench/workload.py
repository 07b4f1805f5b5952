"""Questions to measure on: JSON lines, read and checked. Knows no models."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..events import Problem

# Sets that come along: "copy" (text that is given again: drafts should hold) and "hostile" (text in which
# nothing repeats: drafts should not, and must cost nothing).
SETS = Path(__file__).parent / "sets"


@dataclass(frozen=True, slots=True)
class Question:
    """One line of a workload: its `category`, a `name` to find it by, and what the user says in turn."""

    category: str
    name: str
    turns: tuple[str, ...]


def read(path: Path, limit: int | None = None, turns: int = 1) -> list[Question]:
    """At most `limit` questions a category, each with at most `turns` turns, in the file's order.

    A line is {"category": str, "prompt": str} or {"category": str, "turns": [str, ...]}; "category" may be
    missing, and "question_id" or "id" gives the name, else the line's number. Raises `Problem` that names
    the line.
    """
    if not path.exists() and (SETS / f"{path}.jsonl").is_file():
        path = SETS / f"{path}.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is not UTF-8 text"
        raise Problem(f"The workload {path} cannot be read: {reason}.", "Give a file of JSON lines.") from e
    seen: Counter[str] = Counter()
    questions = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        question = _parse(line, f"Line {number} of {path}", str(number), turns)
        seen[question.category] += 1
        if limit is None or seen[question.category] <= limit:
            questions.append(question)
    if not questions:
        raise Problem(f"The workload {path} holds no questions.", 'Write lines like {"prompt": "..."}.')
    return questions


def _parse(line: str, where: str, name: str, turns: int) -> Question:
    try:
        data = json.loads(line)
    except ValueError as e:
        raise Problem(f"{where} is not JSON: {e}.", "Mend or remove that line.") from e
    said = data.get("turns", [data.get("prompt")]) if isinstance(data, dict) else None
    if not isinstance(said, list) or not said or not all(isinstance(t, str) and t.strip() for t in said):
        raise Problem(f'{where} has neither a "prompt" nor "turns" with text.', "Mend or remove that line.")
    return Question(
        category=str(data.get("category", "all")),
        name=str(data.get("question_id", data.get("id", name))),
        turns=tuple(said[:turns]),
    )
