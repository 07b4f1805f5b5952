"""What the window has of the model browser: one queue, what is chosen is loaded, downloads go on after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from desktop import model_desk
from desktop.model_desk import ModelDesk
from desktop.settings import DRAFT_MODEL, MODEL, Settings
from models.queue import DownloadQueue
from models.repo import folder_plan
from tests.models.conftest import point_to
from tests.models.hub_stand_in import HubStandIn, mlx_about, model_files, wait_for

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")
REPO = "a/tiny-4bit"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    stand_in = HubStandIn()
    point_to(stand_in, tmp_path, monkeypatch)
    stand_in.add(REPO, model_files(), **mlx_about())
    yield stand_in
    stand_in.close()


@pytest.fixture
def told() -> dict[str, list[Any]]:
    return {"load": [], "tell": []}


@pytest.fixture
def make(
    qtbot: QtBot, hub: HubStandIn, tmp_path: Path, told: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    monkeypatch.setattr(model_desk, "GO_ON_MS", 1)
    monkeypatch.setattr(model_desk, "LOOK_MS", 20)
    made: list[ModelDesk] = []
    settings = Settings(tmp_path / "settings.json")
    settings.set(MODEL, "big")
    settings.set(DRAFT_MODEL, "small")

    def build() -> ModelDesk:
        window = QWidget()
        qtbot.addWidget(window)
        talk: Any = SimpleNamespace(info=SimpleNamespace(model="big", draft="small"))
        desk = ModelDesk(window, talk, settings, lambda *pair: told["load"].append(pair), told["tell"].append)
        window.desk = desk  # type: ignore[attr-defined]
        window.show()
        made.append(desk)
        return desk

    yield build
    hub.hold.clear()
    for desk in made:
        desk.close()


def test_one_browser_and_what_is_chosen_is_loaded(make: Any, told: dict[str, list[Any]], qtbot: QtBot) -> None:
    desk = make()
    browser = desk.open()
    assert desk.open(2) is browser
    assert browser.tabs.currentIndex() == 2
    browser.chosen.emit("new", "draft")
    assert not browser.isVisible()
    browser.chosen.emit("new", None)  # the draft model was for another one
    browser.chosen.emit("big", None)
    browser.chosen.emit(None, "other")
    assert told["load"] == [("new", "draft"), ("new", ""), ("big", "small"), ("big", "other")]
    assert "big" in desk._in_use()


def test_nothing_is_opened_without_need(make: Any, qtbot: QtBot) -> None:
    desk = make()
    qtbot.wait(30)
    assert desk.queue is None
    assert desk.browser is None
    desk.close()


def test_downloads_go_on_after_a_restart_and_are_told_of(
    make: Any, hub: HubStandIn, told: dict[str, list[Any]], qtbot: QtBot
) -> None:
    hub.hold.set()
    before = DownloadQueue()
    before.add(folder_plan(REPO))
    wait_for(lambda: before.jobs()[0].done > 5_000)
    before.close()
    hub.hold.clear()
    desk = make()
    qtbot.waitUntil(lambda: bool(told["tell"]))
    assert told["tell"] == [f"{REPO} is downloaded: Models > Browse Models uses it."]
    assert desk.queue.jobs()[0].state == "done"
    qtbot.waitUntil(lambda: not desk._awake.held)


def test_while_the_browser_is_seen_the_window_says_nothing(make: Any, told: dict[str, list[Any]], qtbot: QtBot) -> None:
    desk = make()
    browser = desk.open()
    browser._fetch([folder_plan(REPO)])
    qtbot.waitUntil(lambda: bool(desk.queue.jobs()) and desk.queue.jobs()[0].state == "done")
    qtbot.wait(60)
    assert told["tell"] == []


def test_a_failure_is_told_of_when_the_browser_is_closed(
    make: Any, hub: HubStandIn, told: dict[str, list[Any]], qtbot: QtBot
) -> None:
    desk = make()
    browser = desk.open()
    plan = folder_plan(REPO)
    hub.statuses["/resolve/"] = 503
    browser.hide()
    browser._fetch([plan])
    qtbot.waitUntil(lambda: told["tell"] == [f"{REPO} could not be downloaded."])
