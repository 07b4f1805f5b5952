"""Presets: named settings for chats (system prompt, sampling, drafters), kept in one JSON file, given to others as one.

A file that cannot be read is set aside, not lost; one that is imported is taken wholly or not at all. Knows settings
and files; no widget, no chats.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from desktop.own import checked
from mlx_spec.events import Problem

FORMAT = "outrider-presets"
VERSION = 1
LONGEST_NAME = 60
LARGEST = 4_000_000  # bytes of a file that is read


@dataclass(frozen=True, slots=True)
class Preset:
    """`values` by the settings' keys; what it does not name is as in all chats."""

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)


def clean_name(text: str) -> str:
    """A preset's name on one line. Raises `Problem` if nothing is left of it."""
    name = " ".join(text.encode("utf-8", "replace").decode("utf-8").replace("\0", "").split())[:LONGEST_NAME]
    if not name:
        raise Problem("A preset needs a name.", "Type one.")
    return name


def read(path: Path) -> list[Preset]:
    """The presets of a file. Raises `Problem` with one sentence that names the file and what is wrong with it."""
    what_to_do = "Nothing was changed. Choose a file that Outrider exported."
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError("it is too large")
        data = json.loads(path.read_text("utf-8"))
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError("it is no file of presets")
        if isinstance(data.get("version"), int) and data["version"] > VERSION:
            raise ValueError(f"it comes from a newer Outrider, format {data['version']}")
        presets = [_preset(item) for item in _list(data.get("presets"))]
        if len({preset.name for preset in presets}) < len(presets):
            raise ValueError("a name is there twice")
    except OSError as e:
        raise Problem(f"{path.name} cannot be read: {e.strerror}.", what_to_do) from e
    except RecursionError as e:
        raise Problem(f"{path.name} cannot be used: it is nested too deep.", what_to_do) from e
    except json.JSONDecodeError as e:
        raise Problem(f"{path.name} cannot be used: it is no JSON (line {e.lineno}).", what_to_do) from e
    except ValueError as e:  # text that is no UTF-8, too
        words = "it is no text" if isinstance(e, UnicodeDecodeError) else str(e)
        raise Problem(f"{path.name} cannot be used: {words}.", what_to_do) from e
    return presets


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("it holds no list of presets")
    return value


def _preset(item: Any) -> Preset:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise ValueError("a preset has no name")
    values = item.get("values", {})
    if not isinstance(values, dict):
        raise ValueError(f"the preset “{item['name'][:LONGEST_NAME]}” has no values")
    try:
        return Preset(clean_name(item["name"]), checked(values))
    except Problem as e:
        raise ValueError(f"in the preset “{item['name'][:LONGEST_NAME]}”, {e.message.rstrip('.')}") from e


def write(presets: Iterable[Preset], path: Path) -> None:
    """Write presets to a file, wholly or not at all. Raises `Problem` if the disk does not take it."""
    items = [{"name": preset.name, "values": dict(preset.values)} for preset in presets]
    text = json.dumps({"format": FORMAT, "version": VERSION, "presets": items}, ensure_ascii=False, indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        with part.open("w", encoding="utf-8", errors="replace") as f:
            f.write(text + "\n")
            f.flush()
            os.fsync(f.fileno())
        os.replace(part, path)
    except OSError as e:
        raise Problem(f"{path.name} cannot be written: {e.strerror}.", "Choose another folder, or make room.") from e


class Presets:
    """The presets of this machine, and the file they live in."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.notices: list[str] = []
        self._presets: dict[str, Preset] = {}
        if path.exists():
            try:
                self._presets = {preset.name: preset for preset in read(path)}
            except Problem as e:
                aside = path.with_name(f"presets.broken-{time.strftime('%Y%m%d-%H%M%S')}.json")
                try:
                    os.replace(path, aside)
                    self.notices.append(f"{e.message} It is kept as {aside.name}.")
                except OSError:
                    self.notices.append(e.message)

    def all(self) -> list[Preset]:
        """All of them by name."""
        return sorted(self._presets.values(), key=lambda preset: preset.name.casefold())

    def get(self, name: str) -> Preset | None:
        """The one of a name."""
        return self._presets.get(name)

    def save(self, name: str, values: Mapping[str, Any]) -> Preset:
        """Keep values under a name; one that was there is replaced. Raises `Problem`."""
        preset = Preset(clean_name(name), checked(values))
        self._keep({**self._presets, preset.name: preset})
        return preset

    def rename(self, name: str, new: str) -> str:
        """Give one another name, which no other has. Raises `Problem`."""
        new = clean_name(new)
        if new != name and new in self._presets:
            raise Problem(f"There is a preset “{new}” already.", "Choose another name.")
        rest = {k: v for k, v in self._presets.items() if k != name}
        self._keep({**rest, new: Preset(new, self._presets[name].values)})
        return new

    def remove(self, name: str) -> None:
        """Forget one; chats that were given it keep what they have. Raises `Problem`."""
        self._keep({k: v for k, v in self._presets.items() if k != name})

    def add(self, presets: Iterable[Preset]) -> list[str]:
        """Add some; where a name is taken by another preset, a number is put behind it. Raises `Problem`."""
        new, names = dict(self._presets), []
        for preset in presets:
            name, k = preset.name, 1
            while name in new and dict(new[name].values) != dict(preset.values):
                k += 1
                name = f"{preset.name} {k}"
            new[name] = Preset(name, preset.values)
            names.append(name)
        self._keep(new)
        return names

    def _keep(self, presets: dict[str, Preset]) -> None:
        write(sorted(presets.values(), key=lambda preset: preset.name.casefold()), self._path)
        self._presets = presets
