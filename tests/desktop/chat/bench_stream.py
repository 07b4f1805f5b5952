"""Frame times while a reply streams into a long chat: `python -m tests.desktop.chat.bench_stream`.

A frame is what the window does every 16 ms: add the rounds that came, lay out, paint. 200 tokens a second in rounds
of one to five tokens, with rejected drafts, into (a) a chat of 50,000 tokens in 100 messages, all of them built, and
(b) a chat whose one reply has 20,000 tokens already.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time

from PySide6.QtWidgets import QApplication

from desktop.chat.transcript import Transcript
from desktop.store import MessageRow
from mlx_spec.events import Round, Span

WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "he",
    "his",
    "but",
    "at",
    "are",
    "this",
    "have",
    "from",
    "or",
]
RATE, FRAME_S = 200, 0.016


def text_of(tokens: int, seed: int) -> list[str]:
    """About `tokens` token texts of plausible markdown: paragraphs, lists, code, bold."""
    pick = random.Random(seed)
    found: list[str] = []
    while len(found) < tokens:
        kind = pick.random()
        if kind < 0.55:
            for _ in range(pick.randint(40, 120)):
                word = pick.choice(WORDS)
                found.append(f" **{word}**" if pick.random() < 0.03 else f" {word}")
            found.append(".\n\n")
        elif kind < 0.75:
            for _ in range(pick.randint(3, 8)):
                found.append("- ")
                found += [f"{pick.choice(WORDS)} " for _ in range(pick.randint(4, 14))]
                found.append("\n")
            found.append("\n")
        elif kind < 0.9:
            found.append("```python\n")
            for _ in range(pick.randint(4, 18)):
                found += ["    ", pick.choice(WORDS), " = ", pick.choice(WORDS), "(", "x", ")", "\n"]
            found.append("```\n\n")
        else:
            found += ["## ", "A ", "heading\n\n"]
    return found


def rounds_of(tokens: list[str], seed: int) -> list[Round]:
    """The tokens as rounds of two drafters, about half of the drafts rejected."""
    pick = random.Random(seed)
    found, at = [], 0
    while at < len(tokens):
        name = pick.choice(["lookup", "model", "model", None])
        held = min(pick.randint(0, 4) if name else 0, len(tokens) - at - 1)
        failed = (" wrong", "ly")[: pick.randint(0, 2)] if name else ()
        drafted = (*tokens[at : at + held], *failed)
        spans = (*(Span(t, name) for t in tokens[at : at + held]), Span(tokens[at + held]))
        ids = tuple(range(held + 1))
        found.append(
            Round(
                request=1,
                index=len(found),
                position=at,
                drafter=name if drafted else None,
                drafted=tuple(range(len(drafted))),
                drafted_text=drafted,
                accepted=held,
                tokens=ids,
                spans=spans,
                width=len(drafted) + 1,
                draft_s=0.001,
                verify_s=0.01,
                total_s=0.012,
            )
        )
        at += held + 1
    return found


def row(number: int, role: str, rounds: list[Round], state: str = "done") -> MessageRow:
    """A message as the store would give it."""
    spans = tuple(span for r in rounds for span in r.spans)
    text = "".join(span.text for span in spans)
    return MessageRow(number, 1, number - 1 or None, role, text, state, 0.0, "", spans, None, "Fake 1B")


def stream(transcript: Transcript, rounds: list[Round], number: int, pace: bool) -> tuple[list[float], list[float]]:
    """Milliseconds of every frame: by the clock, and of this thread's processor time.

    The two differ where other work on the machine holds the processor.
    """
    times: list[float] = []
    work: list[float] = []
    due, k, start = 0.0, 0, time.perf_counter()
    while k < len(rounds):
        due += RATE * FRAME_S
        batch = []
        while k < len(rounds) and due >= len(rounds[k].tokens):
            due -= len(rounds[k].tokens)
            batch.append(rounds[k])
            k += 1
        began, busy = time.perf_counter(), time.thread_time()
        if batch:
            transcript.append_rounds(number, batch)
        QApplication.processEvents()  # lays out, scrolls and paints
        times.append((time.perf_counter() - began) * 1000)
        work.append((time.thread_time() - busy) * 1000)
        if pace:
            time.sleep(max(0.0, start + len(times) * FRAME_S - time.perf_counter()))
    return times, work


def report(name: str, times: list[float]) -> float:
    """Print the figures; return the 99th percentile."""
    cut = statistics.quantiles(times, n=100)
    late = sum(t > 16 for t in times)
    print(f"{name}: {len(times)} frames, p50 {cut[49]:.2f}, p99 {cut[98]:.2f}, max {max(times):.2f} ms, {late} over 16")
    return cut[98]


def main() -> int:
    parse = argparse.ArgumentParser(description="frame times while streaming")
    parse.add_argument("--tokens", type=int, default=2000)
    parse.add_argument("--no-pace", action="store_true", help="do not wait between frames")
    options = parse.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    app = QApplication.instance() or QApplication([])
    worst = 0.0
    for name in ("50,000-token chat", "20,000-token reply"):
        transcript = Transcript()
        transcript.resize(900, 900)
        transcript.show()
        began = time.perf_counter()
        if name.startswith("50"):
            rows = [
                row(n, "user" if n % 2 else "assistant", rounds_of(text_of(40 if n % 2 else 960, n), n))
                for n in range(1, 101)
            ]
            transcript.show_messages(rows)
            app.processEvents()
            opened = time.perf_counter() - began
            while transcript.build_older():
                app.processEvents()
            transcript.jump_to_end()
            transcript.add_message(row(101, "assistant", [], "writing"))
        else:
            first = rounds_of(text_of(20_000, 5), 5)
            transcript.show_messages([row(101, "assistant", first, "writing")])
            opened = time.perf_counter() - began
        app.processEvents()
        print(f"{name}: opened in {opened:.2f} s, {len(transcript.views)} messages built")
        times, work = stream(transcript, rounds_of(text_of(options.tokens, 77), 77), 101, not options.no_pace)
        worst = max(worst, report("  by the clock", times))
        report("  processor   ", work)
        transcript.close()
        transcript.deleteLater()
        app.processEvents()
    return 0 if worst <= 16 else 1


if __name__ == "__main__":
    raise SystemExit(main())
