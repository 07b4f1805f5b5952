"""A race as a short Markdown report. Knows a race, not who asks."""

from __future__ import annotations

from desktop.race.result import Lap, Race, lap_line, parted_words, ratio_line, same_line, terms
from desktop.sidebar.stats import rate_text, seconds_text
from desktop.theme import drafter_title


def markdown(race: Race) -> str:
    """The report: verdict, table, settings, drafters, and the text once, or twice where there are two."""
    lines = ["# Race: plain against drafted", ""]
    lines += [f"**{ratio_line(race)}; {same_line(race)}.**", ""]
    if not race.same:
        lines += [parted_words(), ""]
    lines += [*(f"> {line}" for line in race.prompt.splitlines()), ""]
    lines += ["| | tokens | passes | time | rate | first token |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    lines += [_row(race.plain), _row(race.drafted), "", terms(race), ""]
    stats = race.drafted.finished.by_drafter if race.drafted.finished is not None else {}
    if stats:
        lines += ["| drafter | passes | drafted | held |", "| --- | ---: | ---: | ---: |"]
        lines += [f"| {drafter_title(n)} | {s.rounds:,} | {s.drafted:,} | {s.accepted:,} |" for n, s in stats.items()]
        lines += [""]
    for lap in (race.plain,) if race.same else (race.plain, race.drafted):
        lines += [f"## {'The text' if race.same else lap.title}", "", *fenced(lap.text), ""]
    return "\n".join(lines)


def _row(lap: Lap) -> str:
    first = seconds_text(lap.finished.first_token_s) if lap.finished is not None else "–"
    cells = [f"{len(lap.tokens):,}", f"{len(lap.rounds):,}", f"{lap.seconds:.2f} s", rate_text(lap.rate), first]
    return f"| {lap.title} | {' | '.join(cells)} |"


def fenced(text: str) -> list[str]:
    """A text as it is, in a fence longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}text", text, fence]


def summary(race: Race) -> str:
    """One line a lap and the verdict, for a screen reader and for the clipboard."""
    laps = [f"{lap.title}: {lap.seconds:.2f} s, {lap_line(lap)}" for lap in (race.plain, race.drafted)]
    return "\n".join([*laps, f"{ratio_line(race)}; {same_line(race)}"])
