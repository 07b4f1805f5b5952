"""Can this model draft for that one, and which would be the best? Compares what ids mean, without loading weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlx_spec.events import Problem

from . import drafters
from .folder import read_json
from .local import LocalModel, local_models

SHOWN = 3  # examples named of each kind


@dataclass(frozen=True, slots=True)
class PairReport:
    """`reasons` keep the pair from working; `notes` are differences that cost at most some acceptance."""

    ok: bool
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def token_map(folder: Path) -> tuple[dict[int, str], set[int]]:
    """Ids to tokens, added ones included, and the ids of special tokens."""
    file = folder / "tokenizer.json"
    if not file.exists():
        raise Problem(f"{folder} has no tokenizer.json to compare.", "Choose a model that has one.")
    data: dict[str, Any] = read_json(file)
    vocab = data.get("model", {}).get("vocab", {})
    if isinstance(vocab, list):  # Unigram: (token, score) in the order of the ids
        ids = {i: str(entry[0]) for i, entry in enumerate(vocab)}
    else:
        ids = {int(i): str(t) for t, i in vocab.items()}
    special: set[int] = set()
    for added in data.get("added_tokens", ()):
        ids[int(added["id"])] = str(added["content"])
        if added.get("special"):
            special.add(int(added["id"]))
    return ids, special


def check_pair(target: Path, draft: Path) -> PairReport:
    """Compare the token maps and special tokens of two mlx-lm folders.

    An id that means another token in the target makes every draft of it wrong, so any such id refuses the
    pair. Tokens that only one side has cost acceptance where they occur; a handful of them (added control
    tokens) are notes, more than one in a hundred refuse.
    """
    (ours, our_special), (theirs, their_special) = token_map(target), token_map(draft)
    reasons: list[str] = []
    notes: list[str] = []
    other = [i for i in ours.keys() & theirs.keys() if ours[i] != theirs[i]]
    if other:
        shown = "; ".join(
            f"token {i} is {ours[i]} in the target and {theirs[i]} in the draft" for i in sorted(other)[:SHOWN]
        )
        reasons.append(f"{shown} ({len(other):,} ids differ)" if len(other) > SHOWN else shown)
    for here, there, where in ((ours, theirs, "draft"), (theirs, ours, "target")):
        alone = sorted(here.keys() - there.keys())
        if not alone:
            continue
        side = "target" if where == "draft" else "draft"
        shown = "; ".join(f"token {i} is {here[i]} in the {side} and missing in the {where}" for i in alone[:SHOWN])
        text = f"{shown} ({len(alone):,} such)" if len(alone) > SHOWN else shown
        (reasons if len(alone) * 100 > len(here) else notes).append(text)
    both = (our_special ^ their_special) & ours.keys() & theirs.keys()
    if both:
        i = min(both)
        notes.append(f"token {i}, {ours[i]}, is special on one side only")
    return PairReport(not reasons, tuple(reasons), tuple(notes))


@dataclass(frozen=True, slots=True)
class Proposal:
    """A draft model for a target: `source` is what `locate` takes, `here` whether it is on this disk."""

    source: str
    here: bool
    known: str  # what others reported of the pair


def propose(model: str, folder: Path, here: Sequence[LocalModel] | None = None) -> Proposal | None:
    """The draft model to offer for the target `model`, whose files are in `folder`: the best known one that is on this
    disk, in whatever quantization, and agrees with it; else the best known one to fetch.

    None where none is known to be worth it. `here` is what is on this disk (None: look).
    """
    local = local_models() if here is None else here
    known = [d for t in drafters.drafters_for(model) for d in t.drafters if d.kind == "model"]
    for drafter in known:
        for other in local:
            if other.path is not None and other.path != folder and _same_model(drafter.id, other):
                try:
                    fits = check_pair(folder, other.path).ok
                except Problem:  # damaged: not worth a word here
                    continue
                if fits:
                    return Proposal(other.name, True, drafter.known)
    return Proposal(known[0].id, False, known[0].known) if known else None


def _same_model(repo: str, other: LocalModel) -> bool:
    """Whether a model on this disk is the one of that hub id, be it quantized otherwise."""
    if other.name == repo:
        return True
    wanted = drafters.matches(repo)
    return len(wanted) == 1 and any(drafters.matches(name) == wanted for name in (other.name, other.title))
