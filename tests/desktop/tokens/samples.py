"""A made-up reply with everything in it: several drafters, rejections, probabilities, plain passes."""

from __future__ import annotations

import random
import re

from mlx_spec.events import DrafterStats, Finished, Round, Span

TEXT = """An outrider rides ahead of the party and looks at the road:

- if the road is good, they ride on;
- if it is not, they **turn back**.

```python
def ride(road: Road) -> bool:
    return road.good and not road.flooded
```
That is the whole of it. What it sees it tells, and the party decides; so the party rides faster, never wrong."""
NAMES = ("suffix", "model", "lookup")


def words(text: str = TEXT) -> list[str]:
    return re.findall(r" ?\w+|\n| ?[^\w\s]+| +", text)


def reply(text: str = TEXT, seed: int = 3, names: tuple[str, ...] = NAMES, pass_s: float = 0.06) -> list[Round]:
    """The rounds of a reply that says `text`, without and with drafts."""
    chance = random.Random(seed)
    tokens, at, made = words(text), 0, []
    while at < len(tokens):
        drafter = chance.choice(names) if names and len(made) % 6 else None
        count = min(chance.randint(1, 7), len(tokens) - at) if drafter else 0
        accepted = min(count, chance.randint(0, count + 1)) if count else 0
        held = tokens[at : at + accepted]
        own = tokens[at + accepted : at + accepted + 1]
        wrong = [chance.choice([" a", " the", " road", ",", "\n", " of"]) for _ in range(count - accepted)]
        draft_s = 0.004 * count if drafter == "model" else 0.0003 * count
        verify_s = pass_s * (1 + 0.05 * count) * chance.uniform(0.9, 1.2)
        spans = (*((Span("".join(held), drafter),) if held else ()), *(Span(t) for t in own))
        made.append(
            Round(
                request=1,
                index=len(made),
                position=20 + at,
                drafter=drafter,
                drafted=tuple(range(count)),
                drafted_text=(*held, *wrong),
                accepted=accepted,
                tokens=tuple(100 + at + i for i in range(accepted + len(own))),
                spans=spans,
                width=1 + count,
                draft_s=draft_s,
                verify_s=verify_s,
                total_s=draft_s + verify_s + 0.002,
                plain_s=pass_s,
                why=f"{drafter} hopes for {1 + accepted:.1f}" if drafter else "a plain pass, to know its time",
                own_text="".join(own),
                hopes=tuple(round(chance.uniform(0.3, 1), 4) for _ in range(count)) if drafter == "model" else (),
                chances=tuple(round(chance.uniform(0.2, 1), 4) for _ in range(accepted + len(own))),
            )
        )
        at += accepted + len(own)
    return made


def finished(rounds: list[Round], request: int = 1) -> Finished:
    """The end of such a reply."""
    stats: dict[str, DrafterStats] = {}
    for r in rounds:
        if r.drafter:
            s = stats.get(r.drafter, DrafterStats())
            stats[r.drafter] = DrafterStats(s.rounds + 1, s.drafted + len(r.drafted), s.accepted + r.accepted)
    tokens = sum(len(r.tokens) for r in rounds)
    took = sum(r.total_s for r in rounds)
    return Finished(request, "stop", (), tokens, 20, 0, len(rounds), 0.1, 0.2, took, 7, 0.06, stats)
