"""Cutting markdown into blocks while it arrives."""

from __future__ import annotations

import random
import time

import pytest

from desktop.chat.blocks import LONGEST, Block, Splitter, is_hostile, read_fence

SAMPLE = (
    "Para **one**\nstill one\n\n\n# Head\ntext\n- a\n- b\n\n- c\n  more\n\nafter\n```py\nx = 1\n\ny\n```\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\nlast ~~~ line"
)


def split(pieces: list[str]) -> list[Block]:
    splitter, found = Splitter(), []
    for piece in pieces:
        found += splitter.feed(piece)
    return found + splitter.finish()


def test_nothing_is_lost_and_pieces_do_not_matter() -> None:
    whole = split([SAMPLE])
    assert "".join(b.source for b in whole) == SAMPLE
    for seed in range(20):
        pick, at, pieces = random.Random(seed), 0, []
        while at < len(SAMPLE):
            size = pick.randint(1, 6)
            pieces.append(SAMPLE[at : at + size])
            at += size
        assert split(pieces) == whole


def test_a_list_goes_on_over_a_blank_line() -> None:
    blocks = [b.source for b in split([SAMPLE]) if b.source.strip()]
    assert "text\n- a\n- b\n\n- c\n  more\n\n" in blocks


def test_a_fence_is_one_block_with_blank_lines() -> None:
    fences = [b.source for b in split([SAMPLE]) if b.kind == "fence"]
    assert fences == ["```py\nx = 1\n\ny\n```\n"]


@pytest.mark.parametrize(
    ("source", "code", "language"),
    [
        ("```py\nx\n```\n", "x", "py"),
        ("```\nx\n", "x", ""),
        ("```py\n", "", "py"),
        ("```py", "", "py"),
        ("~~~~ c++ title\na\n~~~\nb\n~~~~", "a\n~~~\nb", "c++"),
        ("```\n\n```\n", "", ""),
    ],
)
def test_read_fence(source: str, code: str, language: str) -> None:
    fence = read_fence(source)
    assert source[fence.start : fence.end] == code
    assert fence.language == language


def test_long_blocks_are_cut() -> None:
    source = "x" * 1_000_000
    start = time.perf_counter()
    blocks = split([source])
    assert time.perf_counter() - start < 2
    assert "".join(b.source for b in blocks) == source
    assert max(len(b.source) for b in blocks) <= LONGEST
    assert {b.kind for b in blocks[:-1]} == {"plain"}


def test_a_long_fence_goes_on_as_code() -> None:
    source = "```py\n" + "line\n" * 10_000 + "```\nafter"
    blocks = split([source])
    assert "".join(b.source for b in blocks) == source
    assert [b.kind for b in blocks][:2] == ["fence", "code"]
    assert blocks[-1] == Block("after", "text")


@pytest.mark.parametrize("source", ["> " * 50 + "x", "- " * 40 + "x", "[" * 900, " " * 200 + "x", "a\0b"])
def test_hostile_markdown_is_known(source: str) -> None:
    assert is_hostile(source)


def test_plain_markdown_is_not_hostile() -> None:
    assert not is_hostile(SAMPLE)
