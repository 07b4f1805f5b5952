"""Figures of a measurement: means by category, the table, and the JSON. Knows no models.

A ratio is tokens a second over tokens a second of the same question in the same process. Ratios are averaged
geometrically, so that 2x and 0.5x make 1x.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..theory import acceptance_rate, speed_up
from .arms import Run
from .compare import Difference

OURS, PLAIN = "ours", "plain"


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs on one prompt, by arm. `differences` has the arms whose text was compared with ours; None
    means that it is the same."""

    category: str
    name: str
    turn: int
    prompt: str
    prompt_tokens: int
    runs: dict[str, list[Run]]
    differences: dict[str, Difference | None] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.category} {self.name}" + (f" turn {self.turn + 1}" if self.turn else "")

    def rate(self, arm: str) -> float:
        """Tokens a second over all repeats."""
        runs = self.runs[arm]
        return sum(len(r.tokens) for r in runs) / sum(r.seconds for r in runs)

    def ratio(self, arm: str, base: str = PLAIN) -> float:
        return self.rate(arm) / self.rate(base)


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs))


def figures(group: Sequence[Measured]) -> dict[str, Any]:
    """What a row of the table says, for any set of prompts."""
    result: dict[str, Any] = {"prompts": len(group), "arms": {}}
    for arm in group[0].runs:
        runs = [r for m in group for r in m.runs[arm]]
        tokens, seconds = sum(len(r.tokens) for r in runs), sum(r.seconds for r in runs)
        drafted, accepted = sum(r.drafted for r in runs), sum(r.accepted for r in runs)
        drafters: dict[str, dict[str, int]] = {}
        for name, d, a in (s for r in runs for s in r.by_drafter):
            sums = drafters.setdefault(name, {"drafted": 0, "accepted": 0})
            sums["drafted"] += d
            sums["accepted"] += a
        result["arms"][arm] = {
            "tokens": tokens,
            "seconds": seconds,
            "tokens_per_second": tokens / seconds,
            "ratio_to_plain": geometric_mean(m.ratio(arm) for m in group),
            "tokens_per_pass": tokens / max(1, sum(r.passes for r in runs)),
            "drafted": drafted,
            "accepted": accepted,
            "acceptance": accepted / drafted if drafted else None,
            "by_drafter": drafters,
            "compared": sum(arm in m.differences for m in group),
            "differing": sum(m.differences.get(arm) is not None for m in group),
        }
    return result


def predicted(m: Measured) -> dict[str, float]:
    """Our speed on this prompt as ratio to plain, by prediction: `papers` by the formula of Leviathan et al. from the
    prompt's acceptance, mean length and drafting cost, with checking free; `costs` the same with what passes cost;
    `ours` from what the controller hoped for in each round. Empty where nothing was drafted."""
    runs = m.runs[OURS]
    rounds = [r for run in runs for r in run.rounds]
    plain = sorted(r[3] for run in m.runs[PLAIN] for r in run.rounds)
    alpha = acceptance_rate([(drafted, accepted) for _, drafted, accepted, _, _ in rounds])
    if alpha is None or not plain:
        return {}
    base = plain[len(plain) // 2]
    drafted, checking = sum(r[1] for r in rounds), sum(r[3] for r in rounds)
    seconds = sum(run.seconds for run in runs)
    gamma = drafted / len(rounds)
    c = max(0.0, seconds - checking) / max(1, drafted) / base
    return {
        "papers": speed_up(alpha, gamma, c),
        "costs": speed_up(alpha, gamma, c, checking / len(rounds) / base),
        "ours": sum(r[4] for r in rounds) / seconds * base,
    }


def by_category(measured: Sequence[Measured]) -> dict[str, list[Measured]]:
    groups: dict[str, list[Measured]] = {}
    for m in measured:
        groups.setdefault(m.category, []).append(m)
    return groups


def worst(measured: Sequence[Measured]) -> Measured:
    """The prompt on which drafting gained least."""
    return min(measured, key=lambda m: m.ratio(OURS))


def table(measured: Sequence[Measured]) -> str:
    """The result for a person: a row a category, then all, then the worst prompt and any differing texts."""
    others = [arm for arm in measured[0].runs if arm not in (OURS, PLAIN)]
    header = ["category", "prompts", "ours/plain", "tokens/pass", "accepted", *(f"{a}/plain" for a in others)]
    if others:
        header.append("ours/best other")
    rows = [header]
    groups = by_category(measured)
    if len(groups) > 1:
        rows += [_row(category, group, others) for category, group in groups.items()]
    rows.append(_row("all", measured, others))
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join([*lines, "", *_notes(measured, others)])


def _row(name: str, group: Sequence[Measured], others: Sequence[str]) -> list[str]:
    arms = figures(group)["arms"]
    ours = arms[OURS]
    held = "-" if ours["acceptance"] is None else f"{100 * ours['acceptance']:.0f} %"
    ratio = ours["ratio_to_plain"]
    row = [name, str(len(group)), f"{ratio:.2f}x", f"{ours['tokens_per_pass']:.2f}", held]
    row += [f"{arms[a]['ratio_to_plain']:.2f}x" for a in others]
    if others:
        row.append(f"{ratio / max(arms[a]['ratio_to_plain'] for a in others):.2f}x")
    return row


def _notes(measured: Sequence[Measured], others: Sequence[str]) -> list[str]:
    low = worst(measured)
    first = " ".join(low.prompt.split())
    short = first if len(first) <= 60 else first[:57] + "..."
    lines = [f'Worst: {low.title}, {low.ratio(OURS):.2f}x: "{short}"']
    arms = figures(measured)["arms"]
    rates = ", ".join(f"{arm} {arms[arm]['tokens_per_second']:.2f}" for arm in (PLAIN, OURS, *others))
    lines.append(f"Tokens a second over all: {rates}")
    for name, s in arms[OURS]["by_drafter"].items():
        lines.append(f"{name}: {s['accepted']} of {s['drafted']} drafted tokens held")
    same = [arm for arm, f in arms.items() if f["compared"] and not f["differing"]]
    if same:
        lines.append(f"Our text is identical to that of {', '.join(same)}.")
    for arm, f in arms.items():
        if f["differing"]:
            gap = max(d.gap for m in measured if (d := m.differences.get(arm)))
            lines.append(
                f"Our text differs from that of {arm} on {f['differing']} of {f['compared']} prompts; where "
                f"they part, the target's two best choices are at most {gap:.2g} apart."
            )
    return lines


def as_json(measured: Sequence[Measured], settings: dict[str, Any]) -> dict[str, Any]:
    """Everything: settings, totals, categories, and each prompt's figures with its token ids."""
    low = worst(measured)
    return {
        "settings": settings,
        "all": figures(measured),
        "categories": {category: figures(group) for category, group in by_category(measured).items()},
        "worst": {"category": low.category, "name": low.name, "turn": low.turn, "ratio": low.ratio(OURS)},
        "prompts": [
            {
                "category": m.category,
                "name": m.name,
                "turn": m.turn,
                "prompt": m.prompt,
                "prompt_tokens": m.prompt_tokens,
                "ratio_to_plain": {arm: m.ratio(arm) for arm in m.runs},
                "predicted": predicted(m),
                "runs": {arm: [asdict(r) for r in runs] for arm, runs in m.runs.items()},
                "differences": {arm: d and asdict(d) for arm, d in m.differences.items()},
            }
            for m in measured
        ],
    }


def from_json(data: dict[str, Any]) -> list[Measured]:
    """The prompts of what `as_json` gave. Raises KeyError or TypeError for anything else."""
    return [
        Measured(
            p["category"],
            p["name"],
            p["turn"],
            p["prompt"],
            p["prompt_tokens"],
            {arm: [_run(r) for r in runs] for arm, runs in p["runs"].items()},
            {arm: d and Difference(**d) for arm, d in p["differences"].items()},
        )
        for p in data["prompts"]
    ]


def _run(data: dict[str, Any]) -> Run:
    tuples = {
        k: tuple(tuple(x) if isinstance(x, list) else x for x in v) for k, v in data.items() if isinstance(v, list)
    }
    return Run(**{**data, **tuples})
