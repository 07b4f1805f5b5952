"""Heads that draft for one model: which belongs to it, and whether it really does.

A head fits its target alone, whatever the target's weights are stored as. So a head that we write has a mark of its
target in its settings: the first weights of the final norm, which no quantization touches. A head from elsewhere
has no mark; its sizes are compared, and the share of its first guesses that are the target's own choice is measured
over twenty short texts (`agreement`): a wrong layer, order or offset fails nowhere else.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from .anatomy import Anatomy, Taps, weight_bytes
from .drafters import assistant_files, dflash_files, eagle1_files, eagle_files, medusa_files, mtp, mtp_files
from .drafters.assistant import AssistantDrafter
from .drafters.base import Drafter
from .drafters.dflash import DFlash
from .drafters.eagle import Eagle
from .drafters.eagle1 import Eagle1
from .drafters.feature import FeatureDrafter
from .drafters.medusa import Medusa
from .events import Problem
from .hidden import Hidden
from .target import Target

MARK = 16  # weights
NEAR = 0.01
LEAST_AGREEMENT = 0.2  # trained heads reach 0.4 and more on text of others, wrong ones 0.1 and less


def mark(anatomy: Anatomy) -> list[float]:
    """What tells this model from others of its sizes; empty where it has no final norm of the usual name."""
    final = getattr(anatomy.body, "norm", None)
    weight = getattr(final, "weight", None)
    if not isinstance(weight, mx.array):
        return []
    values: Any = weight[:MARK].astype(mx.float32).tolist()
    return [round(v, 5) for v in values]


def made_for(folder: Path, anatomy: Anatomy) -> bool | None:
    """Whether the head in `folder` has this model's mark; None where it has none."""
    try:
        theirs = json.loads((folder / "config.json").read_text("utf-8")).get("outrider", {}).get("mark")
    except (OSError, ValueError, AttributeError):
        return None
    ours = mark(anatomy)
    if not isinstance(theirs, list) or not all(isinstance(value, int | float) for value in theirs):
        return None
    if not theirs or not ours:
        return None
    return len(theirs) == len(ours) and all(
        abs(a - b) <= NEAR * max(abs(b), 1e-3) for a, b in zip(theirs, ours, strict=True)
    )


def find(folders: Iterable[Path], anatomy: Anatomy) -> dict[str, Path]:
    """For each kind the first head in `folders` that was made for this model. One that is damaged stands for the kind
    that is usual, where nothing else does, so that whoever loads it can say what is wrong."""
    found: dict[str, Path] = {}
    damaged: list[Path] = []
    for folder in folders:
        for config in sorted(folder.glob("*/config.json")) if folder.is_dir() else ():
            if made_for(config.parent, anatomy):
                try:
                    found.setdefault(kind(config.parent), config.parent)
                except Problem:
                    damaged.append(config.parent)
    for folder in damaged:
        found.setdefault("eagle3", folder)
    return found


def own(folder: Path | None, target: Target) -> tuple[dict[str, Path], dict[str, str]]:
    """The head that is among the target's own files, if there is one, and why there is none where its settings tell of
    one: each by its kind."""
    if folder is None:
        return {}, {}
    if mtp_files.has(folder):
        known = mtp.known(getattr(target.model, "layers", ()))
        return ({"mtp": folder}, {}) if known else ({}, {"mtp": "MTP heads of this architecture are not known"})
    with contextlib.suppress(Problem):
        if mtp_files.claimed(eagle_files.settings(folder)):
            return {}, {"mtp": "the model's MTP tensors are missing: most conversions drop them"}
    return {}, {}


def kind(folder: Path) -> str:
    """Which kind of head is in `folder`: a name of `BUILDERS`. Raises `Problem` where it cannot be read."""
    config, names = eagle_files.settings(folder), eagle_files.names_of(folder)
    for name, mine in TOLD_BY.items():
        if mine(config, names):
            return name
    return "eagle3"


def want(target: Target, anatomy: Anatomy, taps: Iterable[int]) -> Hidden:
    """The target's states, with those of the layers `taps` among them, are kept from now on. A drafter asks
    `target.hidden` for them at each proposal, for others may want more later."""
    wanted = set(taps) | set(target.hidden.wanted if target.hidden else ())
    if target.hidden is None:
        target.hidden = Hidden(anatomy, wanted)
    elif set(target.hidden.wanted) != wanted:
        target.hidden.remove()
        target.hidden = Hidden(anatomy, wanted)
    return target.hidden


def build_eagle(folder: Path, target: Target, anatomy: Anatomy) -> FeatureDrafter:
    loaded = eagle_files.read(folder, layers=len(anatomy.layers), hidden=anatomy.width, vocabulary=target.vocabulary)
    head = Eagle(loaded, anatomy, target.vocabulary)
    want(target, anatomy, head.taps)
    return FeatureDrafter("eagle3", head, target, weight_bytes(loaded.head) / max(weight_bytes(target.model), 1))


def build_eagle1(folder: Path, target: Target, anatomy: Anatomy) -> FeatureDrafter:
    read = eagle1_files.read(folder, layers=len(anatomy.layers), hidden=anatomy.width, vocabulary=target.vocabulary)
    head = Eagle1(read, anatomy, target.vocabulary)
    want(target, anatomy, head.taps)
    cost = weight_bytes(read) + weight_bytes(anatomy.projection)
    return FeatureDrafter("eagle", head, target, cost / max(weight_bytes(target.model), 1))


def build_medusa(folder: Path, target: Target, anatomy: Anatomy) -> Medusa:
    loaded = medusa_files.read(folder, hidden=anatomy.width, vocabulary=target.vocabulary)
    want(target, anatomy, (len(anatomy.layers),))
    return Medusa(loaded.heads, loaded.ids, target, anatomy)


def build_mtp(folder: Path, target: Target, anatomy: Anatomy) -> FeatureDrafter | AssistantDrafter:
    if assistant_files.told_by(eagle_files.settings(folder)):
        assistant = assistant_files.read(folder, target.model, anatomy, target.vocabulary)
        drafter = AssistantDrafter(assistant, target, anatomy, mtp.arguments(target.model))
        want(target, anatomy, drafter.taps)
        return drafter
    network = mtp_files.read(folder, target.model, anatomy, target.vocabulary)
    head = mtp.MTP(network, anatomy, target.vocabulary)
    want(target, anatomy, head.taps)
    cost = weight_bytes(network) + (0 if "lm_head" in network else weight_bytes(anatomy.projection))
    return FeatureDrafter("mtp", head, target, cost / max(weight_bytes(target.model), 1))


def build_dflash(folder: Path, target: Target, anatomy: Anatomy) -> DFlash:
    layers = len(anatomy.layers)
    loaded = dflash_files.read(folder, layers=layers, hidden=anatomy.width, vocabulary=target.vocabulary)
    drafter = DFlash(loaded, target, anatomy)
    want(target, anatomy, drafter.taps)
    return drafter


# A kind of head is one line in each: how its settings or the names of its tensors tell it, and what makes a drafter of
# its folder.
TOLD_BY: dict[str, Callable[[dict[str, Any], Collection[str]], bool]] = {
    "medusa": lambda config, names: "medusa_num_heads" in config,
    "dflash": lambda config, names: dflash_files.told_by(config),
    "mtp": lambda config, names: assistant_files.told_by(config) or mtp_files.told_by(config, names),
    "eagle": lambda config, names: eagle1_files.told_by(names),
}
BUILDERS: dict[str, Callable[[Path, Target, Anatomy], Drafter]] = {
    "dflash": build_dflash,
    "eagle": build_eagle1,
    "eagle3": build_eagle,
    "medusa": build_medusa,
    "mtp": build_mtp,
}

# Why there is none of a kind, where none was found.
NONE_YET = dict.fromkeys(BUILDERS, "no head of this kind was found for this model (mlx-spec models drafters)") | {
    "eagle3": "no head was made for this model yet (mlx-spec train)",
    "medusa": "no heads were made for this model yet (mlx-spec train --kind medusa)",
}


def load(folder: Path, target: Target, anatomy: Anatomy, of: str = "") -> Drafter:
    """A drafter of the head in `folder`, one of kind `of` where that is known. Raises `Problem` with the reason if it
    is not one for this target."""
    if made_for(folder, anatomy) is False:
        raise Problem(f"The drafter in {folder} was made for another model.", "Choose one that was made for this.")
    return BUILDERS[of or kind(folder)](folder, target, anatomy)


TEXTS = (
    "The train to the coast leaves at nine in the morning and takes about three hours.",
    "To make a simple soup, cut two onions and a carrot and let them brown in a little oil.",
    "def add(a, b):\n    return a + b\n\n\ndef multiply(a, b):\n    return a * b\n",
    "Dear Anna, thank you for your letter. I was very happy to hear that you are well again.",
    "Water boils at 100 degrees Celsius at sea level, and at a lower temperature on a mountain.",
    "There are seven days in a week: Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday.",
    "The company said on Tuesday that it would open a new office in the city next year.",
    "Once upon a time there was a king who had three daughters, and the youngest was the bravest of them.",
    "1. Open the box.\n2. Take out the parts.\n3. Read the instructions before you begin.\n",
    "The cell is the basic unit of life. All living things are made of one or more cells.",
    "for (let i = 0; i < 10; i++) {\n  console.log(i);\n}\n",
    "Many people believe that reading every day makes the mind stronger and the language richer.",
    "The capital of France is Paris, the capital of Italy is Rome, and the capital of Spain is Madrid.",
    "If the rain does not stop soon, the river will rise and the road to the village will be closed.",
    "Question: What is the sum of two and three?\nAnswer: The sum of two and three is five.\n",
    "She opened the door slowly, looked into the dark room, and saw that nobody was there.",
    "SELECT name, age FROM people WHERE age > 30 ORDER BY name;\n",
    "A good teacher listens to the students and explains the same thing in more than one way.",
    "The first computer programs were written on paper and then punched into cards, one line on each.",
    "In summary, the results show that the new method is faster, but it needs more memory.",
)


@runtime_checkable
class Guesses(Protocol):
    """A drafter whose first guesses over a whole text can be had at once."""

    @property
    def taps(self) -> tuple[int, ...]: ...

    def guesses(self, ids: Sequence[int], states: Sequence[mx.array]) -> mx.array: ...


def agreement(drafter: Drafter, target: Target, tokenizer: Any, anatomy: Anatomy | None) -> float | None:
    """The share of places in twenty short texts where the head's first guess is what the target would write there.
    None where the drafter's guesses cannot be had this way."""
    if anatomy is None or not isinstance(drafter, Guesses):
        return None
    taps = Taps(anatomy, drafter.taps)
    right = total = 0
    try:
        for text in TEXTS:
            ids = [int(t) for t in tokenizer.encode(text)]
            if len(ids) < 4:
                continue
            logits = target.model(mx.array([ids]), cache=make_prompt_cache(target.model))[0]
            states = taps.take()
            if states is None:
                return None
            guesses = drafter.guesses(ids, [s[0] for s in states])
            right += int(mx.sum(guesses == mx.argmax(logits[1:], axis=-1)).item())  # type: ignore[arg-type]
            total += len(ids) - 1
    finally:
        taps.remove()
    return right / max(total, 1)
