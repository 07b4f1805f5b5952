"""What the model picker says of models: what there is, what a pair agrees on, and what it needs of memory.

Asks `models`, loads nothing, fetches nothing. Slow enough (files are read) to be called on a thread of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from desktop.sidebar.stats import bytes_text
from mlx_spec.events import Problem
from models import LocalModel, check_folder, check_pair, local_models, propose
from models.folder import read_json
from models.memory import available, need

KINDS = {"imported": "on this machine", "hub": "in the hub's cache", "catalogue": "not downloaded yet"}
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "model_max_length")
USUAL_CONTEXT = 4096


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of the picker: `source` is what is loaded, the rest is for reading."""

    source: str
    title: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What is known of a pair before it is loaded, a sentence a line. `fits` False: something is wrong.

    `can_load` is False only where loading is certain to fail.
    """

    lines: tuple[str, ...]
    fits: bool = True
    can_load: bool = True


def list_choices() -> list[Choice]:
    """What is on this machine, then what other programs have here, then what can be fetched by name."""
    from models.on_disk import PLACES, elsewhere

    known = [choice_of(model) for model in local_models()]
    here = sum(model.path is not None for model in local_models())
    others = [
        Choice(one.source, one.title, f"{bytes_text(one.bytes)} · of {PLACES[one.place]}")
        for one in elsewhere({Path(choice.source) for choice in known})
        if not one.why_not
    ]
    return known[:here] + others + known[here:]


def choice_of(model: LocalModel) -> Choice:
    """A line of the picker for a model."""
    return Choice(model.name, model.title, f"{bytes_text(model.bytes)} · {KINDS.get(model.kind, model.kind)}")


def find(source: str) -> tuple[Path | None, str]:
    """The folder of a model that is ready to load, or None and a sentence saying what comes first.

    Raises `Problem` where a folder is named that is no model, or nothing of that name is known.
    """
    for model in local_models():
        if model.name == source:
            if model.path is not None:
                return model.path, ""
            return None, f"{model.title} is downloaded first ({bytes_text(model.bytes)}); the check follows then."
    path = Path(source).expanduser()
    if path.is_dir():
        check_folder(path)
        return path, ""
    if path.is_file():
        from models.gguf_import import imported

        folder = imported(path)
        if folder is not None:
            return folder, ""
        size = bytes_text(path.stat().st_size)
        return None, f"{path.name} is imported first ({size}); the check follows then."
    from models.locate import HUB_FILE

    if HUB_FILE.fullmatch(source) and not source.startswith((".", "/", "~")):
        return None, f"{source} is fetched from the hub and imported first; the check follows then."
    if source.count("/") == 1 and not source.startswith((".", "/", "~")) and not source.endswith(".gguf"):
        return None, f"{source} is fetched from the hub first; the check follows then."
    raise Problem(f'There is no model "{source}".', "Name a folder, a GGUF file or a hub id (owner/name).")


def context_of(folder: Path) -> int:
    """Tokens of context that a model was made for."""
    config = read_json(folder / "config.json")
    config = config.get("text_config", config)
    for key in CONTEXT_KEYS:
        if isinstance(config.get(key), int):
            return int(config[key])
    return USUAL_CONTEXT


def assess(model: str, draft: str, context: int | None = None) -> Assessment:
    """What can be said of a target and a draft ("" for none) before loading them.

    Raises `Problem` where one of them is no model at all.
    """
    target, waiting = find(model)
    lines = [waiting] if waiting else []
    second: Path | None = None
    if draft:
        second, waiting = find(draft)
        if waiting:
            lines.append(waiting)
    fits = True
    can_load = True
    if target is not None and second is not None:
        report = check_pair(target, second)
        if report.ok:
            lines.append("The two have the same vocabulary: the draft model can draft for this model.")
            lines += [f"Note: {note}." for note in report.notes]
        else:
            lines.append("This draft model cannot draft for this model:")
            lines += [f"{reason}." for reason in report.reasons]
            fits = can_load = False
    if target is not None and not draft and (offer := propose(model, target)) is not None:
        where = "on this machine" if offer.here else "to be fetched from the hub"
        lines.append(f"{offer.source}, {where}, is known to draft for this model. {offer.known}")
    if target is not None:
        most = context_of(target)
        length = min(context or most, most)
        asked, there = need(target, second, length), available()
        lines.append(
            f"{bytes_text(asked.total)} of memory at a full context of {length:,} tokens "
            f"({bytes_text(asked.weights + asked.draft_weights)} of weights); {bytes_text(there)} are free."
        )
        if asked.total > there:
            lines.append("That is too much: choose a smaller model or a shorter context.")
            fits = False
    return Assessment(tuple(lines), fits, can_load)
