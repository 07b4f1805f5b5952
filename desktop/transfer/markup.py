"""Markdown to HTML, small and safe, with the drafter of every piece of the source kept.

Everything is escaped, links go to the web or to mail only, and nothing in a text can become markup that it did not
write as Markdown. Knows nothing of chats.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence

Open = Callable[[str], str]  # the opening tag of what a drafter proposed

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})\s*([^`\s]*)[^`]*$")
_HEADING = re.compile(r" {0,3}(#{1,6})\s+")
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_QUOTE = re.compile(r" {0,3}> ?")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|(\d{1,9})[.)])[ \t]+")
_CELLS = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
_INLINE = re.compile(
    r"(?P<ticks>`+)(?P<code>[^\n]{1,2000}?)(?<!`)(?P=ticks)(?!`)"
    r"|\*\*(?P<strong>[^\s*](?:[^\n]{0,2000}?[^\s])?)\*\*"
    r"|(?<![\w*])\*(?P<em>[^\s*](?:[^*\n]{0,2000}?[^\s*])?)\*(?![\w*])"
    r"|~~(?P<del>[^\s~](?:[^\n]{0,2000}?[^\s])?)~~"
    r"|\[(?P<label>[^\]\n]{1,500})\]\((?P<link>(?:https?://|mailto:)[^\s()]{1,2000})\)"
)
_DEEPEST = 6


class Markup:
    """One text. `runs` are [length, drafter] from its start; `opening` makes the tag around a drafter's piece."""

    def __init__(self, text: str, runs: Sequence[tuple[int, str | None]], opening: Open) -> None:
        self._text, self._opening = text, opening
        self._starts, self._drafters = [0], [None]
        at = 0
        for length, drafter in runs:
            if length and self._drafters[-1] != drafter:
                self._starts.append(at)
                self._drafters.append(drafter)  # type: ignore[arg-type]
            at += length
        if at < len(text) and self._drafters[-1] is not None:
            self._starts.append(at)
            self._drafters.append(None)
        self._out: list[str] = []

    def html(self) -> str:
        """The text as HTML."""
        lines, at = [], 0
        for line in self._text.split("\n"):
            lines.append((at, at + len(line)))
            at += len(line) + 1
        self._blocks(lines, 0)
        return "".join(self._out)

    # -------------------------------------------------------------------------------------------- blocks

    def _line(self, line: tuple[int, int]) -> str:
        return self._text[line[0] : line[1]]

    def _blocks(self, lines: list[tuple[int, int]], depth: int) -> None:
        k = 0
        while k < len(lines):
            text = self._line(lines[k])
            if not text.strip():
                k += 1
            elif fence := _FENCE.match(text):
                k = self._fence(lines, k, fence.group(1))
            elif heading := _HEADING.match(text):
                level = len(heading.group(1)) + 1  # the page's own title is the first
                self._wrap(f"h{min(level, 6)}", lines[k][0] + heading.end(), lines[k][1])
                k += 1
            elif _RULE.match(text):
                self._out.append("<hr>\n")
                k += 1
            elif _QUOTE.match(text) and depth < _DEEPEST:
                inside = []
                while k < len(lines) and (mark := _QUOTE.match(self._line(lines[k]))):
                    inside.append((lines[k][0] + mark.end(), lines[k][1]))
                    k += 1
                self._out.append("<blockquote>\n")
                self._blocks(inside, depth + 1)
                self._out.append("</blockquote>\n")
            elif _ITEM.match(text):
                k = self._list(lines, k)
            elif "|" in text and k + 1 < len(lines) and self._is_table(lines[k + 1]):
                k = self._table(lines, k)
            else:
                first = k
                while k < len(lines) and self._line(lines[k]).strip() and (k == first or not self._begins(lines[k])):
                    k += 1
                self._wrap("p", lines[first][0], lines[k - 1][1])

    def _begins(self, line: tuple[int, int]) -> bool:
        text = self._line(line)
        return any(pattern.match(text) for pattern in (_FENCE, _HEADING, _RULE, _QUOTE, _ITEM))

    def _is_table(self, line: tuple[int, int]) -> bool:
        text = self._line(line)
        return "|" in text and len(text) < 2000 and _CELLS.match(text) is not None

    def _wrap(self, tag: str, start: int, end: int) -> None:
        self._out.append(f"<{tag}>")
        self._inline(start, end)
        self._out.append(f"</{tag}>\n")

    def _fence(self, lines: list[tuple[int, int]], k: int, mark: str) -> int:
        closing = re.compile(rf" {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}\s*$")
        self._out.append("<pre><code>")
        k += 1
        while k < len(lines) and not closing.match(self._line(lines[k])):
            self._plain(*lines[k])
            self._out.append("\n")
            k += 1
        self._out.append("</code></pre>\n")
        return k + 1

    def _list(self, lines: list[tuple[int, int]], k: int) -> int:
        ordered = _ITEM.match(self._line(lines[k])).group(2)  # type: ignore[union-attr]
        tag = "ul" if ordered is None else "ol"
        self._out.append(f"<{tag}>\n" if ordered is None else f'<ol start="{int(ordered)}">\n')
        while (
            k < len(lines) and (item := _ITEM.match(self._line(lines[k]))) and (item.group(2) is None) == (tag == "ul")
        ):
            depth = min(len(item.group(1).expandtabs(4)) // 2, _DEEPEST)
            self._out.append(f'<li class="in{depth}">' if depth else "<li>")
            start, end = lines[k][0] + item.end(), lines[k][1]
            k += 1
            # Lines that are set in go on with the item.
            while k < len(lines) and self._line(lines[k])[:1] in (" ", "\t") and not self._begins(lines[k]):
                if not self._line(lines[k]).strip():
                    break
                end = lines[k][1]
                k += 1
            self._inline(start, end)
            self._out.append("</li>\n")
        self._out.append(f"</{tag}>\n")
        return k

    def _table(self, lines: list[tuple[int, int]], k: int) -> int:
        self._out.append("<table>\n")
        tag, first = "th", k
        while k < len(lines) and "|" in (text := self._line(lines[k])):
            if k != first + 1:
                self._out.append("<tr>")
                at = lines[k][0] + len(text) - len(text.lstrip())
                row = text.strip()
                if row.startswith("|"):
                    row, at = row[1:], at + 1
                for cell in row.removesuffix("|").split("|"):
                    lead = len(cell) - len(cell.lstrip())
                    self._out.append(f"<{tag}>")
                    self._inline(at + lead, at + lead + len(cell.strip()))
                    self._out.append(f"</{tag}>")
                    at += len(cell) + 1
                self._out.append("</tr>\n")
                tag = "td"
            k += 1
        self._out.append("</table>\n")
        return k

    # -------------------------------------------------------------------------------------------- inline

    def _inline(self, start: int, end: int, depth: int = 0) -> None:
        at = start
        if depth < _DEEPEST:
            for match in _INLINE.finditer(self._text, start, end):
                self._plain(at, match.start())
                at = match.end()
                kind = match.lastgroup or ""
                if kind == "link":
                    address = html.escape(match.group("link"))
                    self._out.append(f'<a href="{address}" rel="noreferrer">')
                    self._inline(*match.span("label"), depth + 1)
                    self._out.append("</a>")
                elif kind == "code":
                    self._out.append("<code>")
                    self._plain(*match.span("code"))
                    self._out.append("</code>")
                else:
                    self._out.append(f"<{kind}>")
                    self._inline(*match.span(kind), depth + 1)
                    self._out.append(f"</{kind}>")
        self._plain(at, end)

    def _plain(self, start: int, end: int) -> None:
        """The source from `start` to `end`, escaped, each drafter's piece in its tag."""
        k = bisect_right(self._starts, start) - 1
        while start < end:
            stop = min(end, self._starts[k + 1]) if k + 1 < len(self._starts) else end
            text = html.escape(self._text[start:stop])
            drafter = self._drafters[k]
            self._out.append(f"{self._opening(drafter)}{text}</span>" if drafter is not None else text)
            start, k = stop, k + 1
