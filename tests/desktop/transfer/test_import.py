"""What is read: our own files, ChatGPT's, LM Studio's; and what is said of broken and foreign ones."""

from __future__ import annotations

import copy
import json
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from desktop.store import Store
from desktop.transfer.bundle import Bundle, path_of, put, take
from desktop.transfer.files import load, load_one, save_one
from desktop.transfer.formats import JSON
from mlx_spec.events import Problem
from tests.desktop.transfer.samples import branched, chatgpt, lmstudio, node


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "chats.db")
    yield store
    store.close()


def written(folder: Path, data: Any, name: str = "file.json") -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), "utf-8")
    return path


def shown(bundle: Bundle) -> list[tuple[str, str]]:
    return [(p.role, p.text) for p in path_of(bundle)]


def test_chatgpt_with_its_branches(tmp_path: Path, store: Store) -> None:
    (bundle,) = load_one(written(tmp_path, chatgpt(), "conversations.json"))
    assert bundle.title == "Old chat"
    assert (bundle.created, bundle.updated) == (1700000000.0, 1700000100.0)
    assert shown(bundle) == [
        ("user", "[image]\n\nSecond wording"),
        ("assistant", "Let me see.\n\n```python\nx = 1\n```"),
        ("user", "Go on"),
        ("assistant", "Another way"),
    ]
    by_text = {p.text: p for p in bundle.pieces}
    assert len(by_text) == 7
    assert by_text["First wording"].parent is None
    assert by_text["Reply to the first"].parent == by_text["First wording"].id
    assert by_text["Reply to the first"].model == "gpt-4"
    assert by_text["One way"].parent == by_text["Another way"].parent == by_text["Go on"].id
    (number,) = put(store, [bundle])
    assert len(store.siblings(store.messages(number)[-1].id)) == 2
    assert len(store.siblings(store.messages(number)[0].id)) == 2


def test_chatgpt_as_the_archive_that_one_gets(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("chat.html", "<html>")
        archive.writestr("export/conversations.json", json.dumps(chatgpt() * 2))
    assert len(load_one(path)) == 2


def test_chatgpt_one_chat_and_a_lost_current_node(tmp_path: Path) -> None:
    chat = chatgpt()[0] | {"current_node": "nowhere", "title": None, "create_time": "x"}
    (bundle,) = load_one(written(tmp_path, chat))
    assert bundle.title == ""
    assert path_of(bundle)[-1].text == "Another way"


def test_lm_studio_with_its_versions(tmp_path: Path) -> None:
    (bundle,) = load_one(written(tmp_path, lmstudio(), "1700000000000.conversation.json"))
    assert (bundle.title, bundle.pinned, bundle.created) == ("From the studio", True, 1700000000.0)
    assert shown(bundle) == [("user", "Hi there"), ("assistant", "<think>\nhm\n</think>\n\nHello!")]
    assert bundle.pieces[0].text == "Hi"
    assert path_of(bundle)[1].model == "qwen"


def test_plain_messages(tmp_path: Path) -> None:
    data = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [{"text": "Ho"}]}]}
    (bundle,) = load_one(written(tmp_path, data, "talk.json"))
    assert bundle.title == "talk"
    assert shown(bundle) == [("user", "Hi"), ("assistant", "Ho")]


def test_several_files_or_none(tmp_path: Path) -> None:
    fine = written(tmp_path, lmstudio(), "a.json")
    assert len(load([fine, fine])) == 2
    with pytest.raises(Problem, match=r"b\.json"):
        load([fine, written(tmp_path, "{", "b.json")])


CIRCLE = {"title": "x", "mapping": {"a": node("a", "b", ["b"], "user", "x"), "b": node("b", "a", ["a"], "user", "y")}}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("", "not a file of chats"),
        ("hello", "not a file of chats"),
        ("[]", "not a file of chats"),
        ('{"a": 1}', "not a file of chats"),
        ("[1, 2]", "not a file of chats"),
        ('{"messages": [', "cut off"),
        ("[" * 100_000, "damaged"),
        ('{"messages": []}', "no messages"),
        ('{"messages": [3]}', "damaged"),
        ({"format": "outrider-chats", "version": 99, "chats": []}, "newer Outrider"),
        ({"format": "outrider-chats", "chats": []}, "damaged"),
        ({"format": "outrider-chats", "version": 1, "chats": 3}, "damaged"),
        ({"format": "outrider-chats", "version": 1, "chats": [{}]}, "damaged"),
        ([{"title": "x", "mapping": {"a": 3}}], "damaged"),
        ([CIRCLE], "circle"),
        ([chatgpt()[0], 7], "damaged"),
    ],
)  # fmt: skip
def test_broken_and_foreign_files_are_one_sentence(tmp_path: Path, data: Any, words: str) -> None:
    with pytest.raises(Problem, match=words) as told:
        load_one(written(tmp_path, data))
    assert "file.json" in told.value.message or "newer" in told.value.message
    assert told.value.remedy


def test_files_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x00{")
    (tmp_path / "b.json").write_bytes(b"PK\x03\x04 this is no archive")
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("x.txt", "x")
    for name, words in (
        ("a.json", "not a file"),
        ("b.json", "damaged archive"),
        ("c.zip", "not a file"),
        ("d", "read"),
    ):
        with pytest.raises(Problem, match=words):
            load_one(tmp_path / name)
    with pytest.raises(Problem, match="read"):
        load_one(tmp_path)


def spoil(data: Any, rng: random.Random) -> Any:
    """The same data with one value somewhere in it replaced or taken away."""
    data = copy.deepcopy(data)
    at = data
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return data
        key = rng.choice(keys)
        if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.8:
            at = at[key]
            continue
        if rng.random() < 0.3:
            del at[key]
        else:
            at[key] = rng.choice([None, 3, -1, 1e300, "x", [], {}, True, [[1]], "\ud800\0", 2**70])
        return data


def test_spoiled_files_change_nothing_or_can_be_shown(tmp_path: Path, store: Store) -> None:
    chat = branched(store)
    save_one(store, chat, JSON, tmp_path / "ours.json")
    ours = json.loads((tmp_path / "ours.json").read_text("utf-8"))
    rng = random.Random(5)
    taken = 0
    for data in (ours, chatgpt(), lmstudio()):
        for _ in range(250):
            try:
                bundles = load_one(written(tmp_path, spoil(data, rng)))
            except Problem:
                continue
            taken += 1
            for number in put(store, bundles):
                for row in store.messages(number):
                    assert row.text
                    store.rounds(row.id)
                take(store, number)
    assert taken > 50
