"""The model browser against a hub on this machine: searched, downloaded, paused, used, deleted; nothing blocks."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QAbstractButton, QWidget
from pytestqt.qtbot import QtBot

from desktop.color_scheme import inherit_scheme, scheme_palette
from desktop.dialogs.model_facts import find, list_choices
from desktop.dialogs.models_browser import DISK, DOWNLOADS, ModelsBrowser
from desktop.dialogs.models_queue import state_words
from desktop.dialogs.models_words import count_text, time_text
from desktop.theme import colors_of
from models import fetch
from models.queue import DownloadQueue, Job
from models.repo import Plan, RepoFile, folder_plan
from tests.desktop.dialogs.model_folders import make_folder
from tests.models.conftest import point_to
from tests.models.hub_stand_in import HubStandIn, mlx_about, model_files

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")
TARGET, DRAFT = "mlx-community/Qwen3-32B-4bit", "mlx-community/Qwen3-0.6B-4bit"
SHAPE = {"hidden_size": 5120, "num_hidden_layers": 64, "vocab_size": 151936, "head_dim": 128, "num_key_value_heads": 8}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    stand_in = HubStandIn()
    point_to(stand_in, tmp_path, monkeypatch)
    small = {"hidden_size": 1024, "num_hidden_layers": 28, "vocab_size": 151936}
    stand_in.add(TARGET, model_files(bytes(2_000_000), **SHAPE), **mlx_about(4_600_000_000))
    stand_in.add(DRAFT, model_files(**small), **mlx_about(90_000_000))
    yield stand_in
    stand_in.close()


@pytest.fixture
def queue(hub: HubStandIn) -> Iterator[DownloadQueue]:
    one = DownloadQueue()
    yield one
    hub.hold.clear()
    one.close()


@pytest.fixture
def browser(qtbot: QtBot, queue: DownloadQueue) -> ModelsBrowser:
    one = ModelsBrowser(queue, in_use=lambda: ["mine"])
    qtbot.addWidget(one)
    one.show()
    qtbot.waitUntil(lambda: one.finder.status.text().startswith("Recommended"))
    return one


def search(qtbot: QtBot, browser: ModelsBrowser, words: str) -> None:
    finder = browser.finder
    finder.line.setText(words)
    qtbot.keyClick(finder.line, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: finder.status.text() != "Asking the hub…")


def pick(qtbot: QtBot, browser: ModelsBrowser, name: str) -> None:
    table = browser.finder.table
    (item,) = table.findItems(name, Qt.MatchFlag.MatchExactly, 0)
    table.setCurrentItem(item)
    details = browser.finder.details
    qtbot.waitUntil(lambda: details.fit.text() != "Asking the hub…")


def test_it_begins_with_what_suits_this_machine(browser: ModelsBrowser, hub: HubStandIn) -> None:
    assert browser.finder.table.topLevelItemCount()
    assert not hub.asked  # nobody is asked before a person asks
    assert "No token" in browser.finder.token_words.text() or not browser.finder.token_words.text()


def test_a_search_and_a_pair(qtbot: QtBot, browser: ModelsBrowser, hub: HubStandIn) -> None:
    search(qtbot, browser, "qwen3")
    assert hub.paths() == ["/api/models"]  # one Return is one search
    table = browser.finder.table
    cells = [table.topLevelItem(0).text(column) for column in range(6)]
    assert cells[:5] == [TARGET, "18.4 GB", "4-bit", "apache-2.0", "1.2 k"]
    assert "2 found" in browser.finder.status.text()
    pick(qtbot, browser, TARGET)
    details = browser.finder.details
    assert details.with_draft.isVisible()
    assert DRAFT.split("/")[1] in details.with_draft.text()
    details.with_draft.setChecked(True)
    assert "draft model" in details.fit.text()
    both = details.verdict()
    details.with_draft.setChecked(False)
    assert "draft model" not in details.fit.text()
    alone = details.verdict()
    assert both is not None
    assert alone is not None
    assert both.need is not None
    assert alone.need is not None
    assert both.need.draft_kv > 0
    assert both.need.total > alone.need.total
    assert "An EAGLE-3 head" in details.drafting.text()


def test_downloading_the_pair_and_using_it(qtbot: QtBot, browser: ModelsBrowser, queue: DownloadQueue) -> None:
    search(qtbot, browser, "32b")
    pick(qtbot, browser, TARGET)
    details = browser.finder.details
    details.with_draft.setChecked(True)
    assert details.button.text().startswith("Download 2.1 MB")
    details.button.click()
    assert browser.tabs.currentIndex() == DOWNLOADS
    qtbot.waitUntil(lambda: [job.state for job in queue.jobs()] == ["done", "done"])
    qtbot.waitUntil(lambda: details.button.text() == "Use It")
    assert "whole and checked" in browser.downloads.rows[TARGET].state.text()
    with qtbot.waitSignal(browser.chosen) as chosen:
        details.button.click()
    assert chosen.args == [TARGET, DRAFT]
    with qtbot.waitSignal(browser.chosen) as chosen:
        browser.downloads.rows[TARGET].main.click()
    assert chosen.args == [TARGET, None]
    browser.downloads.clear_button.click()
    assert not browser.downloads.rows
    assert browser.downloads.empty.isVisible()


def test_pause_resume_and_give_up_by_their_buttons(
    qtbot: QtBot, browser: ModelsBrowser, queue: DownloadQueue, hub: HubStandIn
) -> None:
    hub.hold.set()
    browser._fetch([folder_plan(TARGET)])
    page = browser.downloads
    qtbot.waitUntil(lambda: TARGET in page.rows and " of 2.0 MB, " in page.rows[TARGET].state.text())
    assert browser.tabs.tabText(DOWNLOADS) == "Downloads (1)"
    row = page.rows[TARGET]
    assert row.main.text() == "Pause"
    row.main.click()
    qtbot.waitUntil(lambda: row.main.text() == "Resume")
    assert row.state.text().startswith("Paused at ")
    row.main.click()
    qtbot.waitUntil(lambda: row.main.text() == "Pause")
    row.cancel.click()
    qtbot.waitUntil(lambda: not page.rows)
    qtbot.waitUntil(lambda: not fetch.repo_dir(TARGET).exists())
    assert browser.tabs.tabText(DOWNLOADS) == "Downloads"


def test_a_failure_is_said_in_its_row_and_can_be_tried_again(
    qtbot: QtBot, browser: ModelsBrowser, hub: HubStandIn
) -> None:
    plan = folder_plan(DRAFT)
    hub.lies = {"model.safetensors"}
    browser._fetch([plan])
    page = browser.downloads
    qtbot.waitUntil(lambda: DRAFT in page.rows and page.rows[DRAFT].main.text() == "Try Again")
    assert "came damaged" in page.rows[DRAFT].state.text()
    hub.lies = set()
    page.rows[DRAFT].main.click()
    qtbot.waitUntil(lambda: page.rows[DRAFT].main.text() == "Use It")


@pytest.mark.parametrize(("code", "said"), [(401, "sign in"), (429, "too often"), (503, "trouble of its own")])
def test_trouble_with_the_hub_is_one_sentence_and_the_next_search_works(
    qtbot: QtBot, browser: ModelsBrowser, hub: HubStandIn, code: int, said: str
) -> None:
    hub.statuses["/api"] = code
    search(qtbot, browser, "qwen3")
    assert said in browser.finder.status.text()
    assert browser.finder.go.isEnabled()
    hub.statuses.clear()
    search(qtbot, browser, "qwen3")
    hub.statuses["/api/models/"] = code
    pick(qtbot, browser, DRAFT)
    assert said in browser.finder.details.trouble.text()
    assert not browser.finder.details.button.isEnabled()


def test_garbage_and_nothing(qtbot: QtBot, browser: ModelsBrowser, hub: HubStandIn) -> None:
    hub.answers["/api/models"] = b"<html>"
    search(qtbot, browser, "qwen3")
    assert "not a list of models" in browser.finder.status.text()
    hub.answers.clear()
    search(qtbot, browser, "nothing-like-it")
    assert browser.finder.status.text() == "The hub has nothing for “nothing-like-it”. Look among All."
    search(qtbot, browser, "   ")
    assert "Type a word" in browser.finder.status.text()


def test_the_window_lives_while_the_hub_is_slow(
    qtbot: QtBot, browser: ModelsBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, threads = threading.Event(), []

    def wait(words: str, form: str) -> list[object]:
        threads.append(threading.current_thread())
        slow.wait(5)
        return []

    monkeypatch.setattr(browser.finder, "_ask", wait)
    browser.finder.line.setText("one")
    began = time.monotonic()
    browser.finder.search()
    assert time.monotonic() - began < 0.2
    qtbot.waitUntil(lambda: bool(threads))
    assert threads[0] is not threading.main_thread()
    browser.finder.line.setText("two")
    browser.finder.search()  # the older answer is dropped
    slow.set()
    qtbot.waitUntil(lambda: "two" in browser.finder.status.text())
    qtbot.wait(50)
    assert "one" not in browser.finder.status.text()


def test_a_model_that_cannot_be_used_says_why(qtbot: QtBot, browser: ModelsBrowser, hub: HubStandIn) -> None:
    hub.add("a/new-4bit", model_files(model_type="neverheard"), **mlx_about(config={"model_type": "neverheard"}))
    search(qtbot, browser, "new")
    assert "Cannot be used" in browser.finder.table.topLevelItem(0).text(5)
    pick(qtbot, browser, "a/new-4bit")
    assert '"neverheard"' in browser.finder.details.trouble.text()
    assert not browser.finder.details.button.isEnabled()


def test_gguf_files_are_a_choice(qtbot: QtBot, browser: ModelsBrowser, hub: HubStandIn) -> None:
    files = {"m-Q4_0.gguf": bytes(560), "m-Q4_K_M.gguf": bytes(600), "m-Q8_0.gguf": bytes(1060)}
    hub.add("a/m-GGUF", files, tags=["gguf"], gguf={"architecture": "qwen3", "total": 1000})
    browser.finder.form.setCurrentIndex(1)
    search(qtbot, browser, "m-gguf")
    pick(qtbot, browser, "a/m-GGUF")
    details = browser.finder.details
    assert details.files.isVisible()
    assert "m-Q8_0.gguf, 1 kB  (best here)" in details.files.currentText()
    details.files.setCurrentIndex(1)
    assert "unpacked to 16 bits" in details.fit.text()
    details.button.click()
    qtbot.waitUntil(lambda: "a/m-GGUF/m-Q4_K_M.gguf" in browser.downloads.rows)


# ----------------------------------------------------------------------------------------------- on this disk


def test_what_is_here_is_listed_used_and_deleted(
    qtbot: QtBot, browser: ModelsBrowser, own_home: Path, tmp_path: Path
) -> None:
    mine = make_folder(own_home / "models" / "mine", ["a"])
    theirs = make_folder(tmp_path / ".lmstudio" / "models" / "o" / "theirs", ["a"])
    browser.show_page(DISK)
    page = browser.disk
    qtbot.waitUntil(lambda: page.table.topLevelItemCount() == 2)
    page.table.setCurrentItem(page.table.findItems("o/theirs", Qt.MatchFlag.MatchExactly, 0)[0])
    assert not page.remove.isEnabled()
    assert "LM Studio" in page.remove.toolTip()
    with qtbot.waitSignal(browser.chosen) as chosen:
        page.draft.click()
    assert chosen.args == [None, str(theirs)]
    page.table.setCurrentItem(page.table.findItems("mine", Qt.MatchFlag.MatchExactly, 0)[0])
    with qtbot.waitSignal(browser.chosen) as chosen:
        page.use.click()
    assert chosen.args == [str(mine), None]

    def answer(text: str) -> QAbstractButton:
        assert page.box is not None
        return next(b for b in page.box.buttons() if b.text().replace("&", "") == text)

    page.remove.click()
    assert page.box is not None
    assert str(mine) in page.box.informativeText()
    assert page.box.defaultButton() is answer("Cancel")
    answer("Cancel").click()
    assert mine.exists()
    page.remove.click()
    answer("Delete").click()
    qtbot.waitUntil(lambda: not mine.exists())
    qtbot.waitUntil(lambda: page.table.topLevelItemCount() == 1)


def test_a_loaded_model_is_not_deleted(qtbot: QtBot, browser: ModelsBrowser, own_home: Path) -> None:
    mine = make_folder(own_home / "models" / "mine", ["a"])
    browser.disk._in_use = lambda: [str(mine)]
    browser.show_page(DISK)
    qtbot.waitUntil(lambda: browser.disk.table.topLevelItemCount() == 1)
    browser.disk.table.setCurrentItem(browser.disk.table.topLevelItem(0))
    browser.disk.remove.click()
    assert browser.disk.box is None
    assert "is loaded" in browser.disk.about.text()
    assert mine.exists()


def test_the_picker_lists_what_others_have(hub: HubStandIn, tmp_path: Path) -> None:
    theirs = make_folder(tmp_path / ".lmstudio" / "models" / "o" / "theirs", ["a"])
    (tmp_path / ".lmstudio" / "models" / "o" / "bad.gguf").write_bytes(b"no")
    choices = {choice.source: choice for choice in list_choices()}
    assert "of LM Studio" in choices[str(theirs)].note
    assert not any("bad" in source for source in choices)
    assert find(str(theirs))[0] == theirs
    assert "imported first" in find("a/m-GGUF/m-Q8_0.gguf")[1]


# -------------------------------------------------------------------------------------------------- words, look


def test_states_in_words() -> None:
    plan = Plan("a/b", "c", (RepoFile("f", 4_000_000_000, "", "x"),))
    running = Job(plan, "running", 1_000_000_000, 10_000_000.0)
    assert state_words(running) == "1.0 GB of 4.0 GB, 10.0 MB a second, about 5 minutes left"
    assert state_words(Job(plan, "paused", 1_000_000_000)) == "Paused at 1.0 GB of 4.0 GB"
    assert state_words(Job(plan, "failed", trouble="It broke.")) == "It broke."
    assert count_text(1_234) == "1.2 k"
    assert count_text(45_678_901) == "46 M"
    assert count_text(7) == "7"
    assert time_text(30) == "less than a minute left"
    assert time_text(60) == "about 1 minute left"
    assert time_text(7_200) == "about 2 hours left"


def test_trouble_keeps_its_colour_in_either_scheme(qtbot: QtBot, queue: DownloadQueue) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    browser = ModelsBrowser(queue, window)
    inherit_scheme(browser)
    browser.show()
    status = browser.finder.status
    qtbot.waitUntil(lambda: status.text().startswith("Recommended"))
    inks = []
    for dark in (False, True):
        window.setPalette(scheme_palette(dark))
        status.say("Trouble", True)
        assert status.palette().color(QPalette.ColorRole.WindowText) == colors_of(browser).danger
        inks.append(colors_of(browser).danger)
    assert inks[0] != inks[1]
    window.setPalette(scheme_palette(False))
    assert status.palette().color(QPalette.ColorRole.WindowText) == inks[0]
    status.say("Fine")
    assert status.palette().color(QPalette.ColorRole.WindowText) == browser.palette().color(
        QPalette.ColorRole.WindowText
    )


def test_everything_has_a_name_for_those_who_listen(browser: ModelsBrowser) -> None:
    finder, disk = browser.finder, browser.disk
    for widget in (finder.line, finder.form, finder.table, finder.details.files, disk.table, finder.status):
        assert widget.accessibleName()


def test_the_list_survives_as_plain_json(
    browser: ModelsBrowser, queue: DownloadQueue, own_home: Path, qtbot: QtBot
) -> None:
    browser._fetch([folder_plan(DRAFT)])
    qtbot.waitUntil(lambda: [job.state for job in queue.jobs()] == ["done"])
    (kept,) = json.loads((own_home / "downloads" / "queue.json").read_text())
    assert kept["plan"]["repo"] == DRAFT
