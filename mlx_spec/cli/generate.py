"""mlx-spec generate: one prompt, one reply, and what it took."""

from __future__ import annotations

import json
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..events import Finished, Message, Problem, PromptProgress, Round, SamplingSettings
from .loading import drafters, load
from .terminal import Progress

if TYPE_CHECKING:
    from ..engine import Engine

LONG_PROMPT = 1024  # tokens from which reading the prompt is shown


def run(options: Namespace) -> int:
    """Answer the prompt; returns 0, or 130 if Ctrl-C ended the reply early."""
    prompt = read_prompt(options.prompt)
    engine = load(options)
    asked: str | list[Message] = prompt
    if not options.raw:
        system = [Message("system", options.system)] if options.system else []
        asked = [*system, Message("user", prompt)]
    elif options.system:
        asked = f"{options.system}\n\n{prompt}"
    events = _reply(options, engine, asked)
    with interruptible() as interrupted:
        rounds, finished = _stream(events(lambda: bool(interrupted)), show=not options.json)
    if options.json:
        # ASCII only: whatever the terminal's encoding, the object can be read back exactly.
        print(json.dumps(report(rounds, finished)))
    else:
        print(f"\n{summary(rounds, finished)}", file=sys.stderr)
    return 130 if interrupted else 0


def read_prompt(argument: str) -> str:
    """The prompt itself, or all of stdin for "-". Raises `Problem` if there is nothing in it."""
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if argument == "-" else argument
    if not text.strip().strip("\0"):
        raise Problem("The prompt is empty.", "Give some text, or - to read it from stdin.")
    return text


def _reply(options: Namespace, engine: Engine, asked: str | list[Message]) -> Any:
    sampling = SamplingSettings(
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        min_p=options.min_p,
        repetition_penalty=options.repetition_penalty,
        seed=options.seed,
        stop=tuple(s for s in options.stop if s),
        max_tokens=options.max_tokens,
    )
    settings = drafters(options, engine)
    return lambda stop: engine.generate(asked, sampling, settings, stop=stop)


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """The first Ctrl-C is noted in the list that this gives, so that a reply can end with its text and
    figures; the second raises KeyboardInterrupt."""
    seen: list[int] = []

    def note(number: int, frame: object) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def _stream(events: Iterator[PromptProgress | Round | Finished], show: bool) -> tuple[list[Round], Finished]:
    rounds: list[Round] = []
    progress = Progress()
    try:
        for event in events:
            if isinstance(event, PromptProgress):
                if event.total - event.cached >= LONG_PROMPT:
                    progress("prompt", "the prompt", event.done, event.total)
            elif isinstance(event, Round):
                progress.clear()
                rounds.append(event)
                text = "".join(span.text for span in event.spans)
                if show and text:
                    sys.stdout.write(text)
                    sys.stdout.flush()
            else:
                progress.clear()
                if show:
                    sys.stdout.write("".join(span.text for span in event.tail))
                    sys.stdout.flush()
                return rounds, event
    finally:
        progress.clear()
    raise RuntimeError("the reply ended without saying so")


def _rate(count: float, seconds: float | None) -> float | None:
    return count / seconds if seconds else None


def report(rounds: list[Round], finished: Finished) -> dict[str, Any]:
    """What `--json` prints. Rates are tokens a second; null where nothing was measured."""
    spans = [span for r in rounds for span in r.spans] + list(finished.tail)
    by_drafter = {n: {"drafted": s.drafted, "accepted": s.accepted} for n, s in finished.by_drafter.items()}
    read = finished.prompt_tokens - finished.cached_tokens
    return {
        "text": "".join(span.text for span in spans),
        "tokens": [token for r in rounds for token in r.tokens],
        "tokens_per_second": _rate(finished.tokens, finished.decode_s),
        "prompt_tokens_per_second": _rate(read, finished.prompt_s),
        "time_to_first_token_s": finished.first_token_s,
        "passes": finished.passes,
        "tokens_per_pass": finished.tokens / finished.passes if finished.passes else 0.0,
        "drafted": sum(s["drafted"] for s in by_drafter.values()),
        "accepted": sum(s["accepted"] for s in by_drafter.values()),
        "by_drafter": by_drafter,
        "plain_tokens_per_second": _rate(1, finished.plain_s),
        "peak_memory_bytes": finished.peak_memory,
    }


def summary(rounds: list[Round], finished: Finished) -> str:
    """The figures of a reply in one line."""
    figures = report(rounds, finished)
    parts = [f"{finished.tokens} tokens in {finished.passes} passes"]
    rate, plain = figures["tokens_per_second"], figures["plain_tokens_per_second"]
    if rate:
        parts.append(f"{rate:.1f} tokens/s" + (f" (plain {plain:.1f}: {rate / plain:.2f}x)" if plain else ""))
    for name, s in figures["by_drafter"].items():
        parts.append(f"{name}: {s['accepted']} of {s['drafted']} drafted tokens held")
    ends = {"stopped": "stopped", "length": "cut at --max-tokens", "context": "the context is full"}
    if finished.reason in ends:
        parts.append(ends[finished.reason])
    return "; ".join(parts) + f"; seed {finished.seed}"
