"""The first EAGLE's heads on disk, as the authors publish them: told apart, checked and read.

`fc.weight` (d, 2d) and maybe `fc.bias`, the layers `layers.{i}.` of a Llama, of which the first has no
`input_layernorm`, and maybe `embed_tokens.weight`. There is no final norm and no output layer: those are the target's.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ..events import Problem
from .eagle1 import Eagle1Head
from .eagle_files import OTHER, check_vocabulary, fill, own_embedding, own_names, senseless, settings, sizes, tensors_of
from .eagle_head import Shape


def told_by(names: Collection[str]) -> bool:
    """Whether these tensors are such a head's. EAGLE-3's have an output layer of their own, and a norm for the states
    that they read."""
    mine = own_names(names).values()
    return "fc.weight" in mine and not {"lm_head.weight", "layers.0.hidden_norm.weight"}.intersection(mine)


def read(folder: Path, *, layers: int, hidden: int, vocabulary: int) -> Eagle1Head:
    """The head in `folder`, for a target of so many layers, features and tokens. Raises `Problem` with the reason if
    it is none, is damaged, or was made for another target."""
    config, tensors = settings(folder), tensors_of(folder)
    names = {own: tensors[name] for name, own in own_names(tensors).items()}
    if "fc.weight" not in names:
        raise Problem(f"The drafter in {folder} is no EAGLE head: it has no fc.weight.", OTHER)
    with senseless(folder):
        shape = Shape(vocabulary=vocabulary, target_hidden=hidden, taps=(layers,), **sizes(config, names))
    if shape.hidden != hidden:
        raise Problem(
            f"The drafter in {folder} was made for a model with {shape.hidden} features, and this one has {hidden}.",
            OTHER,
        )
    check_vocabulary(config, vocabulary, folder)
    with senseless(folder):
        head = Eagle1Head(
            shape,
            normed="layers.0.input_layernorm.weight" in names,
            bias="fc.bias" in names,
            own_embedding=own_embedding(names, vocabulary, folder),
        )
    fill(head, names, config, folder)
    return head
