"""Workload files: what is read, and what is said of a bad line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlx_spec.bench.workload import Question, read
from mlx_spec.events import Problem


def write(folder: Path, *lines: str) -> Path:
    path = folder / "w.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_prompt_and_turns_and_limit(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '{"category": "a", "turns": ["one", "two", "three"], "question_id": 81}',
        "",
        '{"category": "a", "prompt": "second"}',
        '{"prompt": "no category"}',
        '{"category": "b", "prompt": "third", "id": "x"}',
    )
    assert read(path) == [
        Question("a", "81", ("one",)),
        Question("a", "3", ("second",)),
        Question("all", "4", ("no category",)),
        Question("b", "x", ("third",)),
    ]
    assert read(path, limit=1, turns=2) == [
        Question("a", "81", ("one", "two")),
        Question("all", "4", ("no category",)),
        Question("b", "x", ("third",)),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '"text"',
        '{"category": "a"}',
        '{"prompt": " "}',
        '{"turns": []}',
        '{"turns": [1]}',
        '{"turns": "x"}',
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, '{"prompt": "fine"}', line)
    with pytest.raises(Problem, match=r"^Line 2 of "):
        read(path)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="cannot be read"):
        read(tmp_path / "missing.jsonl")
    with pytest.raises(Problem, match="cannot be read"):
        read(tmp_path)
    (tmp_path / "latin").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(Problem, match="UTF-8"):
        read(tmp_path / "latin")
    with pytest.raises(Problem, match="no questions"):
        read(write(tmp_path, "", " "))
