"""The result of a measurement as one HTML file: nothing is fetched, and it prints. Made from the JSON alone.

Five pictures: the speed ratio by category, the chance that a draft holds by its place, what a pass costs by its
width beside the flat line that drafting hopes for, the tokens a round that were expected and that came, and the
speed that the papers' formula and the controller predict beside what was measured.
"""

from __future__ import annotations

from collections import defaultdict
from html import escape
from statistics import median
from typing import Any

Points = list[tuple[float, float]]

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em;
       color: #1c1c1e; background: #fff; }
table { border-collapse: collapse; } td, th { padding: .2em .8em; text-align: right; }
td:first-child, th:first-child { text-align: left; } th { border-bottom: 1px solid #999; font-weight: 600; }
figure { display: inline-block; margin: 1em 2em 1em 0; } figcaption { max-width: 26em; }
svg { color: #1c1c1e; } .a { fill: #0a6cb0; stroke: #0a6cb0; } .b { fill: none; stroke: #777; }
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #1c1c1e; } svg { color: #eee; } .a { fill: #6cc3f5; stroke: #6cc3f5; } }
"""
WIDTH, HEIGHT, LEFT, BOTTOM = 380, 220, 44, 34


def page(data: dict[str, Any]) -> str:
    """The whole file. `data` is what `report.as_json` gave."""
    about, overall = data["settings"], data["all"]["arms"]
    title = f"{about['model']}" + (f" with {about['draft']}" if about["draft"] else "")
    rounds = _rounds(data)
    figures = [
        _figure(
            _bars(data), "Tokens a second against plain decoding, by category (geometric mean). The line is plain."
        ),
        _figure(
            _curve(_by_place(rounds), top=1.0, x="place in the draft", y="held"),
            "The chance that a draft at this place holds, where those before it did.",
        ),
        _figure(
            _curve(_by_width(rounds), flat=1.0, x="rows in the pass", y="plain passes"),
            "What a pass costs by its width (median). Dashed: a machine on which checking is free.",
        ),
        _figure(
            _curve(_expected(rounds), diagonal=True, x="tokens expected in a round", y="tokens that came"),
            "What the controller hoped for, and what came (mean). On the dashed line it was right.",
        ),
        _figure(
            _scatter(data),
            "Predicted and measured speed of each prompt. Rings: the papers' formula, by which checking is free. "
            "Dots: the sum of what the controller hoped for. On the dashed line the prediction was right.",
        ),
    ]
    worst = data["worst"]
    settings = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in about.items() if k not in ("model", "draft"))
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>
<h1>{escape(title)}: {overall["ours"]["ratio_to_plain"]:.2f}&times; plain</h1>
{_table(data)}
<p>Worst prompt: {escape(worst["category"])} {escape(worst["name"])}, {worst["ratio"]:.2f}&times;.</p>
{"".join(f for f in figures if f)}
<p>{escape(settings)}.</p>
</html>
"""


def _table(data: dict[str, Any]) -> str:
    arms = [a for a in data["all"]["arms"] if a != "plain"]
    head = "<tr><th>category<th>prompts<th>tokens/pass<th>accepted" + "".join(f"<th>{escape(a)}/plain" for a in arms)
    rows = []
    for name, group in [*data["categories"].items(), ("all", data["all"])]:
        ours = group["arms"]["ours"]
        held = "&ndash;" if ours["acceptance"] is None else f"{100 * ours['acceptance']:.0f} %"
        cells = [escape(name), str(group["prompts"]), f"{ours['tokens_per_pass']:.2f}", held]
        cells += [f"{group['arms'][a]['ratio_to_plain']:.2f}" for a in arms]
        rows.append("<tr>" + "".join(f"<td>{c}" for c in cells))
    return f"<table>{head}{''.join(rows)}</table>"


def _rounds(data: dict[str, Any]) -> list[tuple[int, int, int, float, float, float]]:
    """Of our arm: width, drafted, accepted, seconds, expected, and the prompt's median plain pass."""
    found = []
    for prompt in data["prompts"]:
        plain = [r[3] for run in prompt["runs"]["plain"] for r in run["rounds"]]
        if not plain:
            continue
        base = median(plain)
        for run in prompt["runs"]["ours"]:
            found += [(*r, base) for r in run["rounds"]]
    return found


def _by_place(rounds: list[Any]) -> Points:
    tried: dict[int, int] = defaultdict(int)
    held: dict[int, int] = defaultdict(int)
    for _, drafted, accepted, *_ in rounds:
        for place in range(min(drafted, accepted + 1)):
            tried[place] += 1
            held[place] += place < accepted
    return [(place + 1, held[place] / tried[place]) for place in sorted(tried) if tried[place] >= 3]


def _by_width(rounds: list[Any]) -> Points:
    costs: dict[int, list[float]] = defaultdict(list)
    for width, _, _, seconds, _, base in rounds:
        costs[width].append(seconds / base)
    return [(width, median(costs[width])) for width in sorted(costs)]


def _expected(rounds: list[Any]) -> Points:
    came: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for _, drafted, accepted, _, expected, _ in rounds:
        if drafted:
            came[round(expected)].append((expected, accepted + 1))
    means = [(sum(e for e, _ in v) / len(v), sum(n for _, n in v) / len(v)) for v in came.values() if len(v) >= 3]
    return sorted(means)


def _scatter(data: dict[str, Any]) -> str:
    """A ring and a dot a prompt: predicted across, measured up."""
    points = [(p["predicted"], p["ratio_to_plain"]["ours"]) for p in data["prompts"] if p.get("predicted")]
    if not points:
        return ""
    high = 1.1 * max(max(y, d["papers"], d["ours"]) for d, y in points)
    across, up = WIDTH - LEFT - 12, HEIGHT - BOTTOM - 10

    def at(x: float, y: float) -> tuple[str, str]:
        return f"{LEFT + x / high * across:.1f}", f"{HEIGHT - BOTTOM - y / high * up:.1f}"

    (x0, y0), (x1, y1) = at(0, 0), at(high, high)
    inside = f'<path class="b" d="M{x0},{y1} L{x0},{y0} L{x1},{y0}"/>'
    inside += f'<path class="b" stroke-dasharray="4 3" d="M{x0},{y0} L{x1},{y1}"/>'
    for predicted, y in points:
        for name, mark in (("papers", 'class="b" r="4"'), ("ours", 'class="a" r="3"')):
            cx, cy = at(predicted[name], y)
            title = f"{name}: {predicted[name]:.2f}, measured {y:.2f}"
            inside += f'<circle {mark} cx="{cx}" cy="{cy}"><title>{title}</title></circle>'
    inside += f'<text x="0" y="12">{high:.2g} measured</text><text x="{LEFT}" y="{HEIGHT - BOTTOM + 15}">0</text>'
    inside += f'<text x="{WIDTH - 8}" y="{HEIGHT - BOTTOM + 15}" text-anchor="end">{high:.2g}</text>'
    inside += f'<text x="{(WIDTH + LEFT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">predicted</text>'
    return _svg(inside)


def _figure(picture: str, words: str) -> str:
    return f"<figure>{picture}<figcaption>{words}</figcaption></figure>" if picture else ""


def _svg(inside: str, height: int = HEIGHT) -> str:
    return f'<svg width="{WIDTH}" height="{height}" font-size="12" fill="currentColor">{inside}</svg>'


def _bars(data: dict[str, Any]) -> str:
    rows = [(n, g["arms"]["ours"]["ratio_to_plain"]) for n, g in data["categories"].items()]
    most = max(1.0, *(v for _, v in rows))
    scale, height = (WIDTH - 190) / most, 24 * len(rows) + 10
    inside = f'<line class="b" x1="{130 + scale}" x2="{130 + scale}" y1="0" y2="{height}" stroke-dasharray="4 3"/>'
    for i, (name, value) in enumerate(rows):
        y = 24 * i + 4
        inside += f'<text x="0" y="{y + 13}">{escape(name[:18])}</text>'
        inside += f'<rect class="a" x="130" y="{y}" width="{scale * value:.1f}" height="16"/>'
        inside += f'<text x="{136 + scale * value:.1f}" y="{y + 13}">{value:.2f}&times;</text>'
    return _svg(inside, height)


def _curve(
    points: Points, x: str, y: str, top: float | None = None, flat: float | None = None, diagonal: bool = False
) -> str:
    if not points:
        return ""
    right = max(2.0, *(p[0] for p in points))
    high = top or 1.1 * max(1.0, *(p[1] for p in points), right if diagonal else 0)
    first = min(1.0, points[0][0])

    def at(px: float, py: float) -> str:
        across = LEFT + (px - first) / (right - first) * (WIDTH - LEFT - 12)
        return f"{across:.1f},{HEIGHT - BOTTOM - py / high * (HEIGHT - BOTTOM - 10):.1f}"

    inside = f'<path class="b" d="M{at(first, high)} L{at(first, 0)} L{at(right, 0)}"/>'
    if flat is not None:
        inside += f'<path class="b" stroke-dasharray="4 3" d="M{at(first, flat)} L{at(right, flat)}"/>'
    if diagonal:
        end = min(right, high)
        inside += f'<path class="b" stroke-dasharray="4 3" d="M{at(first, first)} L{at(end, end)}"/>'
    inside += f'<polyline class="a" style="fill:none" stroke-width="2" points="{" ".join(at(*p) for p in points)}"/>'
    for p in points:
        cx, cy = at(*p).split(",")
        inside += f'<circle class="a" cx="{cx}" cy="{cy}" r="3"><title>{p[0]:.3g}: {p[1]:.3g}</title></circle>'
    inside += f'<text x="0" y="12">{high:.2g} {escape(y)}</text>'
    inside += f'<text x="{LEFT}" y="{HEIGHT - BOTTOM + 15}">{first:.3g}</text>'
    inside += f'<text x="{WIDTH - 8}" y="{HEIGHT - BOTTOM + 15}" text-anchor="end">{right:.3g}</text>'
    inside += f'<text x="{(WIDTH + LEFT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">{escape(x)}</text>'
    return _svg(inside)
