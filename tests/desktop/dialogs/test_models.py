"""The model picker: what it lists, what it says of a pair before loading, and what it hands on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from desktop.dialogs.model_facts import Assessment, Choice, assess, find, list_choices
from desktop.dialogs.models import ModelsDialog
from mlx_spec.events import Problem
from tests.desktop.dialogs.model_folders import make_folder

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "home"))


def test_named_models_are_listed_without_any_file() -> None:
    choices = {c.source: c for c in list_choices()}
    assert "not downloaded yet" in choices["starter"].note
    assert "98.4 MB" in choices["starter"].note


def test_a_model_in_the_models_folder_is_listed(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "home" / "models" / "mine", ["a", "b"])
    assert str(folder) in {c.source for c in list_choices()}


def test_a_pair_that_fits(tmp_path: Path) -> None:
    one, two = make_folder(tmp_path / "one", ["a", "b"]), make_folder(tmp_path / "two", ["a", "b"])
    found = assess(str(one), str(two))
    assert found.fits
    assert found.can_load
    assert "same vocabulary" in found.lines[0]
    assert "full context of 2,048 tokens" in found.lines[1]
    assert "full context of 100 tokens" in assess(str(one), "", 100).lines[0]


def test_a_pair_that_does_not_fit_says_why(tmp_path: Path) -> None:
    one, two = make_folder(tmp_path / "one", ["a", "b"]), make_folder(tmp_path / "two", ["a", "c"])
    found = assess(str(one), str(two))
    assert not found.can_load
    assert "token 1 is b in the target and c in the draft" in found.lines[1]


def test_too_large_for_the_machine_is_said_before_loading(tmp_path: Path) -> None:
    found = assess(str(make_folder(tmp_path / "one", ["a"], context=1 << 50)), "")
    assert not found.fits
    assert "too much" in found.lines[-1]


def test_what_is_not_here_yet_is_said(tmp_path: Path) -> None:
    assert "downloaded first" in assess("starter", "").lines[0]
    assert "fetched from the hub" in assess("someone/some-model", "").lines[0]
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    assert "imported first" in assess(str(file), "").lines[0]


def test_a_draft_model_is_proposed_where_one_is_known(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "one", ["a"])
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "qwen3", "hidden_size": 5120, "num_hidden_layers": 64, "vocab_size": 151936}
    (folder / "config.json").write_text(json.dumps(config))
    assert assess(str(folder), "").lines[0].startswith("mlx-community/Qwen3-0.6B-4bit, to be fetched from the hub")
    assert not any("Qwen3-0.6B" in line for line in assess(str(folder), str(folder)).lines)


@pytest.mark.parametrize("source", ["nonsense", "~/nowhere/model.gguf"])
def test_no_model_is_a_problem(source: str) -> None:
    with pytest.raises(Problem, match="no model"):
        find(source)


def test_a_folder_without_a_model_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="has no config"):
        assess(str(tmp_path), "")


def test_the_dialog_shows_the_verdict_and_hands_on_both(qtbot: QtBot, tmp_path: Path) -> None:
    one, two = make_folder(tmp_path / "one", ["a", "b"]), make_folder(tmp_path / "two", ["a", "c"])
    dialog = ModelsDialog(str(one), str(two))
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitUntil(lambda: "cannot draft" in dialog.verdict.text())
    assert not dialog.load_button.isEnabled()
    dialog.draft.set_source("")
    qtbot.waitUntil(lambda: "of memory" in dialog.verdict.text())
    assert dialog.load_button.isEnabled()
    with qtbot.waitSignal(dialog.chosen) as signal:
        dialog.load_button.click()
    assert signal.args == [str(one), ""]


def test_the_dialog_lists_and_follows_the_list(qtbot: QtBot) -> None:
    choices = [Choice("starter", "Starter", "98 MB"), Choice("other", "Other", "1 GB")]
    dialog = ModelsDialog("starter", "", None, lambda: choices, lambda m, d: Assessment((f"{m}+{d}",)))
    qtbot.addWidget(dialog)
    qtbot.waitUntil(lambda: dialog.target.list.count() == 2)
    assert dialog.draft.list.count() == 3  # and none
    assert dialog.target.list.currentRow() == 0
    dialog.target.list.setCurrentRow(1)
    dialog.draft.list.setCurrentRow(1)
    qtbot.waitUntil(lambda: dialog.verdict.text() == "other+starter")


def test_a_failing_check_is_told_not_raised(qtbot: QtBot) -> None:
    def check(model: str, draft: str) -> Assessment:
        raise Problem("That is no model.", "Pick another.")

    dialog = ModelsDialog("x", "", None, list, check)
    qtbot.addWidget(dialog)
    qtbot.waitUntil(lambda: dialog.verdict.text() == "That is no model.\nPick another.")
