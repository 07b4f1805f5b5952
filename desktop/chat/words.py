"""What the transcript says in words: a reply's figures, its state, and how far the prompt is read. Knows no Qt."""

from __future__ import annotations

from collections.abc import Iterable

from mlx_spec.events import Finished, PromptProgress, Round

STATES = {
    "stopped": "Stopped.",
    "cut": "This reply was cut off.",
    "failed": "This reply could not be finished.",
}


def stats_line(stats: Finished | None) -> str:
    """ "42 tokens, 31 tok/s, 1.8x plain, 61 % of drafts held", with what is known; "" if nothing is."""
    if stats is None or stats.tokens <= 0:
        return ""
    parts = [f"{stats.tokens:,} token" + ("s" if stats.tokens != 1 else "")]
    if stats.decode_s > 0:
        rate = stats.tokens / stats.decode_s
        parts.append(f"{rate:.0f} tok/s" if rate >= 10 else f"{rate:.1f} tok/s")
        if stats.plain_s:
            parts.append(f"{rate * stats.plain_s:.1f}× plain")
    drafted = sum(d.drafted for d in stats.by_drafter.values())
    if drafted:
        held = sum(d.accepted for d in stats.by_drafter.values())
        parts.append(f"{100 * held / drafted:.0f} % of drafts held")
    ends = {"length": "ended at the token limit", "context": "the context is full"}
    if stats.reason in ends:
        parts.append(ends[stats.reason])
    return ", ".join(parts)


def state_line(state: str, note: str) -> str:
    """A reply's state for a person, "" if it is simply done or being written."""
    return "" if state == "writing" else f"{STATES.get(state, '')} {note}".strip()


def progress_line(progress: PromptProgress) -> str:
    """How far the prompt is read."""
    words = f"Reading the prompt: {progress.done:,} / {progress.total:,}"
    return words + (f", {progress.cached:,} already known" if progress.cached else "")


def rejected_of(rounds: Iterable[Round], length: int = 0) -> list[tuple[int, str, str]]:
    """The drafts that failed: after how many characters of the reply, their text, their drafter.

    `length` is how many characters the reply had before the first of `rounds`.
    """
    found = []
    for r in rounds:
        held = 0
        if r.accepted:
            seen = 0
            for span in r.spans:
                seen += len(span.text)
                if span.drafter is not None:
                    held = seen
        # The reply may end inside a draft: what was not looked at was not rejected.
        if r.drafter is not None and r.accepted < len(r.drafted) and len(r.tokens) > r.accepted:
            text = "".join(r.drafted_text[r.accepted :])
            if text:
                found.append((length + held, text, r.drafter))
        length += sum(len(span.text) for span in r.spans)
    return found
