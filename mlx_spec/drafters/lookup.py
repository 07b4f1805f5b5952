"""Prompt lookup: what followed the last time the same few tokens stood here?

Saxena 2023, "Prompt Lookup Decoding". The whole conversation is indexed by its pairs of tokens as it grows,
so a proposal costs the same at any length. Of the latest places where the last pair stood, the one whose
context agrees furthest back wins, the later one in a tie; what followed it is the draft. It knows token ids
only: no model, no probabilities. It does not know how far to trust itself: the controller learns that for
each length of match.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..sampling import History
from .base import Free, Offer

PLACES = 8  # the latest ones looked at
LONGEST = 32  # matches are not followed further back than this


def bucket(match: int) -> str:
    """The class of a match by its length in tokens."""
    for top in (2, 3, 4, 6, 10, 20):
        if match <= top:
            return str(top)
    return "21+"


def copied(tokens: Sequence[int], place: int, limit: int) -> tuple[int, ...]:
    """The `limit` tokens from `place` on. A copy that reaches the end of the text goes on with itself: the text
    goes round."""
    draft = list(tokens[place : place + limit])
    period = len(tokens) - place
    while len(draft) < limit:
        draft.append(draft[len(draft) - period])
    return tuple(draft)


class Lookup(Free):
    name = "lookup"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._tokens: list[int] = []
        self._places: dict[tuple[int, int], list[int]] = {}

    def begin(self, prompt: Sequence[int]) -> None:
        self.reset()
        self._index(prompt)

    def _index(self, history: Sequence[int]) -> None:
        """Add what `history` has beyond the indexed tokens. A place is where the pair's follower stands."""
        for i in range(len(self._tokens), len(history)):
            if i >= 2:
                places = self._places.setdefault((history[i - 2], history[i - 1]), [])
                places.append(i)
                if len(places) > PLACES:
                    del places[0]
            self._tokens.append(history[i])

    def offer(self, history: History, limit: int) -> Offer | None:
        tokens = history.tokens
        self._index(tokens)
        n = len(tokens)
        if n < 3:
            return None
        best, length = 0, 0
        for place in reversed(self._places.get((tokens[-2], tokens[-1]), ())):
            m = 2
            while m < LONGEST and m < place and tokens[place - 1 - m] == tokens[n - 1 - m]:
                m += 1
            if m > length:
                best, length = place, m
        if not length:
            return None
        return Offer(limit, bucket(length), copied(tokens, best, limit))
