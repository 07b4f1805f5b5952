"""Cuts markdown that is still arriving into blocks which can be rendered one by one and never change again.

A block is closed by a blank line, by the end of a fence, or by its size; a list goes on over a blank line when the
next line belongs to it. The joined sources of all blocks are exactly the text that came. Knows no Qt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 20_000  # characters; a longer open block is cut and shown as plain text
_PIECE = 4_096
LIST_CUT = 1_200  # a longer list is cut at the next blank line between two of its items

_FENCE = re.compile(r"^( {0,12})(`{3,}|~{3,})([^`\n]*)$")
_ITEM = re.compile(r"^ {0,3}(?:[-*+]|\d{1,9}[.)])(?: |$)")
_HEADING = re.compile(r"^ {0,3}#{1,6} ")
# What a renderer of markdown might choke on: deep nesting, and brackets without end.
_DEEP = re.compile(r"^(?:[ \t]*(?:>|[-*+] |\d{1,9}[.)] )){9,}", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]{60,}", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the source. `kind` is "text" (markdown), "fence", "code" (a later piece of a
    fence that was cut for its length) or "plain" (to be shown as it is)."""

    source: str
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Fence:
    """The parts of a fenced block: where its code starts and ends in the block's source, and its language."""

    start: int
    end: int
    language: str
    indent: int


def read_fence(source: str) -> Fence:
    """Take a fence apart, closed or still open. `source` starts with the opening line, newline included."""
    first, _, rest = source.partition("\n")
    match = _FENCE.match(first)
    indent, mark, info = (match[1], match[2], match[3].strip()) if match else ("", "```", "")
    start = len(first) + 1
    end = len(source)
    body = source[start:]
    last = body.rstrip("\n").rpartition("\n")[2] if rest else ""
    if rest and is_closing(last, mark):
        end = start + len(body.rstrip("\n")) - len(last)
    if end > start and source[end - 1] == "\n":
        end -= 1
    return Fence(min(start, len(source)), max(end, min(start, len(source))), info.split(" ")[0], len(indent))


def is_closing(line: str, mark: str) -> bool:
    """Whether a line ends the fence that `mark` opened."""
    line = line.strip()
    return len(line) >= len(mark) and set(line) == {mark[0]}


def is_hostile(source: str) -> bool:
    """Whether markdown is so deeply nested or so odd that it is better shown as it is."""
    return bool(
        len(source) > LONGEST
        or source.count("[") > 400
        or source.count("`") > 2_000
        or source.count("|") > 4_000
        or "\0" in source
        or _DEEP.search(source)
        or _INDENT.search(source)
    )


class Splitter:
    """Feed it text; it gives closed blocks and keeps the open one."""

    def __init__(self) -> None:
        self.open = ""  # the source of the open block
        self._line = 0  # where the unfinished line starts in it
        self._mark = ""  # the fence that is open, "" if none
        self._is_list = False
        self._continued = False  # the open block is a later piece of a fence that was cut
        self._blank = False  # a list has seen a blank line and waits for what follows

    @property
    def open_kind(self) -> str:
        """What the open block is so far; it is a fence once its opening line is complete."""
        return ("code" if self._continued else "fence") if self._mark else "text"

    def feed(self, text: str) -> list[Block]:
        """Add text; return the blocks that it closed, in order."""
        closed: list[Block] = []
        for start in range(0, len(text), _PIECE):  # so that what is open stays short, whatever comes at once
            self.open += text[start : start + _PIECE]
            while (end := self.open.find("\n", self._line)) >= 0:
                self._take_line(self.open[self._line : end], end + 1, closed)
            self._cut(closed)
        return closed

    def finish(self) -> list[Block]:
        """No more text comes: give what is open, if anything is."""
        if not self.open:
            return []
        closed: list[Block] = []
        if not self._mark and _FENCE.match(self.open[self._line :]):
            self._close(self._line, closed)
            self._mark = "```"
        self._close(len(self.open), closed)
        return closed

    def _take_line(self, line: str, end: int, closed: list[Block]) -> None:
        if self._mark:
            self._line = end
            if is_closing(line, self._mark):
                self._close(end, closed)
            return
        fence = _FENCE.match(line)
        if fence is not None:
            length = end - self._line
            self._close(self._line, closed)
            self._mark, self._line = fence[2], length
            return
        if not line.strip():
            self._line = end
            if self._is_list:
                self._blank = True
            else:
                self._close(end, closed)
            return
        if self._blank:
            goes_on = line.startswith(("  ", "\t")) or (_ITEM.match(line) and self._line < LIST_CUT)
            self._blank = False
            if not goes_on:
                length = end - self._line
                self._close(self._line, closed)
                self._take_line(line, length, closed)
                return
        elif _ITEM.match(line):
            self._is_list = True
        elif line.startswith("|") and self._line and not self._is_list and not self.open.startswith("|"):
            length = end - self._line  # a table right under a line of text
            self._close(self._line, closed)
            end = length
        self._line = end
        if not self._is_list and _HEADING.match(line):
            self._close(end, closed)

    def _cut(self, closed: list[Block]) -> None:
        """Close what has grown too long, in pieces of LONGEST at most."""
        while len(self.open) > LONGEST:
            head, rest = self.open[:LONGEST], self.open[LONGEST:]
            at = head.rfind("\n") + 1
            if at > LONGEST // 2:
                head, rest = head[:at], head[at:] + rest
            closed.append(Block(head, self.open_kind if self._mark else "plain"))
            self._continued = bool(self._mark)
            self.open, self._line = rest, rest.rfind("\n") + 1

    def _close(self, end: int, closed: list[Block]) -> None:
        source, self.open = self.open[:end], self.open[end:]
        if source:
            kind = self.open_kind
            closed.append(Block(source, "plain" if kind == "text" and is_hostile(source) else kind))
        self._line, self._mark, self._is_list, self._blank, self._continued = 0, "", False, False, False
