"""mlx-spec train: make a drafter for a model, on this machine."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable

from ..events import Problem
from ..power import on_battery
from .terminal import Progress

BATTERY_EVERY_S = 30.0
WORDS = {"answers": "writing answers", "learn": "learning", "measure": "measuring"}


def run(options: Namespace) -> int:
    """Train, and print what it came to; returns 0. Raises `Problem`."""
    import models
    from models import memory
    from models.paths import heads

    from ..engine import load_model
    from ..precision import has_gpu
    from ..train import loop
    from ..train.given import prompts, texts

    if options.minutes <= 0:
        raise Problem(f"The time is set to {options.minutes:g} minutes.", "Set it to 10 or more.")
    progress = Progress()
    try:
        target = models.locate(options.model, progress)
        memory.check(target, None, loop.LENGTH * loop.ROWS, options.dtype or ("stored" if has_gpu() else "float32"))
        progress("read", options.model)
        model, tokenizer, config = load_model(target, options.dtype)
        folder = options.out or heads()[0] / target.name
        if options.again:
            loop.forget(folder, options.kind)
        found = loop.train(
            model,
            tokenizer,
            config,
            folder,
            name=target.name,
            minutes=options.minutes,
            kind=options.kind,
            prompts=prompts(options.prompts) if options.prompts else (),
            given=texts(options.texts, tokenizer, loop.LENGTH) if options.texts else (),
            disk=int(options.disk * 1e9),
            report=_reporter(progress, options.minutes),
            wait=_battery(options.on_battery, progress),
        )
    finally:
        progress.clear()
    print("Held-out chains that a draft keeps to")
    for depth, (before, after) in enumerate(zip(found.before, found.after, strict=True), 1):
        print(f"  {depth} token{'s' if depth > 1 else ' '}  before {before:6.1%}  after {after:6.1%}")
    print(f"Tokens a pass that a chain of {len(found.after)} would give: {1 + sum(found.after):.2f}")
    print(f"{found.steps:,} steps over {found.tokens:,} tokens in {found.seconds / 60:.0f} minutes.")
    size = (found.folder / "model.safetensors").stat().st_size
    print(f"The drafter {options.kind} of {target.name} is in {found.folder} ({size / 1e6:.1f} MB).")
    return 0


def _reporter(progress: Progress, minutes: float) -> Callable[[str, float, str], None]:
    """Says what is being done and about how long it still takes."""
    began = time.monotonic()

    def report(stage: str, done: float, note: str) -> None:
        left = max(minutes - (time.monotonic() - began) / 60, 0)
        progress(WORDS[stage], f"{done:.0%}, {note}, {left:.0f} min left")

    return report


def _battery(allowed: bool, progress: Progress) -> Callable[[], bool]:
    """Whether to wait, asked again twice a minute."""
    asked, waiting = 0.0, False

    def wait() -> bool:
        nonlocal asked, waiting
        if not allowed and time.monotonic() - asked > BATTERY_EVERY_S:
            asked, waiting = time.monotonic(), on_battery()
            if waiting:
                progress("waiting", "for mains: the machine is on its battery (--on-battery goes on)")
        return waiting

    return wait
