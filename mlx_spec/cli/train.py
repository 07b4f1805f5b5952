"""mlx-spec train: make a drafter for a model, on this machine.

Asked to end (SIGTERM), it ends after the step that runs: what was learned is kept and used, the next run goes on.
"""

from __future__ import annotations

import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from ..events import Problem
from ..power import on_battery
from .terminal import JsonLines, Progress

if TYPE_CHECKING:
    from ..train.loop import Trained

BATTERY_EVERY_S = 30.0
PLAIN_EVERY_S = 30.0  # between lines of one stage where stderr is no terminal
WORDS = {"answers": "writing answers", "learn": "learning", "measure": "measuring"}
TERMINATED = 143  # 128 + SIGTERM, as a shell reports it


class Stopped(Exception):
    """Asked to end while answers are written: those that are whole are kept."""


def run(options: Namespace) -> int:
    """Train, and print what it came to; returns 0, or 143 if it was asked to end before anything was learned. Raises
    `Problem`."""
    import models
    from models import memory
    from models.paths import heads

    from ..engine import load_model
    from ..precision import has_gpu
    from ..train import loop
    from ..train.given import prompts, texts

    if options.minutes <= 0:
        raise Problem(f"The time is set to {options.minutes:g} minutes.", "Set it to 10 or more.")
    progress = JsonLines() if options.json else Progress()
    try:
        with _asked_to_end() as asked:
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
                report=_reporter(progress, options.minutes, asked),
                wait=_battery(options.on_battery, progress),
                stop=asked,
            )
            early = asked()
    except Stopped:
        progress.clear()
        if isinstance(progress, JsonLines):
            progress.say(stopped=True)
        else:
            print("Stopped before anything was learned; the answers are kept. Start it again to go on.")
        return TERMINATED
    finally:
        progress.clear()
    if isinstance(progress, JsonLines):
        progress.say(
            stopped=early,
            kind=options.kind,
            folder=str(found.folder),
            before=found.before,
            after=found.after,
            minutes=round(found.seconds / 60, 1),
            bytes=_size(found),
        )
        return 0
    print("Held-out chains that a draft keeps to")
    for depth, (before, after) in enumerate(zip(found.before, found.after, strict=True), 1):
        print(f"  {depth} token{'s' if depth > 1 else ' '}  before {before:6.1%}  after {after:6.1%}")
    print(f"Tokens a pass that a chain of {len(found.after)} would give: {1 + sum(found.after):.2f}")
    print(f"{found.steps:,} steps over {found.tokens:,} tokens in {found.seconds / 60:.0f} minutes.")
    print(f"The drafter {options.kind} of {target.name} is in {found.folder} ({_size(found) / 1e6:.1f} MB).")
    if early:
        print("It was stopped early. Start it again to go on.")
    return 0


def _size(found: Trained) -> int:
    return (found.folder / "model.safetensors").stat().st_size


@contextmanager
def _asked_to_end() -> Iterator[Callable[[], bool]]:
    """Inside, SIGTERM does not end the process; the function that is given tells whether it came."""
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGTERM, before)


def _reporter(
    progress: Progress | JsonLines, minutes: float, asked: Callable[[], bool] = lambda: False
) -> Callable[[str, float, str], None]:
    """Says what is being done and about how long it still takes. Raises `Stopped` if it was `asked` to end before
    anything was learned: a part of the answers takes minutes, and a head that knows nothing is none to keep."""
    began = time.monotonic()
    bar = sys.stderr.isatty()
    told = ("", 0.0)  # what was said last, and when

    def report(stage: str, done: float, note: str) -> None:
        nonlocal told
        if asked() and (stage, done) != ("measure", 1.0) and stage != "learn":
            raise Stopped
        left = max(minutes - (time.monotonic() - began) / 60, 0)
        if isinstance(progress, JsonLines):
            progress.say(stage=stage, share=done, note=note, minutes_left=round(left, 1))
        elif bar or stage != told[0] or time.monotonic() - told[1] >= PLAIN_EVERY_S:
            told = (stage, time.monotonic())
            progress(WORDS[stage], f"{done:.0%}, {note}, {left:.0f} min left")

    return report


def _battery(allowed: bool, progress: Progress | JsonLines) -> Callable[[], bool]:
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
