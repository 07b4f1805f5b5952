"""A round taken apart into tokens: what held, what was rejected there, what the model wrote itself.

Pure arithmetic on `mlx_spec.events`; knows no Qt. In the order of the text: the drafts that held, then, struck through,
those that did not, then the model's own token, which stands where the first of them would have stood.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate

from desktop.sidebar.stats import seconds_text
from desktop.theme import drafter_title
from mlx_spec.events import Round

SHOWN = 40  # characters of one token


class Fate(Enum):
    """What became of a token."""

    HELD = "held"
    REJECTED = "rejected"  # it was compared, and was not the model's choice
    FELL = "fell"  # it stood behind a rejected one
    UNREAD = "unread"  # the reply ended before it
    OWN = "own"


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is shown. `hope` is the drafter's probability for it, `chance` the model's; None: not known."""

    text: str
    fate: Fate
    drafter: str | None = None
    hope: float | None = None
    chance: float | None = None


def tokens_of(r: Round) -> list[Token]:
    """The tokens of a round in the order of the text."""
    own = len(r.tokens) > r.accepted
    found = []
    for i, text in enumerate(r.drafted_text):
        if i < r.accepted:
            fate = Fate.HELD
        elif not own:
            fate = Fate.UNREAD
        else:
            fate = Fate.REJECTED if i == r.accepted else Fate.FELL
        found.append(Token(text, fate, r.drafter, _at(r.hopes, i), _at(r.chances, i) if i < r.accepted else None))
    if own:
        # Rounds of older versions do not say how the token looks; then what became visible has to do.
        text = r.own_text or "".join(s.text for s in r.spans if s.drafter is None)
        found.append(Token(text, Fate.OWN, None, None, _at(r.chances, r.accepted)))
    return found


def _at(values: Sequence[float], i: int) -> float | None:
    return values[i] if i < len(values) else None


def place_of(rounds: Sequence[Round], source: int) -> tuple[Round, Token] | None:
    """The round and the token that the character at `source` of the reply's text came from."""
    ends = list(accumulate(sum(len(s.text) for s in r.spans) for r in rounds))
    k = bisect_right(ends, source)
    if source < 0 or k >= len(rounds):
        return None
    kept = [t for t in tokens_of(rounds[k]) if t.fate in (Fate.HELD, Fate.OWN)]
    if not kept:
        return None
    # Text may lag behind its token by part of a character, so the last one takes what is left.
    inside = source - (ends[k - 1] if k else 0)
    i = bisect_right(list(accumulate(len(t.text) for t in kept)), inside)
    return rounds[k], kept[min(i, len(kept) - 1)]


# ------------------------------------------------------------------------------------------------ in words


def seen(text: str) -> str:
    """A token as it is painted: on one line, its white space seen where there is nothing else, not too long."""
    shown = text.replace("\r", "␍").replace("\n", "↵").replace("\t", "⇥")
    if not shown.strip():
        shown = shown.replace(" ", "␣") or "·"
    return shown if len(shown) <= SHOWN else shown[: SHOWN - 1] + "…"


def share(probability: float) -> str:
    """A probability for a person: "87 %", "0.4 %", "under 0.01 %"."""
    if probability < 0.0001:
        return "under 0.01 %"
    if probability < 0.01:
        return f"{probability * 100:.2g} %"
    return f"{probability * 100:.0f} %" if probability < 0.995 else f"{min(probability, 1) * 100:.4g} %"


def times(r: Round) -> str:
    """Where the time of a round went: "52 ms: draft 4.1 ms, check 44 ms, rest 3.9 ms"."""
    rest = max(0.0, r.total_s - r.draft_s - r.verify_s)
    parts = f"draft {seconds_text(r.draft_s)}, check {seconds_text(r.verify_s)}, rest {seconds_text(rest)}"
    return f"{seconds_text(r.total_s)}: {parts}"


def describe_token(r: Round, token: Token) -> str:
    """All that is known of a token, in lines: who proposed it, its probability, what was rejected, the times."""
    title = drafter_title(token.drafter or "")
    said = {
        Fate.HELD: f"{title} proposed it, and it held",
        Fate.REJECTED: f"{title} proposed it: rejected",
        Fate.FELL: f"{title} proposed it: it fell with the one before it",
        Fate.UNREAD: f"{title} proposed it: the reply ended before it",
        Fate.OWN: "The model wrote it itself",
    }[token.fate]
    lines = [f"“{seen(token.text)}”  {said}"]
    known = []
    if token.hope is not None:
        known.append(f"{share(token.hope)} by the drafter")
    if token.chance is not None:
        known.append(f"{share(token.chance)} by the model")
    if known:
        lines.append("Probability: " + ", ".join(known))
    if token.fate is Fate.OWN and (gone := rejected(r)):
        lines.append("Rejected here: " + gone)
    lines.append(f"Pass {r.index + 1}: {held(r)}; {times(r)}")
    return "\n".join(lines)


def rejected(r: Round) -> str:
    """The drafts of a round that did not hold, quoted; "" if there were none."""
    return " ".join(f"“{seen(t.text)}”" for t in tokens_of(r) if t.fate in (Fate.REJECTED, Fate.FELL))


def held(r: Round) -> str:
    """Who drafted how much in a round, and what of it held."""
    if r.drafter is None or not r.drafted:
        return "nothing was drafted"
    return f"{drafter_title(r.drafter)} drafted {len(r.drafted)}, {r.accepted} held"
