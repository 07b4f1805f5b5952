"""Past replies: kept, found, capped, forgotten, and never in the way."""

from __future__ import annotations

import time
from pathlib import Path

from mlx_spec.drafters.history import PastReplies
from mlx_spec.events import SamplingSettings
from mlx_spec.replies import Replies, forget, tokenizer_hash
from mlx_spec.sampling import History


def store(path: Path, most: int = 1000) -> Replies:
    made = Replies(path, most)
    assert made.ready.wait(10)
    return made


def test_what_was_written_once_is_offered_again_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    store(path).add("1", [5, 6, 7, 8, 9, 10])
    drafter = PastReplies(store(path))
    offer = drafter.offer(History([1, 2, 6, 7, 8], 50, SamplingSettings()), 8)
    assert offer is not None
    assert offer.tokens == (9, 10)  # and no further: a reply ends there
    assert offer.key == "3"
    assert drafter.offer(History([6, 7, 8, 11], 50, SamplingSettings()), 8) is None


def test_the_longest_match_wins_then_the_vote_then_the_latest(tmp_path: Path) -> None:
    replies = store(tmp_path / "a.jsonl")
    replies.add("1", [1, 2, 3, 4, 20])
    replies.add("1", [9, 2, 3, 4, 30, 31])
    replies.add("1", [8, 2, 3, 4, 30, 32])
    replies.add("1", [7, 2, 3, 4, 40])
    assert replies.match([0, 1, 2, 3, 4], 4) == (4, [20])
    assert replies.match([0, 2, 3, 4], 4) == (3, [30, 32])


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first = store(path)
    for i in range(30):
        first.add("1", [100 * i + j for j in range(10)])
    second = store(path, most=100)
    assert len(second) < 120
    assert second.match([2901, 2902, 2903], 2) == (3, [2904, 2905])
    assert second.match([1, 2, 3], 2) == (0, [])
    assert len(path.read_text().splitlines()) < 11


def test_a_chat_can_be_forgotten(tmp_path: Path) -> None:
    path, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    replies = store(path)
    replies.add("1", [1, 2, 3, 4])
    replies.add("2", [5, 6, 7, 8])
    store(other).add("1", [1, 2, 3])
    replies.forget("1")
    assert replies.match([1, 2, 3], 2) == (0, [])
    assert replies.match([5, 6, 7], 2) == (3, [8])
    assert '"1"' not in path.read_text() + other.read_text()
    assert forget(tmp_path, "1") == 0


def test_a_broken_file_costs_only_its_broken_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"chat":"1","ids":[1,2,3,4]}\nnonsense\n[1]\n\xff\xfe\n{"chat":"1","ids":["x"]}\n{"chat":"1","ids":[5,'
    )
    assert store(path).match([1, 2, 3], 2) == (3, [4])
    nowhere = store(tmp_path / "file" / "a.jsonl")
    (tmp_path / "file").write_text("a file where a folder should be")
    nowhere.add("1", [1, 2, 3, 4])
    assert nowhere.match([1, 2, 3], 2) == (3, [4])


def test_a_tokenizer_is_named_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    one = tokenizer_hash(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert tokenizer_hash(tmp_path) == one
    (tmp_path / "tokenizer.json").write_text("{ }")
    assert tokenizer_hash(tmp_path) != one


def test_many_replies_load_in_the_background(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("w") as file:
        for i in range(100):
            file.write('{"chat":"1","ids":[' + ",".join(str((i * 37 + j * j) % 5000) for j in range(1000)) + "]}\n")
    started = time.perf_counter()
    replies = Replies(path, 10**6)
    assert time.perf_counter() - started < 1
    assert replies.ready.wait(30)
    assert len(replies) > 100_000


def test_a_damaged_store_is_set_aside_and_rebuilt_and_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first = store(path)
    for i in range(4):
        first.add("1", [10 * i + j for j in range(6)])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\x00\xff\xfe garbage\n" + lines[2] + b'{"chat": "1", "ids": [-4]}\n' + lines[3][:9])
    second = store(path)
    assert second.match([20, 21, 22], 2) == (3, [23, 24])
    assert second.match([10, 11, 12], 2) == (0, [])
    assert path.with_suffix(".damaged").read_bytes().startswith(lines[0] + b"\x00")
    assert "2 replies that could be read" in second.notices[0]
    assert path.read_bytes() == lines[0] + lines[2]
    assert store(path).notices == []


def test_a_last_line_that_was_cut_off_is_nothing_to_tell(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    store(path).add("1", [1, 2, 3, 4])
    with path.open("a") as file:
        file.write('{"chat": "2", "ids": [5, 6')
    second = store(path)
    assert second.notices == []
    second.add("3", [7, 8, 9, 10])
    third = store(path)
    assert third.match([7, 8, 9], 1) == (3, [10])
    assert third.notices == []
