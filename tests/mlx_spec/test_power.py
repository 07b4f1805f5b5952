"""Mains or battery: what macOS says is understood, what cannot be told counts as mains."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from mlx_spec import power

BATTERY = """Now drawing from 'Battery Power'
 -InternalBattery-0 (id=4653155)\t81%; discharging; 6:12 remaining present: true
"""
MAINS = """Now drawing from 'AC Power'
 -InternalBattery-0 (id=4653155)\t100%; charged; 0:00 remaining present: true
"""


@pytest.mark.parametrize(
    ("report", "battery"),
    [
        (BATTERY, True),
        (MAINS, False),
        ("Now drawing from 'AC Power'\n", False),  # a desktop machine has no battery
        ("Now drawing from 'AC Power'\n -InternalBattery-0 was on 'Battery Power'\n", False),
        ("", False),
    ],
)
def test_the_first_line_tells(report: str, battery: bool) -> None:
    assert power.told_by(report) is battery


def test_a_mac_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run(command: list[str], **more: Any) -> Any:
        asked.append(command)
        assert more["timeout"] <= 5
        return subprocess.CompletedProcess(command, 0, stdout=BATTERY)

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", run)
    assert power.on_battery()
    assert asked == [["pmset", "-g", "batt"]]


@pytest.mark.parametrize("trouble", [FileNotFoundError("pmset"), subprocess.TimeoutExpired("pmset", 5)])
def test_what_cannot_be_told_is_mains(monkeypatch: pytest.MonkeyPatch, trouble: Exception) -> None:
    def run(command: list[str], **more: Any) -> Any:
        raise trouble

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", run)
    assert not power.on_battery()


def test_elsewhere_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **more: Any) -> Any:
        raise AssertionError("asked")

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(subprocess, "run", run)
    assert not power.on_battery()
