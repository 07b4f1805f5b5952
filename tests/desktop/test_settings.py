from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from desktop import settings as s
from mlx_spec.events import Problem


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.json"


def test_values_survive(path: Path) -> None:
    first = s.Settings(path)
    first.set(s.TEMPERATURE, 1.25)
    first.set(s.DRAFTERS, ("lookup",))
    first.set(s.WINDOW_STATE, b"\x00\xff")
    first.set(s.SEED, 5)
    again = s.Settings(path)
    assert again.get(s.TEMPERATURE) == 1.25
    assert again.get(s.DRAFTERS) == ("lookup",)
    assert again.get(s.WINDOW_STATE) == b"\x00\xff"
    assert again.get(s.SEED) == 5
    assert again.get(s.TOP_K) == 0
    assert again.sampling().temperature == 1.25
    assert again.drafter_settings().names == ("lookup",)


def test_changes_are_told_once(path: Path) -> None:
    settings = s.Settings(path)
    told: list[object] = []
    settings.changed.connect(told.append)
    settings.set(s.TOP_K, 5)
    settings.set(s.TOP_K, 5)
    assert told == [s.TOP_K]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        (s.TEMPERATURE, -1.0),
        (s.TEMPERATURE, float("nan")),
        (s.TEMPERATURE, "hot"),
        (s.TOP_K, True),
        (s.RULE, "typical"),
        (s.DRAFTERS, (1, 2)),
        (s.MODEL, None),
        (s.MAX_TOKENS, 0),
    ],
)
def test_what_is_out_of_range_never_gets_in(path: Path, setting: Any, value: Any) -> None:
    settings = s.Settings(path)
    with pytest.raises(Problem) as e:
        settings.set(setting, value)
    assert setting.short in e.value.message
    assert e.value.remedy
    assert settings.get(setting) == setting.default


def test_a_broken_file_is_set_aside(path: Path) -> None:
    path.write_text("{ not json")
    settings = s.Settings(path)
    assert settings.get(s.MODEL) == "starter"
    assert "could not be read" in settings.notices[0]
    (kept,) = path.parent.glob("settings.broken-*.json")
    assert kept.read_text() == "{ not json"


def test_one_bad_value_costs_only_itself(path: Path) -> None:
    path.write_text(json.dumps({"temperature": 99, "top_k": 7, "unknown": 1}))
    settings = s.Settings(path)
    assert settings.get(s.TEMPERATURE) == s.TEMPERATURE.default
    assert settings.get(s.TOP_K) == 7
    assert "temperature" in settings.notices[0]


def test_declarations_are_sound() -> None:
    keys = [x.key for x in s.SETTINGS]
    assert len(set(keys)) == len(keys)
    for x in s.SETTINGS:
        assert x.check(x.default) == x.default
        if x.namespace == "setting":
            assert x.short


def test_a_drafter_that_came_later_is_on_until_it_is_switched_off(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"drafters": ["lookup"]}))  # chosen when there were only the first five
    heads = ("mtp", "eagle3", "eagle", "dflash", "medusa")
    first = s.Settings(file)
    assert first.get(s.DRAFTERS) == ("lookup", *heads)
    first.set(s.DRAFTERS, ("lookup", "medusa"))
    assert s.Settings(file).get(s.DRAFTERS) == ("lookup", "medusa")
