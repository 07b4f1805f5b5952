"""Every setting, declared once with its type, default, range and words; and the file that keeps them.

Windows are made from these declarations. A value that is out of its range never gets in; a file that cannot be
read is set aside, not lost. This module knows no widget.
"""

from __future__ import annotations

import base64
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from PySide6.QtCore import QObject, Signal

from mlx_spec.events import DrafterSettings, Problem, SamplingSettings

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, eq=False)
class Setting(Generic[T_co]):
    """One setting. `kind` is bool, int, float, str, tuple (of str), dict (of whole numbers by name) or bytes;
    `optional` allows None. `explained` has a sentence for each of `choices`.

    `namespace` is "setting" for what a person chooses and "persist" for what the app remembers by itself.
    """

    key: str
    default: T_co
    kind: type
    short: str = ""
    long: str = ""
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[Any, ...] = ()
    explained: tuple[str, ...] = ()
    optional: bool = False
    namespace: str = "setting"

    def check(self, value: Any) -> T_co:
        """The value in its own type. Raises `Problem` naming the setting and what it may be."""
        name = self.short or self.key
        if value is None:
            if self.optional:
                return cast(T_co, None)
            raise Problem(f"{name} needs a value.", f"The default is {self.default}.")
        if self.kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if self.kind is tuple and isinstance(value, list):
            value = tuple(value)
        wrong = not isinstance(value, self.kind) or (self.kind is int and isinstance(value, bool))
        if not wrong and self.kind is dict:
            wrong = not all(isinstance(k, str) and type(v) is int for k, v in value.items())
        if wrong or (self.kind is tuple and not all(isinstance(v, str) for v in value)):
            raise Problem(f"{name} cannot be {value!r}.", f"The default is {self.default!r}.")
        if self.choices and value not in self.choices:
            raise Problem(f"{name} cannot be {value!r}.", f"Choose one of {', '.join(map(str, self.choices))}.")
        if self.kind in (int, float, dict):
            for number in value.values() if isinstance(value, dict) else (value,):
                self._check_range(name, number)
        return cast(T_co, value)

    def _check_range(self, name: str, value: float) -> None:
        low, high = self.minimum, self.maximum
        outside = (low is not None and value < low) or (high is not None and value > high)
        if outside or not math.isfinite(value):
            allowed = f"{low:g} or more" if high is None and low is not None else f"{low:g} to {high:g}"
            raise Problem(f"{name} cannot be {value}.", f"It may be {allowed}.")


MODEL = Setting("model", "starter", str, "Model", "starter, a folder, a GGUF file or a hub id (owner/name).")
DRAFT_MODEL = Setting("draft_model", "", str, "Draft model", "A small model with the same vocabulary; empty for none.")
CONTEXT: Setting[int | None] = Setting(
    "context", None, int, "Context length",
    "In tokens. Without one, what the model was made for; it takes memory. The next load takes it up.",
    minimum=256, maximum=10_000_000, step=1024, optional=True,
)  # fmt: skip
KV_BITS: Setting[int | None] = Setting(
    "kv_bits", None, int, "Keys and values", "What the model keeps of a conversation, from 5,000 tokens on. In fewer "
    "bits it takes less memory, and the text may differ a little. The next load takes it up.",
    choices=(None, 8, 4), explained=("as the model has them", "in 8 bits", "in 4 bits"), optional=True,
)  # fmt: skip
DRAFTERS: Setting[tuple[str, ...]] = Setting(
    "drafters",
    ("suffix", "lookup", "history", "model", "layer_skip", "mtp", "eagle3", "eagle", "dflash", "medusa"),
    tuple,
    "Drafters",
    "Who may draft; the one that promises most does. Effective from the next round.",
)
# The drafters that were there when some were last chosen: one that came later is on until it is switched off.
DRAFTERS_SEEN: Setting[tuple[str, ...]] = Setting(
    "drafters_seen", ("suffix", "lookup", "history", "model", "layer_skip"), tuple, namespace="persist"
)
RULE = Setting(
    "rule", "match", str, "Accept rule", "When a draft holds. Effective from the next round.",
    choices=("match", "rejection", "block"),
    explained=(
        "A draft holds while it is the token that the model draws itself: the same text with drafts or without.",
        "A draft holds as often as the model finds it likelier than the drafter did: the same chances, other text.",
        "Judges the drafts of a pass together: the same chances, and never fewer hold than with rejection.",
    ),
)  # fmt: skip
MAX_DRAFT = Setting(
    "max_draft", 16, int, "Longest draft", "Tokens. How many are worth drafting is decided round by round, up to this.",
    minimum=1, maximum=64, step=1,
)  # fmt: skip
LIMITS: Setting[dict[str, int]] = Setting(
    "max_drafts", {}, dict, "Longest draft of each", "Tokens. A drafter without a number has the one above.",
    minimum=1, maximum=64, step=1,
)  # fmt: skip
TEMPERATURE = Setting(
    "temperature", 0.7, float, "Temperature", "0 always takes the likeliest token.", minimum=0, maximum=5, step=0.05
)
TOP_P = Setting("top_p", 1.0, float, "Top-p", "1 is off.", minimum=0.01, maximum=1, step=0.01)
TOP_K = Setting("top_k", 0, int, "Top-k", "0 is off.", minimum=0, maximum=100_000, step=1)
MIN_P = Setting(
    "min_p", 0.05, float, "Min-p", "Tokens below this share of the likeliest one are left out; 0 is off.",
    minimum=0, maximum=0.99, step=0.01,
)  # fmt: skip
REPETITION_PENALTY = Setting(
    "repetition_penalty", 1.0, float, "Repetition penalty", "1 is off. Sees the prompt too.",
    minimum=0.1, maximum=5, step=0.05,
)  # fmt: skip
PRESENCE_PENALTY = Setting(
    "presence_penalty", 0.0, float, "Presence penalty", "0 is off.", minimum=-5, maximum=5, step=0.1
)
FREQUENCY_PENALTY = Setting(
    "frequency_penalty", 0.0, float, "Frequency penalty", "0 is off.", minimum=-5, maximum=5, step=0.1
)
SEED: Setting[int | None] = Setting(
    "seed", None, int, "Seed", "The same seed gives the same text; without one, each reply draws its own.",
    minimum=0, maximum=2**31 - 1, step=1, optional=True,
)  # fmt: skip
MAX_TOKENS: Setting[int | None] = Setting(
    "max_tokens", None, int, "Longest reply", "In tokens. Without one, until the context is full.",
    minimum=1, maximum=10_000_000, step=64, optional=True,
)  # fmt: skip
STOP: Setting[tuple[str, ...]] = Setting("stop", (), tuple, "Stop strings", "A reply ends before any of these.")
SYSTEM_PROMPT = Setting("system_prompt", "", str, "System prompt", "Said to the model before every chat.")
KEEP_REPLIES = Setting(
    "keep_replies",
    True,
    bool,
    "Draft from past replies",
    "Keeps the tokens of replies on this machine, by chat. They go when the chat is removed for good.",
)
SHOW_DRAFTS = Setting("show_drafts", True, bool, "Draft colours", "Tint and underline drafted tokens that held.")
SHOW_REJECTED = Setting(
    "show_rejected", True, bool, "Rejected drafts", "Show drafts that failed, struck through, for a moment."
)
SHOW_SIDEBAR = Setting("show_sidebar", True, bool, "Sidebar", "Speed, drafters and rounds, live.")
COLOR_SCHEME = Setting(
    "color_scheme", "system", str, "Appearance", "Light, dark, or as the system.", choices=("system", "light", "dark")
)
NOTIFY = Setting(
    "notify", True, bool, "Notifications", "Say when a reply that took long ends while the window is in the background."
)
ANNOUNCE = Setting(
    "announce", True, bool, "Read replies as they come", "Sentence by sentence, where a screen reader listens."
)
UNLOAD_AFTER: Setting[int | None] = Setting(
    "unload_after", None, int, "Unload when idle",
    "Minutes after which the model gives its memory back until you write again. Without one, never.",
    minimum=1, maximum=10_000, step=5, optional=True,
)  # fmt: skip
WINDOW_GEOMETRY = Setting("window_geometry", b"", bytes, namespace="persist")
WINDOW_STATE = Setting("window_state", b"", bytes, namespace="persist")
SPLITTER = Setting("splitter", b"", bytes, namespace="persist")
COLLAPSED: Setting[tuple[str, ...]] = Setting("collapsed", (), tuple, namespace="persist")  # of the chats' list
LAST_CHAT: Setting[int | None] = Setting("last_chat", None, int, optional=True, namespace="persist")

SETTINGS: tuple[Setting[Any], ...] = (
    MODEL, DRAFT_MODEL, CONTEXT, KV_BITS, DRAFTERS, DRAFTERS_SEEN, RULE, MAX_DRAFT, LIMITS,
    TEMPERATURE, TOP_P, TOP_K, MIN_P, REPETITION_PENALTY, PRESENCE_PENALTY, FREQUENCY_PENALTY,
    SEED, MAX_TOKENS, STOP, SYSTEM_PROMPT, KEEP_REPLIES,
    SHOW_DRAFTS, SHOW_REJECTED, SHOW_SIDEBAR, COLOR_SCHEME, NOTIFY, ANNOUNCE, UNLOAD_AFTER,
    WINDOW_GEOMETRY, WINDOW_STATE, SPLITTER, COLLAPSED,
    LAST_CHAT,
)  # fmt: skip


# What a chat or a preset can have of its own; see `desktop.own`.
PER_CHAT: tuple[Setting[Any], ...] = (
    SYSTEM_PROMPT, TEMPERATURE, TOP_P, TOP_K, MIN_P, REPETITION_PENALTY, PRESENCE_PENALTY, FREQUENCY_PENALTY, SEED,
    MAX_TOKENS, STOP, DRAFTERS,
)  # fmt: skip


def sampling_of(get: Callable[[Setting[Any]], Any]) -> SamplingSettings:
    """The sampling settings among some values."""
    return SamplingSettings(
        temperature=get(TEMPERATURE),
        top_p=get(TOP_P),
        top_k=get(TOP_K),
        min_p=get(MIN_P),
        repetition_penalty=get(REPETITION_PENALTY),
        presence_penalty=get(PRESENCE_PENALTY),
        frequency_penalty=get(FREQUENCY_PENALTY),
        seed=get(SEED),
        stop=get(STOP),
        max_tokens=get(MAX_TOKENS),
    )


def drafters_of(get: Callable[[Setting[Any]], Any]) -> DrafterSettings:
    """The drafter settings among some values."""
    limits = tuple(sorted(get(LIMITS).items()))
    return DrafterSettings(names=get(DRAFTERS), rule=get(RULE), max_draft=get(MAX_DRAFT), limits=limits)


class Settings(QObject):
    """The values, and the file they live in. Written at once and atomically when one changes."""

    changed = Signal(object)  # the Setting

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._values: dict[str, Any] = {}
        self.notices: list[str] = []
        self._read()

    def get(self, setting: Setting[T]) -> T:
        value: T = self._values.get(setting.key, setting.default)
        return value

    def set(self, setting: Setting[T], value: T) -> None:
        """Raises `Problem` if the value is out of its range; nothing changes then."""
        value = setting.check(value)
        if value == self.get(setting):
            return
        self._values[setting.key] = value
        if setting is DRAFTERS:
            self._values[DRAFTERS_SEEN.key] = DRAFTERS.default
        self._write()
        self.changed.emit(setting)

    def default(self, setting: Setting[T]) -> T:
        """What a setting goes back to."""
        return setting.default

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def sampling(self) -> SamplingSettings:
        """How the next token is chosen."""
        return sampling_of(self.get)

    def drafter_settings(self) -> DrafterSettings:
        """Who drafts, how much, and when it holds."""
        return drafters_of(self.get)

    def _read(self) -> None:
        try:
            data = json.loads(self._path.read_text("utf-8"))
            if not isinstance(data, dict):
                raise ValueError("it holds no object")
        except FileNotFoundError:
            return
        except (OSError, ValueError) as e:
            aside = self._path.with_name(f"settings.broken-{time.strftime('%Y%m%d-%H%M%S')}.json")
            try:
                os.replace(self._path, aside)
                self.notices.append(f"{self._path} could not be read ({e}); it is kept as {aside.name}.")
            except OSError:
                self.notices.append(f"{self._path} could not be read ({e}); the defaults are used.")
            return
        for setting in SETTINGS:
            if setting.key not in data:
                continue
            try:
                value = data[setting.key]
                if setting.kind is bytes:
                    value = base64.b64decode(value)
                self._values[setting.key] = setting.check(value)
            except (Problem, ValueError, TypeError) as e:
                self.notices.append(f"{self._path}: {setting.key} is not usable ({e}); the default is used.")
        if DRAFTERS.key in self._values:
            seen = self.get(DRAFTERS_SEEN)
            self._values[DRAFTERS.key] += tuple(
                n for n in DRAFTERS.default if n not in seen and n not in self._values[DRAFTERS.key]
            )

    def _write(self) -> None:
        packed: Callable[[Any], Any] = lambda v: base64.b64encode(v).decode() if isinstance(v, bytes) else v  # noqa: E731
        data = {k: packed(v) for k, v in self._values.items()}
        temporary = self._path.with_suffix(".writing")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("w", encoding="utf-8") as f:
                json.dump(data, f, indent=1, ensure_ascii=False)
                f.flush()
                os.fsync(f.fileno())
            os.replace(temporary, self._path)
        except OSError as e:
            # The choice holds for as long as the app runs; losing it later is worth a word, not a failure.
            self.notices.append(f"{self._path} could not be written ({e.strerror}); changes last until the app ends.")
