"""mlx-spec models: what is here, what can be fetched, and what fits together."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ..events import Problem
from .terminal import Progress, size

if TYPE_CHECKING:
    from models.drafters import KnownTarget


def _locate(name: str) -> Path:
    """The folder of a model, fetched or imported if need be."""
    import models

    progress = Progress()
    try:
        return models.locate(name, progress)
    finally:
        progress.clear()


def list_models(options: Namespace) -> int:
    """Print the models that are here and those that can be fetched by name."""
    import models
    from models.on_disk import PLACES, elsewhere

    found = models.local_models()
    others = elsewhere()
    if options.json:
        rows = [{**asdict(m), "path": str(m.path) if m.path else None} for m in found]
        rows += [{**asdict(m), "name": m.source, "path": str(m.path), "kind": m.place} for m in others]
        print(json.dumps(rows))
        return 0
    entries = models.catalogue()
    width = max((len(m.name) for m in found), default=0)
    for m in found:
        state = "can be fetched" if m.path is None else "here"
        entry = entries.get(m.name)
        about = [m.title] if m.title != m.name else []
        about += [entry.licence] if entry else []
        about += [f"drafted for by {entry.draft}"] if entry and entry.draft else []
        print(f"{m.name:{width}}  {size(m.bytes):>8}  {state:14}  {', '.join(about)}".rstrip())
    for other in others:
        print(f"\n{other.title}  {size(other.bytes)}, {PLACES[other.place]}\n  {other.source}")
        print(f"  {other.why_not or other.note or 'It is used where it is.'}")
    return 0


def get(options: Namespace) -> int:
    """Fetch a model and print its folder."""
    print(_locate(options.name))
    return 0


def import_file(options: Namespace) -> int:
    """Import a GGUF file and print the folder made from it."""
    path = Path(options.file).expanduser()
    if not path.exists():
        raise Problem(f"There is no file {path}.", "Check the name.")
    if path.is_dir():
        raise Problem(f"{path} is a folder, not a GGUF file.", "Folders load as they are: use --model.")
    print(_locate(str(path)))
    return 0


def check(options: Namespace) -> int:
    """Say whether DRAFT can draft for TARGET; returns 1 with the reasons if it cannot."""
    import models

    report = models.check_pair(_locate(options.target), _locate(options.draft))
    if options.json:
        print(json.dumps(asdict(report)))
        return 0 if report.ok else 1
    verdict = "can" if report.ok else "cannot"
    print(f"{options.draft} {verdict} draft for {options.target}.")
    for line in (*report.reasons, *report.notes):
        print(f"  {line}")
    return 0 if report.ok else 1


def drafters(options: Namespace) -> int:
    """Name the drafters that are known for TARGET, best first, and why there are none of other kinds."""
    from models import drafters as known

    name, config = known.called(options.target)
    found = known.matches(name, config)
    if options.json:
        print(json.dumps([asdict(t) for t in found], ensure_ascii=False))
        return 0
    if not found:
        print(f"No published drafter is known for {options.target}.")
    elif not any(known.is_named(t, name) for t in found):
        shapes = " and ".join(t.title for t in found)
        print(f"{options.target} has the shape of {shapes}; its name does not say whether it is one.")
    for target in found:
        print("\n".join(_known_lines(target)))
    print(WITHOUT_FILES.format(model=options.target))
    if any(d.id for t in found for d in t.drafters):
        print(OF_OTHERS)
    return 0


WITHOUT_FILES = """
Without any file: suffix, lookup and history copy, with every model; whether layer_skip gains is found out by
  mlx-spec layers --model {model}
Of your own: a head made on this machine by
  mlx-spec train --model {model}"""
OF_OTHERS = """
Sizes are estimates. The ids were read in public listings, nothing was fetched: look at the hub first. Figures are
other people's, on their machines; on yours, mlx-spec bench tells. A model that was trained further agrees less with
what was made for its parent. The id of a draft model goes to --draft; of the others, fetch one with hf download ID and
give its folder to --head."""


def _known_lines(target: KnownTarget) -> list[str]:
    """What is known for one target, a few lines a drafter."""
    from models.drafters import NOT_READ

    lines = [target.title]
    for number, one in enumerate(target.drafters, 1):
        about = [f"about {size(one.gb * 1e9)}" if one.gb else "size: see the hub", f"licence: {one.licence}"]
        about += ["the id is not verified"] if one.source == "memory" else []
        about += ["this form is not read here yet"] if one.variant in NOT_READ else []
        lines.append(f"  {number}. {one.kind}  {one.id or 'comes along'}{f'  ({one.variant})' if one.variant else ''}")
        lines.append(f"     {', '.join(about)}")
        lines.append(f"     {one.known}")
    lines += [f"  no {kind}: {reason}" for kind, reason in target.why_not.items()]
    return lines
