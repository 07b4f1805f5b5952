"""A chat as one HTML page that keeps the drafters' colours: nothing is fetched, no script, light and dark.

Knows bundles, Markdown and the drafters' marks; the page looks as the reader's system does, whatever the window does.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from PySide6.QtGui import QTextCharFormat

from desktop.attachments import split
from desktop.chat.parter import Parter
from desktop.theme import drafter_order, drafter_style
from desktop.transfer.bundle import Bundle, Piece, path_of
from desktop.transfer.export_markdown import day, ended, speaker
from desktop.transfer.markup import Markup

_Line = QTextCharFormat.UnderlineStyle
# CSS has no line of dashes and dots; a double one is told apart from the rest just as well.
_LINES = {
    _Line.SingleUnderline: "solid",
    _Line.DotLine: "dotted",
    _Line.DashUnderline: "dashed",
    _Line.WaveUnderline: "wavy",
    _Line.DashDotLine: "double",
    _Line.DashDotDotLine: "double",
}

_STYLE = """\
:root { color-scheme: light dark; --base: #ffffff; --text: #1a1a1a; --muted: #5c5c5c; --panel: #f1f1f1;
  --bubble: #dfeaf4; --border: #d8d8d8; --link: #1f5f93; }
@media (prefers-color-scheme: dark) { :root { --base: #1e1e1e; --text: #e8e8e8; --muted: #a8a8a8; --panel: #2d2e30;
  --bubble: #29404f; --border: #44474a; --link: #79bdf0; } }
body { margin: 0; background: var(--base); color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 780px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 1.5em; margin: 0; overflow-wrap: anywhere; }
h2, h3, h4, h5, h6 { font-size: 1.1em; margin: 1.2em 0 .4em; }
.small, .who { color: var(--muted); font-size: .85em; }
.who { font-weight: 600; margin: 0 0 4px; }
section { margin: 26px 0; overflow-wrap: anywhere; }
.user { margin-left: 22%; }
.user .text { background: var(--bubble); border-radius: 14px; padding: 9px 15px; white-space: pre-wrap; }
.user .who { display: none; }
p, li, td, th { white-space: pre-line; }
p { margin: .6em 0; }
pre { background: var(--panel); border-radius: 8px; padding: 12px 14px; overflow-x: auto; line-height: 1.4; }
code { font: .9em ui-monospace, Menlo, Consolas, monospace; }
:not(pre) > code { background: var(--panel); border-radius: 4px; padding: 1px 4px; }
blockquote { margin: .6em 0; padding-left: 14px; border-left: 3px solid var(--border); color: var(--muted); }
table { border-collapse: collapse; margin: .6em 0; display: block; overflow-x: auto; }
td, th { border: 1px solid var(--border); padding: 4px 10px; text-align: left; vertical-align: top; }
a { color: var(--link); }
hr { border: 0; border-top: 1px solid var(--border); }
.in1 { margin-left: 1.4em; } .in2 { margin-left: 2.8em; } .in3, .in4, .in5, .in6 { margin-left: 4.2em; }
.legend { margin: 10px 0 0; } .legend span { margin-right: 10px; padding: 0 4px; }
.d { text-decoration-line: underline; text-decoration-thickness: 1px; text-underline-offset: 3px; border-radius: 3px; }
details { margin: 0 0 .6em; white-space: normal; } summary { cursor: pointer; }
@media print { .user .text, .d { print-color-adjust: exact; } }
"""


def page(bundle: Bundle) -> str:
    """The whole file."""
    path = path_of(bundle)
    names = drafter_order(tuple({drafter for piece in path for _, drafter in piece.runs if drafter}))
    title = html.escape(bundle.title or "Chat")
    legend = " ".join(f"{_open(names, name)}{html.escape(drafter_style(name, False).title)}</span>" for name in names)
    legend = f'<p class="small legend">Drafted by: {legend}</p>' if legend else ""
    body = "\n".join(_section(piece, names) for piece in path)
    return (
        '<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>\n{_STYLE}{_drafter_css(names)}</style>\n</head>\n<body>\n<main>\n"
        f'<h1 dir="auto">{title}</h1>\n<p class="small">{day(bundle.created)}</p>\n{legend}\n{body}\n'
        "</main>\n</body>\n</html>\n"
    )


def _open(names: tuple[str, ...], name: str) -> str:
    title = html.escape(f"{drafter_style(name, False).title} proposed this")
    return f'<span class="d d{names.index(name)}" title="{title}">'


def _drafter_css(names: tuple[str, ...]) -> str:
    light: list[str] = []
    dark: list[str] = []
    for k, name in enumerate(names):
        for rules, is_dark in ((light, False), (dark, True)):
            style = drafter_style(name, is_dark)
            rules.append(
                f".d{k} {{ background: {style.tint.name()}; text-decoration-color: {style.ink.name()};"
                f" text-decoration-style: {_LINES[style.line]}; }}"
            )
    if not names:
        return ""
    return "\n".join(light) + "\n@media (prefers-color-scheme: dark) {\n" + "\n".join(dark) + "\n}\n"


def _folded(title: str, inside: str) -> str:
    return f'<details><summary class="small">{html.escape(title)}</summary>{inside}</details>'


def _reply(piece: Piece, names: tuple[str, ...]) -> str:
    """A reply's text, what was thought folded above the answer."""
    at, pieces = 0, []
    for length, drafter in piece.runs:
        pieces.append((piece.text[at : at + length], drafter))
        at += length
    parter = Parter()
    parted, rest = parter.feed([*pieces, (piece.text[at:], None)]), parter.finish()

    def marked(found: Sequence[tuple[str, str | None]]) -> str:
        runs = [(len(text), drafter) for text, drafter in found]
        return Markup("".join(text for text, _ in found), runs, lambda name: _open(names, name)).html()

    thought = [*parted.thought, *rest.thought]
    answer = [*([] if rest.restart else parted.answer), *rest.answer]
    return (_folded("Thought", marked(thought)) if thought else "") + marked(answer)


def _section(piece: Piece, names: tuple[str, ...]) -> str:
    if piece.role == "user":
        attachments, typed = split(piece.text)
        files = [_folded(f"{a.name}, {a.size:,} bytes", f"<pre>{html.escape(a.text)}</pre>") for a in attachments]
        text = "".join(files) + html.escape(typed)
    else:
        text = _reply(piece, names)
    note = f'<p class="small">{html.escape(ended(piece))}</p>' if piece.state != "done" else ""
    return (
        f'<section class="{piece.role}">\n<p class="who">{html.escape(speaker(piece))}</p>\n'
        f'<div class="text" dir="auto">{text}</div>{note}\n</section>'
    )
