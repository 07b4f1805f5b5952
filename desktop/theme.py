"""Colours, drafter names and drafter marks, for light and dark, out of a widget's own palette.

Every drafter has a hue, a line style and a square, whole or with a corner cut: the colour is never the only sign, and
those that share a line have hues that colour-blind people tell apart. This module does not know which drafters a
model has, and it never touches the application's palette.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtGui import QColor, QPalette, QTextCharFormat
from PySide6.QtWidgets import QWidget

from desktop.comfort import more_contrast

_Underline = QTextCharFormat.UnderlineStyle

# In the order in which they are shown. A name that is not here gets a readable title and a hue of its own.
_TITLES = {
    "suffix": "Suffix lookup",
    "lookup": "Prompt lookup",
    "history": "Past replies",
    "model": "Draft model",
    "layer_skip": "Layer skip",
    "mtp": "Multi-token heads",
    "eagle3": "EAGLE-3",
    "eagle": "EAGLE",
    "dflash": "DFlash",
    "medusa": "Medusa heads",
}

# Heads read the model's own states. There are more drafters than kinds of line, so their squares have a corner cut.
_HEADS = frozenset(("mtp", "eagle3", "eagle", "dflash", "medusa"))

# hue as (light ink, dark ink); the inks are Okabe and Ito's colours, darkened or lightened until they read.
_HUES = {
    "lookup": ("#005f99", "#6cc3f5"),
    "model": ("#8f5200", "#f0b23c"),
    "suffix": ("#00684c", "#3fcf9f"),
    "history": ("#7a3b1d", "#d9a083"),
    "layer_skip": ("#93346f", "#e59ac3"),
    "medusa": ("#a84300", "#ff9a5c"),
    "eagle3": ("#6b6000", "#e6dc4c"),
    "eagle": ("#7b1fa2", "#d7a1ff"),
    "mtp": ("#3b4bb5", "#a9b4ff"),
    "dflash": ("#5a5a5a", "#c4c4c4"),
}

_LINES = {
    "lookup": _Underline.DotLine,
    "model": _Underline.SingleUnderline,
    "suffix": _Underline.DashUnderline,
    "history": _Underline.WaveUnderline,
    "layer_skip": _Underline.DashDotLine,
    "medusa": _Underline.DashDotLine,
    "eagle3": _Underline.DashDotDotLine,
    "eagle": _Underline.SingleUnderline,
    "mtp": _Underline.DashUnderline,
    "dflash": _Underline.DotLine,
}

_LINE_WORDS = {
    _Underline.SingleUnderline: "solid line",
    _Underline.DotLine: "dotted line",
    _Underline.DashUnderline: "dashed line",
    _Underline.WaveUnderline: "wavy line",
    _Underline.DashDotLine: "dash-dot line",
    _Underline.DashDotDotLine: "dash-dot-dot line",
}

READABLE = 4.5  # contrast ratio of body text (WCAG AA)
MORE_READABLE = 7.0  # where the system is asked for more contrast (AAA)


@dataclass(frozen=True, slots=True)
class DrafterStyle:
    """How a drafter's tokens look: `tint` behind them, `ink` for lines, charts and its name. `cut` says that its square
    has a corner cut off; no two drafters have the same line and the same square."""

    name: str
    title: str
    ink: QColor
    tint: QColor
    line: QTextCharFormat.UnderlineStyle
    line_words: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Colors:
    """What the window paints with besides the palette's own roles."""

    dark: bool
    text: QColor
    muted: QColor
    base: QColor
    panel: QColor  # behind code
    bubble: QColor  # behind what the person wrote
    border: QColor
    accent: QColor
    on_accent: QColor
    danger: QColor
    ghost: QColor  # rejected drafts
    hit: QColor  # behind what a search found
    on_hit: QColor
    hit_now: QColor  # and where one is of these
    on_hit_now: QColor


def contrast(first: QColor, second: QColor) -> float:
    """The WCAG contrast ratio of two opaque colours, 1 to 21."""

    def luminance(color: QColor) -> float:
        parts = []
        for value in (color.redF(), color.greenF(), color.blueF()):
            parts.append(value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4)
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def mix(first: QColor, second: QColor, share: float) -> QColor:
    """`share` of `second` in `first`, 0 to 1, opaque."""
    keep = 1.0 - share
    return QColor(
        round(first.red() * keep + second.red() * share),
        round(first.green() * keep + second.green() * share),
        round(first.blue() * keep + second.blue() * share),
    )


def readable(color: QColor, background: QColor, ratio: float = READABLE) -> QColor:
    """`color`, moved towards black or white until it reads on `background` with at least `ratio`."""
    black, white = QColor("#000000"), QColor("#ffffff")
    goal = white if contrast(white, background) > contrast(black, background) else black
    for step in range(21):
        moved = mix(color, goal, step / 20)
        if contrast(moved, background) >= ratio:
            return moved
    return goal


def is_dark(palette: QPalette) -> bool:
    """Whether a palette is a dark one."""
    return palette.color(QPalette.ColorRole.Base).lightnessF() < 0.5


def colors_of(widget: QWidget) -> Colors:
    """The colours that go with a widget's palette."""
    return colors(widget.palette())


def colors(palette: QPalette) -> Colors:
    """The colours that go with a palette; each text colour reads on what it is meant to stand on."""
    role = QPalette.ColorRole
    given = (palette.color(role.Base).rgb(), palette.color(role.Text).rgb(), palette.color(role.Accent).rgb())
    return _colors(*given, more_contrast())


@lru_cache(maxsize=16)
def _colors(base_rgb: int, text_rgb: int, accent_rgb: int, more: bool = False) -> Colors:
    base, accent = QColor(base_rgb), QColor(accent_rgb)
    dark = base.lightnessF() < 0.5
    ratio = MORE_READABLE if more else READABLE
    text = readable(QColor(text_rgb), base, ratio)
    panel = mix(base, text, 0.06 if not dark else 0.08)
    bubble = mix(base, accent, 0.13 if not dark else 0.26)
    accent = readable(accent, base, ratio)
    white, black = QColor("#ffffff"), QColor("#000000")
    return Colors(
        dark=dark,
        text=text,
        muted=readable(mix(base, text, 0.75 if more else 0.6), panel, ratio),
        base=base,
        panel=panel,
        bubble=bubble,
        border=mix(base, text, 0.55 if more else 0.16),
        accent=accent,
        on_accent=white if contrast(white, accent) >= contrast(black, accent) else black,
        danger=readable(QColor("#ff7b6b" if dark else "#b3261e"), panel, ratio),
        ghost=readable(mix(base, text, 0.6), panel, ratio),
        hit=QColor("#5c4a08" if dark else "#ffeaa0"),
        on_hit=QColor("#fff3c8" if dark else "#1a1a1a"),
        hit_now=QColor("#ffb937" if dark else "#ffae35"),
        on_hit_now=QColor("#000000"),
    )


def drafter_title(name: str) -> str:
    """A drafter's name for a person: "lookup" is "Prompt lookup"; an unknown name is made readable."""
    known = _TITLES.get(name)
    return known if known is not None else name.replace("_", " ").strip().capitalize() or "Drafter"


def drafter_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """`names` in the order in which they are shown, unknown ones last by name."""
    known = list(_TITLES)
    return tuple(sorted(names, key=lambda n: (known.index(n) if n in known else len(known), n)))


@lru_cache(maxsize=64)
def drafter_style(name: str, dark: bool) -> DrafterStyle:
    """The mark of a drafter on a light or dark scheme. Body text reads on its tint with 4.5:1 or more."""
    keys = list(_HUES)
    key = name if name in _HUES else keys[sum(name.encode()) % len(keys)]
    ink = QColor(_HUES[key][1 if dark else 0])
    tint = mix(QColor("#1e1e1e"), ink, 0.24) if dark else mix(QColor("#ffffff"), ink, 0.15)
    line = _LINES[key]
    return DrafterStyle(name, drafter_title(name), ink, tint, line, _LINE_WORDS[line], key in _HEADS)


def mute(label: QWidget) -> None:
    """Give a label the muted colour of its scheme."""
    palette, muted = label.palette(), colors_of(label).muted
    if palette.color(label.foregroundRole()) != muted:
        palette.setColor(label.foregroundRole(), muted)
        label.setPalette(palette)
