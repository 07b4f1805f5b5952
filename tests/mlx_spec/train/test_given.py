"""What the caller brings: prompts, texts and chats, or the reason why they cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlx_spec.events import Problem
from mlx_spec.train import given
from mlx_spec.train.answers import Shard

from .conftest import Small
from .test_answers import BRACKETS, ONCE, tokenizer

CHAT = [
    {"role": "user", "content": "one two three"},
    {"role": "assistant", "content": "four five six"},
    {"role": "user", "content": "and then?"},
    {"role": "assistant", "content": "seven eight nine"},
]


def ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


def joined(shards: list[Shard]) -> tuple[list[int], list[bool]]:
    return [int(t) for s in shards for t in s.ids.reshape(-1)], [bool(m) for s in shards for m in s.mine.reshape(-1)]


def own(tokenizer: Any, path: Path, length: int) -> str:
    """What counts as the target's, as text."""
    found, mine = joined(given.texts(path, tokenizer, length))
    return str(tokenizer.decode([t for t, m in zip(found, mine, strict=True) if m]))


# -------------------------------------------------------------------------------------------------------------- prompts


def test_prompts_are_the_lines_with_something_in_them(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("Who are you?\n\n   \n  Wer bist du? Grüße \r\n", "utf-8")
    assert given.prompts(file) == ["Who are you?", "Wer bist du? Grüße"]


def test_prompts_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    with pytest.raises(Problem, match=r"prompts\.txt cannot be read"):
        given.prompts(file)
    file.write_bytes(b"\xff\xfe\x00what")
    with pytest.raises(Problem, match=r"prompts\.txt cannot be read"):
        given.prompts(file)
    file.write_text("\n \n")
    with pytest.raises(Problem, match="There is no prompt"):
        given.prompts(file)


# ---------------------------------------------------------------------------------------------------------------- texts


def test_a_folder_is_read_end_to_end(tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").write_text("one two three four five", "utf-8")
    (tmp_path / "b" / "c.MD").write_text("# Grüße\nsix seven", "utf-8")
    (tmp_path / "d.py").write_text("nothing of interest")
    every = ids(small.tokenizer, "one two three four five") + ids(small.tokenizer, "# Grüße\nsix seven")
    monkeypatch.setattr(given, "ROWS", 2)
    shards = given.texts(tmp_path, small.tokenizer, 5)
    rows = len(every) // 5
    assert rows >= 3
    assert [len(s.ids) for s in shards] == [2] * (rows // 2) + [1] * (rows % 2)
    assert joined(shards) == (every[: rows * 5], [True] * (rows * 5))
    assert all(s.states is None and s.ids.shape == s.mine.shape for s in shards)


def test_too_little_to_learn_from(tmp_path: Path, small: Small) -> None:
    with pytest.raises(Problem, match="has 0 tokens, too few"):
        given.texts(tmp_path, small.tokenizer, 5)
    (tmp_path / "a.txt").write_text("one two")
    with pytest.raises(Problem, match="Give at least 400"):
        given.texts(tmp_path, small.tokenizer, 400)


# ---------------------------------------------------------------------------------------------------------------- chats


def chats(path: Path, *conversations: list[dict[str, str]]) -> Path:
    path.write_text("\n".join(json.dumps({"messages": c}) for c in conversations) + "\n\n", "utf-8")
    return path


def test_of_a_chat_the_replies_are_the_targets(tmp_path: Path, small: Small) -> None:
    file = chats(tmp_path / "chats.jsonl", CHAT, CHAT)
    rendered = small.tokenizer.apply_chat_template(CHAT, tokenize=False)
    found, mine = joined(given.texts(file, small.tokenizer, 1))
    assert small.tokenizer.decode(found) == rendered * 2
    assert 0 < sum(mine) < len(mine)
    # With the token that ends a reply, and without what the template puts in front of it.
    assert own(small.tokenizer, file, 1) == "four five six<|im_end|>\nseven eight nine<|im_end|>\n" * 2


def test_chats_of_other_templates(tmp_path: Path) -> None:
    file = chats(tmp_path / "chats.jsonl", CHAT)
    brackets = tokenizer(tmp_path / "brackets", BRACKETS)
    assert own(brackets, file, 1) == " four five six<|im_end|> seven eight nine<|im_end|>"
    none = tokenizer(tmp_path / "none", None)
    assert own(none, file, 1) == "four five six\n\nseven eight nine\n\n"
    found, _ = joined(given.texts(file, none, 1))
    assert none.decode(found) == "".join(m["content"] + "\n\n" for m in CHAT)
    with pytest.raises(Problem, match="does not take a chat: one question only"):
        given.texts(file, tokenizer(tmp_path / "once", ONCE), 1)


def test_a_line_ends_where_json_lines_do(tmp_path: Path, small: Small) -> None:
    """Not at the other characters that Unicode calls line breaks, which may stand in a string."""
    reply = "four\u2028five\x85six"
    file = tmp_path / "chats.jsonl"
    messages = [CHAT[0], {"role": "assistant", "content": reply}]
    file.write_text(json.dumps({"messages": messages}, ensure_ascii=False), "utf-8")
    assert own(small.tokenizer, file, 1) == reply + "<|im_end|>\n"


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"messages": 3}', '{"messages": [{"role": "user"}]}', '{"messages": ["hello"]}', '"text"'],
)
def test_a_line_that_is_no_chat_is_named(tmp_path: Path, small: Small, line: str) -> None:
    file = chats(tmp_path / "chats.jsonl", CHAT)
    file.write_text(file.read_text().rstrip("\n") + "\n\n" + line, "utf-8")
    with pytest.raises(Problem, match=r"Line 3 of .*chats\.jsonl is no chat") as refused:
        given.texts(file, small.tokenizer, 1)
    assert "messages" in refused.value.remedy


def test_files_that_cannot_be_read(tmp_path: Path, small: Small) -> None:
    with pytest.raises(Problem, match="cannot be read"):
        given.texts(tmp_path / "nowhere", small.tokenizer, 4)
    (tmp_path / "bytes").write_bytes(b"\xff\xff")
    with pytest.raises(Problem, match="cannot be read"):
        given.texts(tmp_path / "bytes", small.tokenizer, 4)
