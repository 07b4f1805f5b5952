"""When everything of a reply happened, so that it can be shown again at its real pace.

Pure arithmetic on rounds; knows no Qt and no clock. Time 0 is the end of the prompt. In a round the drafts lie on the
table from the end of drafting to the end of the check; then what holds is text.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from mlx_spec.events import Round


@dataclass(frozen=True, slots=True)
class Moment:
    """`rounds` of them are over; `waiting`: the drafts of the next one are being checked."""

    rounds: int
    waiting: bool = False


class Timeline:
    """The rounds of a reply on its own clock, in seconds."""

    def __init__(self, rounds: Iterable[Round] = ()) -> None:
        self.rounds: list[Round] = []
        self.ends: list[float] = []
        self._drafted: list[float] = []  # when the drafts of each round were there
        self.tokens: list[int] = []  # that the reply had after each round
        self.add(rounds)

    def add(self, rounds: Iterable[Round]) -> None:
        """Append rounds in order."""
        for r in rounds:
            start, count = self.total, self.tokens[-1] if self.tokens else 0
            self.rounds.append(r)
            self.ends.append(start + max(r.total_s, 0.0))
            self._drafted.append(min(start + max(r.draft_s, 0.0), self.ends[-1]))
            self.tokens.append(count + len(r.tokens))

    @property
    def total(self) -> float:
        """Seconds from the end of the prompt to the end of the last round."""
        return self.ends[-1] if self.ends else 0.0

    def stretch(self, seconds: float) -> None:
        """Let the whole take `seconds`: what passed between the rounds is spread over them."""
        if self.total <= 0 or seconds <= 0:
            return
        factor = seconds / self.total
        self.ends = [t * factor for t in self.ends]
        self.ends[-1] = seconds  # to the last bit: whoever asks for this second sees the end
        self._drafted = [t * factor for t in self._drafted]

    def at(self, seconds: float) -> Moment:
        """What there is to see `seconds` after the end of the prompt."""
        done = bisect_right(self.ends, seconds)
        waiting = done < len(self.rounds) and bool(self.rounds[done].drafted) and seconds >= self._drafted[done]
        return Moment(done, waiting)

    def end_of(self, rounds: int) -> float:
        """When so many rounds were over."""
        return self.ends[min(rounds, len(self.ends)) - 1] if rounds > 0 and self.ends else 0.0

    def next(self, seconds: float) -> float:
        """The end of the round that runs at `seconds`."""
        k = bisect_right(self.ends, seconds)
        return self.ends[k] if k < len(self.ends) else self.total

    def previous(self, seconds: float) -> float:
        """The end of the last round that was over before `seconds`; 0 if there was none."""
        k = bisect_left(self.ends, seconds) - 1
        return self.ends[k] if k >= 0 else 0.0

    def count(self, rounds: int) -> int:
        """The tokens after so many rounds."""
        return self.tokens[min(rounds, len(self.tokens)) - 1] if rounds > 0 and self.tokens else 0
