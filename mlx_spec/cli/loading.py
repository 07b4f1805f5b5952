"""From the options to a loaded engine and the settings of a run."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from ..events import DrafterSettings, Problem
from .terminal import Progress

if TYPE_CHECKING:
    from ..engine import Engine


def load(options: Namespace) -> Engine:
    """Find or fetch the models that the options name, check them and load them. Raises `Problem`."""
    progress = Progress()
    try:
        from models.paths import heads, home

        from ..engine import load_engine
        from ..host import prepare

        target, draft = prepare(options.model, options.draft, options.context, options.dtype, progress)
        progress("read", options.model)
        return load_engine(
            target,
            draft,
            context=options.context,
            dtype=options.dtype,
            name=options.model,
            draft_name=options.draft or "",
            layers=home() / "layers",
            head=options.head,
            heads=heads(),
            kv_bits=options.kv_bits,
            quantized_kv_start=options.quantized_kv_start,
        )
    finally:
        progress.clear()


def drafters(options: Namespace, engine: Engine) -> DrafterSettings:
    """Who drafts: the named ones, or all that can run. Raises `Problem` with the reason if one cannot."""
    able = engine.info.drafters
    names = able if options.drafters is None else options.drafters
    refused = dict(engine.info.refused)
    for name in names:
        if name in able:
            continue
        if name in refused:
            remedy = "Name one with --draft." if name == "model" and not options.draft else "Leave it out."
            raise Problem(f'The drafter "{name}" cannot run: {refused[name]}.', remedy)
        raise Problem(f'There is no drafter "{name}".', f"Those that can run here: {', '.join(able)}.")
    return DrafterSettings(tuple(names), options.rule, options.max_draft, not options.fixed)
