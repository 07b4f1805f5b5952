"""The target's hidden states of the rows that it has run: what drafters that read its thoughts draft from.

They are taken from the passes that run anyway, never computed for this, and not evaluated before they are used. Rows
that are rejected go with their tokens; old ones go when there are more than `most`, so a drafter must do with gaps.
"""

from __future__ import annotations

from collections.abc import Iterable

import mlx.core as mx

from .anatomy import Anatomy, Taps

MOST = 2048  # rows: at 4096 features and four states in 16 bits, 64 MB
Segment = tuple[int, int, tuple[mx.array, ...]]  # first row, rows, for each wanted layer (rows, D)


class Hidden:
    """`wanted` are the layers whose outputs are kept, as in `Taps`: -1 the embedding, the number of layers what the
    head reads."""

    def __init__(self, anatomy: Anatomy, wanted: Iterable[int], most: int = MOST) -> None:
        self.wanted = tuple(sorted(set(wanted)))
        self._taps = Taps(anatomy, self.wanted)
        self._taps.on = False
        self._most = most
        self._segments: list[Segment] = []

    def listen(self) -> None:
        """The next pass is the target's own."""
        self._taps.take()
        self._taps.on = True

    def ran(self, start: int, rows: int) -> None:
        """It ran over `rows` tokens from `start` on."""
        states = self._taps.take()
        self._taps.on = False
        self.keep(start)
        if states is None:
            self._segments.clear()
            return
        self._segments.append((start, rows, tuple(s[0, -rows:] for s in states)))
        while len(self._segments) > 1 and self.stop - self._segments[1][0] >= self._most:
            self._segments.pop(0)

    @property
    def start(self) -> int:
        """The first row that is known; those up to `stop` are."""
        return self._segments[0][0] if self._segments else 0

    @property
    def stop(self) -> int:
        return self._segments[-1][0] + self._segments[-1][1] if self._segments else 0

    def ends(self, length: int) -> bool:
        """Whether the state of the last of the first `length` tokens is known."""
        return self.start < length <= self.stop

    def rows(self, start: int, stop: int, layers: Iterable[int]) -> list[mx.array]:
        """The states (stop - start, D) of these rows after each of `layers`. Raises LookupError if one is unknown."""
        if not self.start <= start < stop <= self.stop:
            raise LookupError(f"the states of rows {start} to {stop} are not known")
        found = []
        for layer in layers:
            i = self.wanted.index(layer)
            parts = [
                states[i][max(start - first, 0) : stop - first]
                for first, count, states in self._segments
                if first < stop and first + count > start
            ]
            found.append(parts[0] if len(parts) == 1 else mx.concatenate(parts))
        return found

    def keep(self, length: int) -> None:
        """The rows from `length` on are no more."""
        while self._segments and self.stop > length:
            first, _, states = self._segments.pop()
            if first < length:
                rows = length - first
                self._segments.append((first, rows, tuple(s[:rows] for s in states)))
        # What is left starts where a pass did, so there are no gaps within.

    def pick(self, start: int, rows: list[int]) -> None:
        """Of the last pass, which began at `start`, only these rows are kept, in this order."""
        if self._segments and self._segments[-1][0] == start:
            _, _, states = self._segments.pop()
            kept = mx.array(rows)
            self._segments.append((start, len(rows), tuple(s[kept] for s in states)))

    def remove(self) -> None:
        """No more states are taken."""
        self._taps.remove()
        self._segments.clear()

    def snapshot(self) -> list[Segment]:
        return list(self._segments)

    def restore(self, snapshot: list[Segment]) -> None:
        self._segments = list(snapshot)
