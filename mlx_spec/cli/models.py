"""mlx-spec models: what is here, what can be fetched, and what fits together."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from ..events import Problem
from .terminal import Progress, size


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

    found = models.local_models()
    if options.json:
        rows = [{**asdict(m), "path": str(m.path) if m.path else None} for m in found]
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
