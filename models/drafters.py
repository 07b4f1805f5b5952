"""Which drafters are known for a model. The data is in drafters.json; nothing is fetched by reading it.

A target is told by the facts of its config first (architecture, width, layers), then by its name: a head for a model
of other sizes does not run at all, and several models of one maker have the same sizes. Where the name says nothing,
all models of its shape are named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlx_spec.events import Problem

from .catalogue import catalogue
from .folder import read_json

KINDS = ("mtp", "dflash", "eagle3", "eagle", "medusa", "model")  # that come as files; copying needs none
VARIANTS = ("", "DFlash 2", "DSpark", "DFly", "Gemma assistant")
NOT_READ = ("DFly", "Gemma assistant")  # known, but not read by mlx_spec
SOURCES = ("listed", "memory", "ours")


@dataclass(frozen=True, slots=True)
class KnownDrafter:
    """A published drafter. `variant` names a form of its kind that is read in another way ("" where there is none).

    `gb` is estimated, None where it cannot be. `source` says how the hub id is known: "listed" was read in public
    listings, "memory" not even that, "ours" comes along. `known` is what others reported of it.
    """

    kind: str
    variant: str
    id: str
    gb: float | None
    licence: str
    source: str
    known: str


@dataclass(frozen=True, slots=True)
class KnownTarget:
    """A model with its drafters, best first, and for each other kind why it has none (`why_not`).

    None for `hidden_size`, `layers` or `vocabulary` where that is not known: the name alone tells such a model.
    """

    title: str
    family: str
    names: tuple[str, ...]
    model_types: tuple[str, ...]
    hidden_size: int | None
    layers: int | None
    vocabulary: int | None
    drafters: tuple[KnownDrafter, ...]
    why_not: Mapping[str, str]


@lru_cache
def known_targets() -> tuple[KnownTarget, ...]:
    """All targets whose drafters are known."""
    data = json.loads(Path(__file__).with_name("drafters.json").read_text("utf-8"))
    return tuple(_target(entry, family, data["why_not"]) for family in data["families"] for entry in family["targets"])


def _target(entry: dict[str, Any], family: dict[str, Any], why_not: dict[str, str]) -> KnownTarget:
    drafters = tuple(KnownDrafter(**d) for d in entry["drafters"])
    reasons = {**why_not, **family["why_not"], **entry["why_not"]}
    there = {d.kind for d in drafters}
    return KnownTarget(
        title=entry["title"],
        family=family["family"],
        names=tuple(entry["names"]),
        model_types=tuple(entry["model_types"]),
        hidden_size=entry["hidden_size"],
        layers=entry["layers"],
        vocabulary=entry["vocabulary"],
        drafters=drafters,
        why_not={kind: reasons[kind] for kind in KINDS if kind not in there},
    )


def is_named(target: KnownTarget, name: str) -> bool:
    """Whether `name` (a folder, a file or a hub id) is one of the target's names with something around it."""
    plain = re.sub(r"[_\s]+", "-", name.lower())
    return any(re.search(rf"(?<![a-z0-9.]){re.escape(own)}(?![a-z0-9]|\.[0-9])", plain) for own in target.names)


def contradicts(target: KnownTarget, config: Mapping[str, Any]) -> bool:
    """Whether a model's config.json says that it is not this target. What the config leaves open does not."""
    text = _text_part(config)
    kinds = {str(c["model_type"]) for c in (config, text) if c.get("model_type")}
    if kinds and not any(kind.removesuffix("_text") in _plain(target.model_types) for kind in kinds):
        return True
    facts = (
        (target.hidden_size, text.get("hidden_size")),
        (target.layers, text.get("num_hidden_layers")),
        (target.vocabulary, text.get("vocab_size")),
    )
    return any(ours is not None and isinstance(theirs, int) and ours != theirs for ours, theirs in facts)


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Models that see have the sizes of the part that writes in a part of their config."""
    text = config.get("text_config")
    return text if isinstance(text, Mapping) else config


def _plain(kinds: Sequence[str]) -> set[str]:
    return {kind.removesuffix("_text") for kind in kinds}


def matches(name: str, config: Mapping[str, Any] | None = None) -> tuple[KnownTarget, ...]:
    """The known targets that a model may be: one where its name says so, several of one shape where it does not.

    Without a config the name alone decides; a config that contradicts a name overrules it. Empty: not known.
    """
    able = [t for t in known_targets() if config is None or not contradicts(t, config)]
    named = [t for t in able if is_named(t, name)]
    if named:
        longest = max(len(own) for t in named for own in t.names if is_named(t, name))
        return tuple(t for t in named if any(len(own) == longest for own in t.names))
    if config is None:
        return ()
    text = _text_part(config)
    told = text.get("hidden_size") is not None and text.get("num_hidden_layers") is not None
    return tuple(t for t in able if told and t.hidden_size is not None and t.layers is not None)


def name_of(folder: Path) -> str:
    """What a model folder calls itself: the hub id of a snapshot, the name of an imported file, else its own."""
    if folder.parent.name == "snapshots" and folder.parent.parent.name.startswith("models--"):
        return folder.parent.parent.name.removeprefix("models--").replace("--", "/", 1)
    try:
        return str(read_json(folder / "outrider.json").get("name", folder.name))
    except Problem:
        return folder.name


def drafters_for(model: str) -> tuple[KnownTarget, ...]:
    """The known targets that `model` (a name in the catalogue, a folder, a GGUF file, a hub id) may be.

    Nothing is fetched: of what is not here, the name decides. Raises `Problem` where a folder's config is damaged.
    """
    return matches(*called(model))


def called(model: str) -> tuple[str, dict[str, Any] | None]:
    """The name of what a person calls `model`, and its config where that is on this disk."""
    named = catalogue().get(model)
    if named is not None:
        return named.title, None
    path = Path(model).expanduser()
    if path.is_dir():
        folder = path.resolve()
        return name_of(folder), read_json(folder / "config.json")
    if path.is_file():
        return path.name, None
    folder_here = _snapshot(model)
    return model, read_json(folder_here / "config.json") if folder_here is not None else None


def _snapshot(repo: str) -> Path | None:
    """The folder of a hub id in the hub's cache, if it is there."""
    from .local import hub_models

    return next((m.path for m in hub_models() if m.name == repo), None)
