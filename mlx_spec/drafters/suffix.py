"""A suffix automaton over the whole conversation: what followed the longest earlier copy of these words?

Blumer et al. 1985 (the automaton); Hu et al. 2024, "SAM-Decoding" (arXiv 2411.10666) for drafting with it. The
automaton grows by a token in amortised constant time. The state of the whole text has a suffix link to the
longest suffix that stood somewhere before, however long, and each state remembers where it last ended: what
followed there is the draft. Where that place is recent the text is often going round, so the latest is right
more often than the first.

Against lookup.py: any length of match, found without trying places one after another; a match is worth what
its length and the number of its occurrences have proved to be worth (the controller learns by `key`). It
knows token ids only. Memory: about 300 bytes a token.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..sampling import History
from .base import Free, Offer
from .lookup import bucket, copied

SHORTEST = 2  # tokens that must agree
CLIMB = 64  # suffix links followed to note a new end


class Suffix(Free):
    name = "suffix"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link: list[int] = [-1]
        self._length: list[int] = [0]
        self._end: list[int] = [-1]  # where this state's strings last ended, before the present place
        self._seen: list[int] = [0]
        self._last = 0
        self._match = (0, -1, 0)  # length, end of the earlier copy, times seen

    def begin(self, prompt: Sequence[int]) -> None:
        """Keeps what it has where `prompt` goes on from it."""
        if list(prompt[: len(self._tokens)]) != self._tokens:
            self.reset()
        self._grow(prompt)

    def _grow(self, history: Sequence[int]) -> None:
        for i in range(len(self._tokens), len(history)):
            self._append(history[i])

    def _append(self, token: int) -> None:
        nexts, links, lengths = self._next, self._link, self._length
        at = len(self._tokens)
        self._tokens.append(token)
        new = len(nexts)
        nexts.append({})
        links.append(0)
        lengths.append(lengths[self._last] + 1)
        self._end.append(at)
        self._seen.append(0)
        p = self._last
        while p >= 0 and token not in nexts[p]:
            nexts[p][token] = new
            p = links[p]
        if p >= 0:
            q = nexts[p][token]
            if lengths[q] == lengths[p] + 1:
                links[new] = q
            else:
                clone = len(nexts)
                nexts.append(dict(nexts[q]))
                links.append(links[q])
                lengths.append(lengths[p] + 1)
                self._end.append(self._end[q])
                self._seen.append(self._seen[q])
                while p >= 0 and nexts[p].get(token) == q:
                    nexts[p][token] = clone
                    p = links[p]
                links[q] = links[new] = clone
        self._last = new
        # The longest suffix that stood here before, where it ended then; only now is this place an end, too.
        v = links[new]
        self._match = (lengths[v], self._end[v], self._seen[v]) if v > 0 else (0, -1, 0)
        for _ in range(CLIMB):
            if v <= 0:
                break
            self._end[v] = at
            self._seen[v] += 1
            v = links[v]

    def offer(self, history: History, limit: int) -> Offer | None:
        self._grow(history.tokens)
        length, end, seen = self._match
        if length < SHORTEST:
            return None
        return Offer(limit, bucket(length) + ("" if seen < 2 else "*"), copied(self._tokens, end + 1, limit))
