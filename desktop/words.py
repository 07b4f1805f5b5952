"""Words as the search sees them: what a person typed, where it stands in a text. Pure; knows no database, no Qt.

Case and accents do not count. A word is a run of letters and digits, as in SQLite's unicode61; Chinese, Japanese and
Thai run on without spaces, so that there a piece of text may stand anywhere.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+(?:[\u0300-\u036f]+[^\W_]*)*")
_PIECE = re.compile(r'"([^"]*)("|$)|([^\s"]+)')
# Thai, Lao, Burmese, Khmer, kana, Han and its extensions: written without spaces between the words.
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)

# What stands at a line's start for its looks alone: headings, quotes, list marks, fences.
_MARKS = re.compile(r"^\s*(?:(?:#{1,6}|>|[-*+])\s+)*(?:```+\w*)?")


@dataclass(frozen=True, slots=True)
class Term:
    """Words that stand one after the other, folded. `prefix`: the last may go on; `typed` is how it was written."""

    words: tuple[str, ...]
    prefix: bool = False
    typed: str = ""

    @property
    def anywhere(self) -> bool:
        """Whether it is looked for within words, too."""
        return bool(_UNSPACED.search(self.typed))


@lru_cache(maxsize=8192)
def fold(word: str) -> str:
    """A word without case and accents."""
    if word.isascii():
        return word.lower()
    return "".join(c for c in unicodedata.normalize("NFD", word.casefold()) if not unicodedata.combining(c))


def terms(query: str) -> list[Term]:
    """What was typed, term by term; all must be found. Quoted words stand together. Never fails.

    The last word counts as begun, not as finished, unless a space or a quote ends it.
    """
    found = []
    for match in _PIECE.finditer(query):
        quoted, closed, bare = match.groups()
        typed = bare if bare is not None else quoted
        words = tuple(fold(w) for w in _WORD.findall(typed))
        if not words:
            continue
        last = match.end() == len(query)
        begun = last and not (bare is None and closed) and not typed[-1:].isspace()
        found.append(Term(words, begun and len(words[-1]) > 1, typed.strip()))
    return found


def places(text: str, wanted: list[Term], most: int = 500) -> list[tuple[int, int]]:
    """Where the terms stand in a text: (start, end) in order, not overlapping, at most so many."""
    words = [(m.start(), m.end(), fold(m.group())) for m in _WORD.finditer(text)]
    found: list[tuple[int, int]] = []
    for term in wanted:
        size = len(term.words)
        for k in range(len(words) - size + 1):
            if all(words[k + i][2] == term.words[i] for i in range(size - 1)):
                last = words[k + size - 1][2]
                wish = term.words[-1]
                if last == wish or (term.prefix and last.startswith(wish)):
                    found.append((words[k][0], words[k + size - 1][1]))
        if term.anywhere:
            found += [m.span() for m in re.finditer(re.escape(term.typed), text, re.IGNORECASE)]
    found.sort(key=lambda place: (place[0], -place[1]))
    kept: list[tuple[int, int]] = []
    for start, end in found:
        if not kept or start >= kept[-1][1]:
            kept.append((start, end))
    return kept[:most]


def title_of(text: str, most: int = 60) -> str:
    """A title for a chat that begins with this text: its first line that says something, without Markdown's marks.

    Cut between words where there are any, never within a letter and its accents. "" if nothing is left.
    """
    for line in text.splitlines():
        line = " ".join(_MARKS.sub("", line).split())
        if _WORD.search(line):
            break
    else:
        line = " ".join(text.split())
    if len(line) <= most:
        return line
    cut = line.rfind(" ", most // 2, most)
    if cut < 0:
        cut = most - 1
        while cut > 1 and (unicodedata.combining(line[cut]) or "\u200d" in line[cut - 1 : cut + 1]):
            cut -= 1
    return line[:cut].rstrip(" ,;:.-–—") + "…"


def snippet(text: str, wanted: list[Term], before: int = 40, length: int = 160) -> tuple[str, list[tuple[int, int]]]:
    """A piece of a text on one line around the first term, and where the terms stand in that piece."""
    first = places(text, wanted, 1)
    start = max(0, first[0][0] - before) if first else 0
    if start:
        gap = text.find(" ", start, first[0][0])
        start = gap + 1 if gap >= 0 else start
    piece = " ".join(text[start : start + length * 2].split())
    if len(piece) > length:
        piece = piece[:length].rstrip() + "…"
    elif start + length * 2 < len(text):
        piece += "…"
    if start:
        piece = "…" + piece
    return piece, places(piece, wanted)
