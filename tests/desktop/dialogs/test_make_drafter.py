"""Making a drafter from the window: what the dialog says, what the process is asked, and what follows."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from desktop import training as training_module
from desktop.conversation import Conversation
from desktop.dialogs import make_drafter
from desktop.dialogs.make_drafter import Facts, MakeDrafterDialog, facts, overall, words
from desktop.drafter_maker import DrafterMaker
from desktop.engine_keeper import EngineState
from desktop.training import Made, Step, Training, why
from mlx_spec.events import ModelInfo, Problem
from models.paths import heads
from tests.desktop.dialogs.model_folders import make_folder

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")
STAND_IN = (sys.executable, str(Path(__file__).with_name("train_stand_in.py")))
INFO = ModelInfo("tiny", None, "llama", 1000, 32.0, 2048, 4000, ("lookup",), (("eagle3", "none was made"),))
MADE = Made("tiny", "eagle3", "/made", (0.01, 0.0, 0.0), (0.7, 0.4, 0.2), 4.9, 9_000_000, False)
WAIT_MS = 15_000


class Talk(QObject):
    """Stands in for the conversation."""

    state_changed = Signal(object, str, float)
    model_loaded = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.state, self.info = EngineState.IDLE, INFO
        self.loads: list[tuple[str, str]] = []
        self.ticked: list[tuple[str, bool]] = []

    def load(self, model: str, draft: str = "") -> None:
        self.loads.append((model, draft))

    def set_drafter(self, name: str, on: bool) -> None:
        self.ticked.append((name, on))

    def become(self, state: EngineState) -> None:
        self.state = state
        self.state_changed.emit(state, "", -1.0)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """What the processes were asked."""
    file = tmp_path / "notes"
    monkeypatch.setenv("STAND_IN_NOTES", str(file))
    return lambda: [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def training(qtbot: QtBot) -> Iterator[Training]:
    made = Training(command=STAND_IN)
    yield made
    made.close()


Desk = tuple[DrafterMaker, MakeDrafterDialog, Talk, list[str]]


@pytest.fixture
def desk(qtbot: QtBot, training: Training, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A maker with its dialog open on a model of which all is known."""
    found = Facts(("Memory: enough.",), True, 3.5, False)
    monkeypatch.setattr(make_drafter, "facts", lambda model: found)
    parent = QWidget()
    qtbot.addWidget(parent)
    talk, told = Talk(), list[str]()
    maker = DrafterMaker(parent, cast(Conversation, talk), told.append, training)
    return maker, maker.open(), talk, told


def run_for(dialog: MakeDrafterDialog, minutes: int) -> None:
    dialog.minutes.setValue(minutes)
    dialog.start_button.click()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ---------------------------------------------------------------------------------------------------- a whole run


def test_a_run_from_start_to_use(
    desk: Desk, qtbot: QtBot, notes: Callable[[], list[dict[str, Any]]], training: Training
) -> None:
    _, dialog, talk, told = desk
    steps: list[Step] = []
    training.stepped.connect(steps.append)
    qtbot.waitUntil(lambda: dialog.needs.text() == "Memory: enough.")
    assert dialog.minutes.value() == 60
    assert not dialog.stop_button.isEnabled()
    with qtbot.waitSignal(training.made, timeout=WAIT_MS):
        run_for(dialog, 5)
        assert not dialog.start_button.isEnabled()
        assert dialog.bar.isVisible()
    (asked,) = notes()
    assert (asked["model"], asked["kind"], asked["minutes"], asked["disk"]) == ("tiny", "eagle3", "5", "3.5")
    assert not asked["again"]
    assert [s.stage for s in steps] == ["read", "answers", "measure", "learn", "measure"]
    assert "Done in 5 minutes: the drafter (9.0 MB) is kept." in dialog.status.text()
    assert "about 2.3 tokens" in dialog.status.text()
    cells = [label.text() for label in dialog.table.findChildren(QLabel) if not label.isHidden()]
    assert cells[:6] == ["Guesses that hold", "Before", "Now", "The next word piece", "1%", "70%"]
    assert dialog.table.isVisible()
    assert not dialog.bar.isVisible()
    # The engine is free, so it is loaded anew, and the drafter is on.
    assert talk.ticked == [("eagle3", True)]
    qtbot.waitUntil(lambda: talk.loads == [("tiny", "")])
    talk.model_loaded.emit(replace(INFO, drafters=("lookup", "eagle3"), refused=()))
    assert dialog.status.text().endswith("EAGLE-3 is on now.")
    assert told == []
    qtbot.waitUntil(lambda: not training.running)
    assert dialog.start_button.isEnabled()


def test_the_kind_and_a_fresh_start_are_handed_on(
    desk: Desk, qtbot: QtBot, notes: Callable[[], list[dict[str, Any]]], training: Training
) -> None:
    _, dialog, _, _ = desk
    dialog.kind.setCurrentIndex(1)
    dialog.again.setChecked(True)
    with qtbot.waitSignal(training.made, timeout=WAIT_MS):
        run_for(dialog, 5)
    (asked,) = notes()
    assert (asked["kind"], asked["again"]) == ("medusa", True)


def test_a_reply_comes_before_the_new_drafter(desk: Desk, qtbot: QtBot, training: Training) -> None:
    _, dialog, talk, told = desk
    talk.become(EngineState.GENERATING)
    dialog.hide()
    with qtbot.waitSignal(training.made, timeout=WAIT_MS):
        run_for(dialog, 5)
    qtbot.wait(50)
    assert talk.loads == []
    talk.become(EngineState.IDLE)
    qtbot.waitUntil(lambda: talk.loads == [("tiny", "")])
    talk.model_loaded.emit(INFO)
    assert told == ["The drafter for tiny is made. It cannot be used: none was made."]
    talk.become(EngineState.LOADING)
    talk.become(EngineState.IDLE)
    qtbot.wait(50)
    assert len(talk.loads) == 1


def test_another_model_is_left_alone(desk: Desk, qtbot: QtBot, training: Training) -> None:
    _, dialog, talk, told = desk
    with qtbot.waitSignal(training.made, timeout=WAIT_MS):
        run_for(dialog, 5)
        talk.info = replace(INFO, model="other")
    qtbot.wait(50)
    assert talk.loads == []
    talk.model_loaded.emit(talk.info)
    assert told == []


# ------------------------------------------------------------------------------------------------ stops and errors


def test_stopped_while_it_learns(desk: Desk, qtbot: QtBot, training: Training) -> None:
    _, dialog, talk, _ = desk
    run_for(dialog, 6)
    qtbot.waitUntil(lambda: "going on" in dialog.status.text(), timeout=WAIT_MS)
    assert 333 <= dialog.bar.value() < 1000
    assert dialog.status.text() == "The head learns from them: going on. About 3 minutes left."
    with qtbot.waitSignal(training.made, timeout=WAIT_MS):
        dialog.stop_button.click()
        assert "Stopping after this step" in dialog.status.text()
        assert not dialog.stop_button.isEnabled()
    assert dialog.status.text().startswith("Stopped after 5 minutes: the drafter (9.0 MB) is kept.")
    qtbot.waitUntil(lambda: talk.loads == [("tiny", "")])


def test_stopped_before_anything_was_learned(desk: Desk, qtbot: QtBot, training: Training) -> None:
    _, dialog, talk, _ = desk
    run_for(dialog, 7)
    qtbot.waitUntil(lambda: "going on" in dialog.status.text(), timeout=WAIT_MS)
    with qtbot.waitSignal(training.stopped, timeout=WAIT_MS):
        dialog.stop_button.click()
    assert "the next start goes on from there" in dialog.status.text()
    assert dialog.start_button.isEnabled()
    assert (talk.loads, talk.ticked) == ([], [])
    qtbot.waitUntil(lambda: not training.running)


@pytest.mark.parametrize(
    ("minutes", "sentence"),
    [
        (8, "No drafter is worth training for it: it has 2 layers. Use it plain."),
        (9, "The training was killed; perhaps the machine ran out of memory."),
        (10, "The training ended with code 3. It said last: Traceback: something new"),
    ],
)
def test_an_error_is_one_sentence(desk: Desk, qtbot: QtBot, training: Training, minutes: int, sentence: str) -> None:
    _, dialog, talk, told = desk
    with qtbot.waitSignal(training.failed, timeout=WAIT_MS):
        run_for(dialog, minutes)
    assert dialog.status.text() == sentence
    assert dialog.start_button.isEnabled()
    assert not dialog.bar.isVisible()
    assert (talk.loads, told) == ([], [])


def test_an_error_is_told_in_the_window_if_the_dialog_is_closed(desk: Desk, qtbot: QtBot, training: Training) -> None:
    _, dialog, _, told = desk
    dialog.reject()
    with qtbot.waitSignal(training.failed, timeout=WAIT_MS):
        run_for(dialog, 8)
    assert told == ["The drafter was not made. No drafter is worth training for it: it has 2 layers. Use it plain."]


def test_a_program_that_is_not_there(qtbot: QtBot) -> None:
    training = Training(command=("/nowhere/python",))
    with qtbot.waitSignal(training.failed) as signal:
        training.start("tiny", "eagle3", 5, 8.0)
    assert signal.args is not None
    assert signal.args[0].startswith("The training could not be started")
    assert not training.running


def test_closing_the_app_ends_it(
    desk: Desk, qtbot: QtBot, notes: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_module, "PATIENCE_S", 0.3)
    maker, dialog, _, told = desk
    for minutes in (7, 11):  # one listens, one has to be killed
        run_for(dialog, minutes)
        qtbot.waitUntil(lambda: "going on" in dialog.status.text(), timeout=WAIT_MS)
        maker.close()
        assert not alive(notes()[-1]["pid"])
        assert not maker.training.running
        dialog.stopped()
    maker.close()
    assert told == []


def test_closing_the_app_waits_for_the_checkpoint_and_no_longer(desk: Desk, qtbot: QtBot) -> None:
    maker, dialog, _, _ = desk
    run_for(dialog, 12)
    qtbot.waitUntil(lambda: "going on" in dialog.status.text(), timeout=WAIT_MS)
    began = time.monotonic()
    maker.close()
    assert time.monotonic() - began < 3  # the measuring would take a minute


def test_only_one_runs(desk: Desk, qtbot: QtBot, notes: Callable[[], list[dict[str, Any]]], training: Training) -> None:
    maker, dialog, talk, _ = desk
    run_for(dialog, 7)
    qtbot.waitUntil(lambda: "going on" in dialog.status.text(), timeout=WAIT_MS)
    training.start("other", "eagle3", 5, 8.0)
    talk.info = replace(INFO, model="other")
    assert maker.open() is dialog
    assert dialog.model_name.text() == "tiny"  # the one that it is being made for
    assert [n["model"] for n in notes()] == ["tiny"]


# ----------------------------------------------------------------------------------------------------- what is said


def test_without_a_model_there_is_nothing_to_start(qtbot: QtBot) -> None:
    dialog = MakeDrafterDialog()
    qtbot.addWidget(dialog)
    dialog.set_model("")
    assert not dialog.start_button.isEnabled()
    assert dialog.status.text() == "Choose a model first."


def test_facts_of_a_model(qtbot: QtBot, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "one", ["a"])
    found = facts(str(folder))
    assert found.fits
    assert not found.begun
    assert 0 < found.disk_gb <= 8
    assert "loaded a second time" in found.lines[0]
    assert "On the disk: up to" in found.lines[1]
    (heads()[0] / "one" / "run").mkdir(parents=True)
    dialog = MakeDrafterDialog()
    qtbot.addWidget(dialog)
    dialog.set_model(str(folder))
    qtbot.waitUntil(lambda: "goes on" in dialog.status.text())
    assert not dialog.again.isHidden()
    assert dialog.model_name.text() == "one"


def test_too_little_room_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder(tmp_path / "one", ["a"])
    monkeypatch.setattr(make_drafter, "available", lambda: 10)
    found = facts(str(folder))
    assert not found.fits
    assert "too little" in found.lines[-1]
    assert "downloaded first" in facts("starter").lines[0]


def test_a_check_that_fails_is_told(qtbot: QtBot) -> None:
    def ask(model: str) -> Facts:
        raise Problem("That is no model.", "Choose another.")

    dialog = MakeDrafterDialog(None, ask)
    qtbot.addWidget(dialog)
    dialog.set_model("x")
    qtbot.waitUntil(lambda: dialog.status.text() == "That is no model.\nChoose another.")


def test_how_far_it_is() -> None:
    assert overall(Step("answers", 0.0, "", 1.0)) == 0
    assert overall(Step("answers", 1.0, "", 1.0)) == overall(Step("learn", 0.0, "", 1.0)) == pytest.approx(1 / 3)
    assert overall(Step("learn", 1.0, "", 1.0)) == overall(Step("measure", 1.0, "", 0.0)) == pytest.approx(1)
    assert overall(Step("measure", 0.0, "", 1.0)) is None
    assert overall(Step("read", None, "", None)) is None


def test_what_is_being_done_in_words() -> None:
    assert words(Step("read", None, "tiny", None)) == "Loading the model."
    assert words(Step("answers", 0.1, "10 tokens written", 1.2)) == (
        "The model writes answers: 10 tokens written. About 1 minute left."
    )
    assert words(Step("learn", 0.99, "step 9", 0.2)).endswith("Less than a minute left.")
    assert "mains" in words(Step("waiting", None, "for mains: ...", None))
    assert words(Step("something", None, "", None)) == "Something."


def test_why_it_ended() -> None:
    assert why("", 1, False) == "The training ended with code 1."
    assert why("", 6, True) == "The training crashed (SIGABRT)."
    assert why("noise\nmlx-spec: One. Two.\n", 1, False) == "One. Two."
    assert MADE.tokens_a_pass == pytest.approx(2.3)
