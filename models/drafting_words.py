"""What can draft for a model, in words: the published drafters that are known, and why there are none of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .drafters import KnownDrafter, is_named, matches

TITLES = {
    "model": "A small model that writes ahead",
    "eagle3": "An EAGLE-3 head",
    "eagle": "An EAGLE head",
    "medusa": "Medusa heads",
    "mtp": "The makers' multi-token heads",
    "dflash": "A block drafter",
}


@dataclass(frozen=True, slots=True)
class Drafting:
    """`lines` are sentences; `models` are draft models that can be fetched along with it, best first."""

    lines: tuple[str, ...]
    models: tuple[KnownDrafter, ...]


def explain(name: str, config: Mapping[str, Any] | None = None) -> Drafting:
    """What is known to draft for the model of this hub id. Nothing is fetched."""
    targets = matches(name, config or None)
    if not targets:
        return Drafting(
            (
                "No published drafter is known for this model. Copying from the chat (suffix, lookup, history) "
                "drafts for every model, and a head can be trained for it on this machine.",
            ),
            (),
        )
    lines, models = [], []
    if not any(is_named(t, name) for t in targets):
        lines.append(f"By its shape it may be {' or '.join(t.title for t in targets[:3])}.")
    for target in targets[:2]:
        for one in target.drafters:
            size = f", about {one.gb:.2g} GB" if one.gb else ""
            kind = f"{TITLES[one.kind]}{f' ({one.variant})' if one.variant else ''}"
            lines.append(f"{kind}: {one.id or 'comes along'}{size}. {one.known}")
            if one.kind == "model":
                models.append(one)
        if not models and "model" in target.why_not:
            lines.append(f"No small model drafts for it: {target.why_not['model']}")
    return Drafting(tuple(lines), tuple(models))
