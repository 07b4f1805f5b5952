"""What a race came to: two laps of the same prompt, whether their texts are one, and how their times compare.

Pure arithmetic on events; knows no Qt. Times are those of decoding: the prompt was read before either lap.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from desktop.sidebar.stats import rate_text
from desktop.theme import drafter_title
from mlx_spec.events import Finished, Message, Round, SamplingSettings


@dataclass(slots=True)
class Lap:
    """One run: what was allowed to draft, its rounds so far, and its end."""

    title: str
    drafters: tuple[str, ...] = ()
    rounds: list[Round] = field(default_factory=list)
    finished: Finished | None = None

    @property
    def tokens(self) -> list[int]:
        """The ids that were written."""
        return [t for r in self.rounds for t in r.tokens]

    @property
    def text(self) -> str:
        """What was written, as far as it was visible."""
        tail = self.finished.tail if self.finished is not None else ()
        return "".join(s.text for r in self.rounds for s in r.spans) + "".join(s.text for s in tail)

    @property
    def seconds(self) -> float:
        """Seconds of decoding, so far."""
        if self.finished is not None and self.finished.decode_s > 0:
            return self.finished.decode_s
        return sum(r.total_s for r in self.rounds)

    @property
    def rate(self) -> float | None:
        """Tokens a second; None before the first."""
        return len(self.tokens) / self.seconds if self.seconds > 0 and self.rounds else None

    @property
    def acceptance(self) -> float | None:
        """Share of the drafts that held; None where nothing was drafted."""
        drafted = sum(len(r.drafted) for r in self.rounds)
        return sum(r.accepted for r in self.rounds) / drafted if drafted else None


@dataclass(frozen=True, slots=True)
class Race:
    """A race that was run to its end. `left_out` are drafters that sat it out."""

    messages: tuple[Message, ...]
    model: str
    sampling: SamplingSettings
    plain: Lap
    drafted: Lap
    left_out: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        return self.messages[-1].content

    @property
    def same(self) -> bool:
        """Whether both laps wrote the same tokens and the same text."""
        return self.plain.tokens == self.drafted.tokens and self.plain.text == self.drafted.text

    @property
    def agreed(self) -> int:
        """How many tokens from the start are the same."""
        plain, drafted = self.plain.tokens, self.drafted.tokens
        both = enumerate(zip(plain, drafted, strict=False))
        return next((i for i, (a, b) in both if a != b), min(len(plain), len(drafted)))

    @property
    def ratio(self) -> float | None:
        """How many times as fast the drafted lap was, by tokens a second."""
        plain, drafted = self.plain.rate, self.drafted.rate
        return drafted / plain if plain and drafted is not None else None


def same_line(race: Race) -> str:
    """ "identical, 312 tokens", or from where on the texts are not."""
    if race.same:
        count = len(race.plain.tokens)
        return f"identical, {count:,} token{_s(count)}"
    return f"not identical: the first {race.agreed:,} tokens are the same, then the texts part"


def parted_words() -> str:
    """Why texts may part, for where they do."""
    return (
        "With 4-bit, 8-bit or 16-bit weights a pass over several tokens rounds a little differently, and where two "
        "tokens were all but tied the other one may win. Both texts are the model's own."
    )


def ratio_line(race: Race) -> str:
    """ "1.84× as fast with drafts", or "slower with drafts: 0.92×"."""
    ratio = race.ratio
    if ratio is None:
        return "nothing was written"
    return f"{ratio:.2f}× as fast with drafts" if ratio >= 1 else f"slower with drafts: {ratio:.2f}×"


def lap_line(lap: Lap) -> str:
    """ "96 tokens in 40 passes, 31.2 tok/s, 61 % of drafts held"."""
    rate = lap.rate
    if rate is None:
        return "not run yet"
    count, passes = len(lap.tokens), len(lap.rounds)
    line = f"{count:,} token{_s(count)} in {passes:,} pass{'es' if passes != 1 else ''}, {rate_text(rate)}"
    held = lap.acceptance
    return line if held is None else f"{line}, {100 * held:.0f} % of drafts held"


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def terms(race: Race) -> str:
    """What both laps had in common, and how they were run, in one paragraph."""
    s = race.sampling
    parts = [f"temperature {s.temperature:g}"]
    if s.temperature > 0:
        parts += [f"top-p {s.top_p:g}"] if s.top_p < 1 else []
        parts += [f"top-k {s.top_k}"] if s.top_k else []
        parts += [f"min-p {s.min_p:g}"] if s.min_p else []
        parts += [f"seed {s.seed}"]
    words = (
        f"{race.model}; {', '.join(parts)}; drafters: {', '.join(map(drafter_title, race.drafted.drafters))}. "
        "Run one after the other on one machine, plain first; the prompt was read before. Time is that of decoding."
    )
    if race.left_out:
        words += f" {', '.join(map(drafter_title, race.left_out))} sat out: the very answer may be among them."
    return words
