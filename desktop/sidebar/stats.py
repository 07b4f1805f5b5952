"""The figures of the sidebar, worked out of rounds: rates, ratio, acceptance, time budget.

Pure arithmetic on `mlx_spec.events`; knows no Qt and no clock. Time is the engine's own (`Round.total_s`), so
a window that is busy, hidden or asleep changes no figure. Nothing is guessed: as long as no plain pass has been
measured there is no ratio, and a ratio below one is called slower.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from mlx_spec.events import Finished, Round

WINDOW_S = 2.5  # long enough that one lucky draft does not make the figure jump, short enough to feel live
WINDOW_ROUNDS = 4  # a slow model has a second a pass: then the last few rounds, however long they took
SAMPLE_S = 0.1  # the chart takes at most ten points a second
SPAN_S = 60.0  # what the chart looks back on, in seconds of writing
EVEN = 0.02  # a ratio this near to one is called even: the noise of a plain pass is about as large


@dataclass(slots=True)
class DrafterFigures:
    """Sums over the rounds in which one drafter proposed something."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    tokens: int = 0  # all tokens of these rounds, the target's own included

    @property
    def acceptance(self) -> float | None:
        """Share of the drafted tokens that held, 0 to 1; None before anything was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_pass(self) -> float | None:
        """Mean tokens a pass in this drafter's rounds; None before its first round."""
        return self.tokens / self.rounds if self.rounds else None


@dataclass(frozen=True, slots=True)
class Sample:
    """One point of the chart: `at` in seconds of writing, rates in tokens a second. `first` begins a reply."""

    at: float
    rate: float
    plain: float | None
    first: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that was switched at `at` seconds of writing, in a few words."""

    at: float
    text: str


@dataclass(slots=True)
class Budget:
    """Where the time of the rounds went, in seconds; `rest` is what is neither drafting nor checking."""

    draft: float = 0.0
    verify: float = 0.0
    total: float = 0.0

    @property
    def rest(self) -> float:
        return max(0.0, self.total - self.draft - self.verify)

    def shares(self) -> tuple[float, float, float]:
        """Shares of draft, verify and rest, which add up to 1; all 0 before the first round."""
        whole = max(self.total, self.draft + self.verify)
        if whole <= 0:
            return 0.0, 0.0, 0.0
        return self.draft / whole, self.verify / whole, self.rest / whole


@dataclass(slots=True)
class Stats:
    """Rolling figures of the reply that is being written, and what the chart needs of those before it."""

    clock: float = 0.0  # seconds of writing since the window opened: the x axis of the chart
    tokens: int = 0  # of this reply
    passes: int = 0
    plain_s: float | None = None  # the last known; kept over replies until a new one is known
    overall: DrafterFigures = field(default_factory=DrafterFigures)
    by_drafter: dict[str, DrafterFigures] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    finished: Finished | None = None
    resting: int = 0  # rounds in a row in which drafting was off because it is slower here
    samples: deque[Sample] = field(default_factory=deque)
    marks: deque[Mark] = field(default_factory=deque)
    _recent: deque[tuple[int, float]] = field(default_factory=deque)
    _recent_tokens: int = 0
    _recent_s: float = 0.0
    _fresh: bool = True

    def forget(self) -> None:
        """Start again from nothing: another model was loaded, and its figures say nothing about this one."""
        self.samples.clear()
        self.marks.clear()
        self.plain_s = None
        self.start_reply()

    def start_reply(self) -> None:
        """Begin the figures of a new reply; the chart and the plain rate stay."""
        self.tokens = self.passes = 0
        self.overall = DrafterFigures()
        self.by_drafter = {}
        self.budget = Budget()
        self.finished = None
        self.resting = 0
        self._recent.clear()
        self._recent_tokens, self._recent_s = 0, 0.0
        self._fresh = True

    def add(self, rounds: Iterable[Round]) -> None:
        """Take in rounds in the order in which they happened."""
        for r in rounds:
            self._add(r)

    def _add(self, r: Round) -> None:
        count, seconds = len(r.tokens), max(r.total_s, 0.0)
        self.clock += seconds
        self.tokens += count
        self.passes += 1
        self.resting = self.resting + 1 if r.resting else 0
        self.budget.draft += r.draft_s
        self.budget.verify += r.verify_s
        self.budget.total += seconds
        if r.plain_s is not None and r.plain_s > 0:
            self.plain_s = r.plain_s
        self.overall.rounds += 1
        self.overall.tokens += count
        self.overall.drafted += len(r.drafted)
        self.overall.accepted += r.accepted
        if r.drafter is not None and r.drafted:
            own = self.by_drafter.setdefault(r.drafter, DrafterFigures())
            own.rounds += 1
            own.drafted += len(r.drafted)
            own.accepted += r.accepted
            own.tokens += count
        self._roll(count, seconds)
        self._sample()

    def _roll(self, count: int, seconds: float) -> None:
        self._recent.append((count, seconds))
        self._recent_tokens += count
        self._recent_s += seconds
        while len(self._recent) > WINDOW_ROUNDS and self._recent_s - self._recent[0][1] >= WINDOW_S:
            old_count, old_seconds = self._recent.popleft()
            self._recent_tokens -= old_count
            self._recent_s -= old_seconds

    def _sample(self) -> None:
        rate = self.rate
        if rate is None:
            return
        if not self._fresh and self.samples and self.clock - self.samples[-1].at < SAMPLE_S:
            return
        self.samples.append(Sample(self.clock, rate, self.plain_rate, self._fresh))
        self._fresh = False
        while self.samples and self.samples[0].at < self.clock - SPAN_S:
            self.samples.popleft()
        while self.marks and self.marks[0].at < self.clock - SPAN_S:
            self.marks.popleft()

    def mark(self, text: str) -> None:
        """Note that something was switched now."""
        self.marks.append(Mark(self.clock, text))

    def finish_reply(self, finished: Finished | None) -> None:
        """The reply is over; from now on the headline is its mean, as the engine measured it."""
        self.finished = finished
        if finished is not None and finished.plain_s:
            self.plain_s = finished.plain_s

    @property
    def rate(self) -> float | None:
        """Tokens a second: over the rolling window while writing, over the whole reply when it is done."""
        if self.finished is not None and self.finished.decode_s > 0 and self.finished.tokens:
            return self.finished.tokens / self.finished.decode_s
        return self._recent_tokens / self._recent_s if self._recent_s > 0 else None

    @property
    def plain_rate(self) -> float | None:
        """Tokens a second that plain decoding would give at this context length; None while unmeasured."""
        return 1.0 / self.plain_s if self.plain_s else None

    @property
    def ratio(self) -> float | None:
        """How many times as fast as plain decoding; None while either rate is unknown."""
        rate = self.rate
        return rate * self.plain_s if rate is not None and self.plain_s else None


def ratio_text(ratio: float | None) -> str:
    """The headline: `1.8× plain`, or that it is not known yet. Two digits near one, where they matter."""
    if ratio is None:
        return "measuring…"
    digits = 2 if ratio < 1.15 else 1
    return f"{ratio:.{digits}f}× plain"


def ratio_words(ratio: float | None, drafting: bool = True) -> str:
    """The line under the headline: what the ratio means, without varnish."""
    if not drafting:
        return "drafters are off: this is plain decoding"
    if ratio is None:
        return "the plain rate has not been measured yet"
    if ratio < 1 - EVEN:
        return "slower than plain decoding"
    if ratio <= 1 + EVEN:
        return "as fast as plain decoding"
    return "faster than plain decoding"


def rate_text(rate: float | None) -> str:
    """A rate with its unit, or a dash: `12.4 tok/s`."""
    if rate is None:
        return "–"
    return f"{rate:.0f} tok/s" if rate >= 100 else f"{rate:.1f} tok/s"


def bytes_text(count: float) -> str:
    """Bytes in the unit that a person would use: `1.2 GB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value >= 100 or unit == "kB" else f"{value:.1f} {unit}"
    return f"{count:.0f} bytes"


def seconds_text(seconds: float) -> str:
    """A short time: `1.4 ms`, `320 ms`, `2.3 s`."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    ms = seconds * 1e3
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"
