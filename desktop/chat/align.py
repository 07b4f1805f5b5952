"""Finds where each character of a markdown source went in the text that was rendered from it. Knows no Qt.

Rendering only leaves characters out (the marks) or replaces a few (entities), so a walk along both texts that looks
ahead where they part is enough; a slip costs a tint on a neighbouring character and heals by itself.
"""

from __future__ import annotations

_MARKS = frozenset("*_`~[]#>|-+\\\n!")
_AHEAD = 400  # how many source characters may be left out at one place (a long link address)


def utf16_length(text: str) -> int:
    """How many positions a text takes in a QTextDocument."""
    return len(text) if text.isascii() else len(text) + sum(1 for c in text if c > "\uffff")


def positions(text: str, start: int = 0) -> list[int]:
    """The document position of each character of `text` and of its end, when it stands at `start`."""
    if text.isascii() or max(text) <= "\uffff":
        return list(range(start, start + len(text) + 1))
    found = [start]
    for c in text:
        found.append(found[-1] + (2 if c > "\uffff" else 1))
    return found


def _find(source: str, at: int, text: str) -> int:
    """Where `text` goes on in the source after something was left out, -1 if nowhere near."""
    near = source.find(text[0], at, at + _AHEAD)
    if near < 0 or set(source[at:near]) <= _MARKS:
        return near
    for length in (6, 3, 2):
        found = source.find(text[:length], at, at + _AHEAD) if len(text) >= length else -1
        if found >= 0:
            return found
    return near


def align(source: str, text: str) -> list[int]:
    """Document positions (in `text`, from 0) for each character of `source` and for its end.

    Never falling. A character that was left out gets the position of the next one that was kept.
    """
    if not text:
        return [0] * (len(source) + 1)
    place = positions(text)
    result = [-1] * len(source)
    at = 0  # in the source
    i, n, m = 0, len(text), len(source)
    while i < n and at < m:
        c = text[i]
        if source[at] == c:
            result[at] = place[i]
            at, i = at + 1, i + 1
            continue
        if c in "\u2029\ufdd0\ufdd1" or (c == " " and source[at] == "\n"):
            if source[at] in "\n |":
                result[at] = place[i]
                at += 1
            i += 1
            continue
        found = _find(source, at, text[i : i + 6])
        if found >= 0:
            at = found
            result[at] = place[i]
            at += 1
        i += 1
    end = place[-1]
    following = end
    for k in range(m - 1, -1, -1):
        if result[k] < 0:
            result[k] = following
        else:
            following = result[k]
    result.append(end)
    return result
