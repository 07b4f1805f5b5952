"""mlx-spec bench: every question under every arm in turn, in one process.

Arms take turns in going first, so that a machine that slows down or a cache that warms up favours none. The
prompt is read once and every arm starts behind it. Ctrl-C ends the measurement and reports what was done.
"""

from __future__ import annotations

import json
import platform
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cli.loading import drafters, load
from ..events import DrafterSettings, Message, Problem, SamplingSettings
from .workload import Question, read

if TYPE_CHECKING:
    from ..engine import Engine
    from .arms import Arm
    from .report import Measured

WARM_UP = 8  # tokens an arm before anything is timed
ARMS = ("plain", "mlx-lm", "mlx-lm-plain")


def run(options: Namespace) -> int:
    """Measure and print the table; returns 0, or 130 if Ctrl-C ended it early."""
    for name in options.against:
        if name not in ARMS:
            raise Problem(f'There is nothing called "{name}" to measure against.', f"Choose from {', '.join(ARMS)}.")
    if "mlx-lm" in options.against and not options.draft:
        raise Problem("mlx-lm's speculative loop needs a draft model.", "Name one with --draft, or use mlx-lm-plain.")
    questions = read(options.workload, options.limit, options.turns)
    for path in (options.json, options.html, options.record):
        if path:
            _check_writable(path)
    if options.resume and not options.json:
        raise Problem("There is nothing to resume without a file of results.", "Name it with --json.")
    engine = load(options)
    if options.record:
        return _record(options, engine, questions)

    from . import report
    from .arms import MlxLm, Ours

    sampling = SamplingSettings(temperature=options.temperature, seed=options.seed)
    settings = drafters(options, engine)
    arms: list[Arm] = [
        Ours(report.PLAIN, engine, sampling, DrafterSettings(())),
        Ours(report.OURS, engine, sampling, settings),
    ]
    if "mlx-lm-plain" in options.against:
        arms.append(MlxLm("mlx-lm-plain", engine, options.temperature))
    if "mlx-lm" in options.against:
        arms += [MlxLm(f"mlx-lm-{n}", engine, options.temperature, n) for n in options.mlx_lm_drafts]

    # Texts must be the same where nothing is drawn. Where tokens are drawn, the rule `match` still writes the
    # plain text, while `rejection` and mlx-lm draw with noise of their own.
    compared = [arm.name for arm in arms if arm.name != report.OURS] if options.temperature == 0 else []
    if options.temperature > 0 and settings.rule == "match":
        compared = [report.PLAIN]

    about = _about(options, engine, settings)
    measured: list[Measured] = _resumed(options.json, about) if options.resume else []
    code = 0
    try:
        for m in measure(engine, arms, questions, sampling, options.max_tokens, options.repeats, compared, measured):
            measured.append(m)
            if options.json:  # after each prompt: a measurement that is broken off has lost nothing
                _write(options.json, report.as_json(measured, about))
    except KeyboardInterrupt:
        code = 130
    if measured:
        print(report.table(measured))
        if options.json:
            _write(options.json, report.as_json(measured, about))
        if options.html:
            from .page import page

            _write_text(options.html, page(report.as_json(measured, about)))
    return code


def measure(
    engine: Engine,
    arms: Sequence[Arm],
    questions: Sequence[Question],
    sampling: SamplingSettings,
    max_tokens: int,
    repeats: int = 1,
    compared: Sequence[str] = ("plain",),
    known: Sequence[Measured] = (),
) -> Iterator[Measured]:
    """One `Measured` a turn of a question. The plain reply is what later turns follow.

    Our text is compared with that of each arm in `compared`. What is in `known` is not measured again.
    """
    from .arms import Run
    from .compare import difference
    from .report import OURS, PLAIN, Measured

    total = sum(len(q.turns) for q in questions)
    done = 0
    warm = False
    before = {(m.category, m.name, m.turn): m for m in known}
    for question in questions:
        messages: list[Message] = []
        for turn, said in enumerate(question.turns):
            messages.append(Message("user", said))
            if again := before.get((question.category, question.name, turn)):
                messages.append(Message("assistant", _text(engine, again.runs[PLAIN][-1].tokens)))
                done += 1
                continue
            prompt = engine.encode(messages)
            if len(prompt) >= engine.context:
                _say(f"{question.category} {question.name} is longer than the context and is left out")
                total -= len(question.turns) - turn
                break
            for arm in arms:
                arm.prepare(prompt)
            if not warm:
                warm = True
                _say("warming up")
                for arm in arms:
                    arm.answer(WARM_UP)
            # The prompt is in the caches after this, so that no timed run follows a read.
            arms[0].answer(1)
            runs: dict[str, list[Run]] = {arm.name: [] for arm in arms}
            for repeat in range(repeats):
                first = (done + repeat) % len(arms)
                for arm in [*arms[first:], *arms[:first]]:
                    runs[arm.name].append(arm.answer(max_tokens))
            ours = runs[OURS][-1].tokens
            differences = {name: difference(engine, sampling, prompt, ours, runs[name][-1].tokens) for name in compared}
            m = Measured(question.category, question.name, turn, said, len(prompt), runs, differences)
            done += 1
            rates = ", ".join(f"{name} {m.rate(name):.2f}" for name in runs)
            _say(f"[{done}/{total}] {m.title}: {rates} tokens/s; ours {m.ratio(OURS):.2f}x")
            yield m
            messages.append(Message("assistant", _text(engine, runs[PLAIN][-1].tokens)))


def _resumed(path: Path, about: dict[str, Any]) -> list[Measured]:
    """What an earlier run with the same settings left in `path`; nothing if there is no such run."""
    from .report import from_json

    text = path.read_text("utf-8")
    if not text.strip():
        return []
    try:
        data = json.loads(text)
        different = [k for k, v in about.items() if data["settings"].get(k) != v]
        measured = from_json(data)
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise Problem(f"{path} does not hold results of mlx-spec bench.", "Leave out --resume to replace it.") from e
    if different:
        raise Problem(
            f"The results in {path} were measured with another {different[0].replace('_', ' ')}.",
            "Name another file, or leave out --resume to replace it.",
        )
    _say(f"{len(measured)} prompts were measured before")
    return measured


def _record(options: Namespace, engine: Engine, questions: Sequence[Question]) -> int:
    """Write what each drafter would have proposed, after each question; returns 0, or 130 for Ctrl-C."""
    from .record import as_json, record

    sampling = SamplingSettings(temperature=options.temperature, seed=options.seed, max_tokens=options.max_tokens)
    names = drafters(options, engine).names
    recorded = []
    try:
        for i, question in enumerate(questions, 1):
            prompt = engine.encode([Message("user", question.turns[0])])
            if len(prompt) + 32 >= engine.context:
                _say(f"{question.category} {question.name} is longer than the context and is left out")
                continue
            recorded.append(record(engine, prompt, sampling, names, question.category, question.name))
            _write_text(options.record, json.dumps(as_json(recorded)) + "\n")
            _say(f"[{i}/{len(questions)}] {question.category} {question.name}: {recorded[-1].tokens} tokens")
    except KeyboardInterrupt:
        return 130
    return 0


def _text(engine: Engine, tokens: Sequence[int]) -> str:
    return str(engine.tokenizer.decode([t for t in tokens if t not in engine.tokenizer.eos_token_ids]))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _about(options: Namespace, engine: Engine, settings: DrafterSettings) -> dict[str, Any]:
    import mlx.core as mx

    return {
        "model": options.model,
        "draft": options.draft,
        "dtype": options.dtype,
        "kv_bits": options.kv_bits,
        "drafters": list(settings.names),
        "rule": settings.rule,
        "max_draft": settings.max_draft,
        "adaptive": settings.adaptive,
        "temperature": options.temperature,
        "seed": options.seed,
        "max_tokens": options.max_tokens,
        "repeats": options.repeats,
        "workload": str(options.workload),
        "context": engine.context,
        "parameters": engine.info.parameters,
        "bits": engine.info.bits,
        "machine": platform.platform(),
        "device": str(mx.default_device()),
        "mlx": version("mlx"),
        "mlx_lm": version("mlx-lm"),
    }


def _check_writable(path: Path) -> None:
    """Find out now, not after an hour of measuring."""
    try:
        with path.open("a"):
            pass
    except OSError as e:
        raise Problem(f"The results cannot be written to {path}: {e.strerror}.", "Name another file.") from e


def _write(path: Path, data: dict[str, Any]) -> None:
    _write_text(path, json.dumps(data, indent=1) + "\n")


def _write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise Problem(f"The results cannot be written to {path}: {e.strerror}.", "Name another file.") from e
