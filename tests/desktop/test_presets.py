"""Presets and what a chat has of its own: kept, given on, refused in words; and the window that shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from desktop import presets
from desktop.conversation import Conversation
from desktop.engine_client import EngineClient
from desktop.engine_keeper import EngineState
from desktop.own import ChatSettings, own_of
from desktop.presets import Preset, Presets
from desktop.settings import DRAFTERS, LIMITS, SYSTEM_PROMPT, TEMPERATURE, Settings
from desktop.store import Store
from desktop.window import MainWindow
from mlx_spec.events import Problem
from tests.desktop import window_engine

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints", "This plugin does not support")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "chats.db")
    yield made
    made.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "settings.json")


def test_a_chat_has_its_own_values(store: Store, settings: Settings) -> None:
    one, two = store.new_chat().id, store.new_chat().id
    values = ChatSettings(store, settings, one)
    values.set(TEMPERATURE, 0.2)
    values.set(SYSTEM_PROMPT, "Be brief.")
    assert own_of(store, one).values == {"temperature": 0.2, "system_prompt": "Be brief."}
    assert values.sampling().temperature == 0.2
    assert values.summary() == "own system prompt, temperature 0.2"
    told: list[object] = []
    values.changed.connect(told.append)
    values.open(two)
    assert set(told) == {TEMPERATURE, SYSTEM_PROMPT}
    assert values.get(TEMPERATURE) == settings.get(TEMPERATURE)
    assert values.summary() == ""
    # What is as everywhere is nothing of its own.
    values.open(one)
    values.set(TEMPERATURE, settings.get(TEMPERATURE))
    assert own_of(store, one).values == {"system_prompt": "Be brief."}
    with pytest.raises(Problem):
        values.set(TEMPERATURE, -1.0)


def test_what_is_not_usable_of_a_chats_own_is_left_out(store: Store) -> None:
    chat = store.new_chat().id
    for text, kept in (
        ("no json", {}),
        ("[1]", {}),
        ('{"values": {"temperature": "hot", "top_p": 0.5, "of_the_future": 1}}', {"top_p": 0.5}),
    ):
        store.change(lambda c, text=text: c.execute("UPDATE chats SET own=? WHERE id=?", (text, chat)), chat)
        assert own_of(store, chat).values == kept


def test_limits_are_for_one_drafter(settings: Settings) -> None:
    settings.set(LIMITS, {"suffix": 3})
    assert dict(settings.drafter_settings().limits)["suffix"] == 3
    with pytest.raises(Problem):
        settings.set(LIMITS, {"suffix": 0})


def test_presets_come_back_from_their_file(tmp_path: Path) -> None:
    kept = Presets(tmp_path / "presets.json")
    kept.save("Coder", {"temperature": 0.1})
    kept.save(" Poet\n", {"temperature": 1.2, "system_prompt": "Rhyme."})
    again = Presets(tmp_path / "presets.json")
    assert [p.name for p in again.all()] == ["Coder", "Poet"]
    assert again.rename("Poet", "Bard") == "Bard"
    with pytest.raises(Problem, match="already"):
        again.rename("Bard", "Coder")
    again.remove("Coder")
    assert [p.name for p in Presets(tmp_path / "presets.json").all()] == ["Bard"]


def test_a_taken_name_gets_a_number_and_the_same_preset_none(tmp_path: Path) -> None:
    kept = Presets(tmp_path / "presets.json")
    kept.save("Coder", {"temperature": 0.1})
    assert kept.add([Preset("Coder", {"temperature": 0.1})]) == ["Coder"]
    assert kept.add([Preset("Coder", {"temperature": 0.9})]) == ["Coder 2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is no JSON"),
        ("[]", "no file of presets"),
        ('{"format": "outrider-presets", "version": 9, "presets": []}', "a newer Outrider"),
        ('{"format": "outrider-presets", "version": 1}', "no list of presets"),
        ('{"format": "outrider-presets", "version": 1, "presets": [{}]}', "no name"),
        (
            '{"format": "outrider-presets", "version": 1, "presets": [{"name": "a", "values": {"temperature": -3}}]}',
            "in the preset",
        ),
        ("[" * 100_000, "cannot be used"),
    ],
)
def test_broken_files_are_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "given.json"
    path.write_text(text, "utf-8")
    with pytest.raises(Problem, match=said) as refused:
        presets.read(path)
    assert "Nothing was changed" in refused.value.remedy


def test_a_broken_file_of_ours_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "presets.json").write_text("half", "utf-8")
    kept = Presets(tmp_path / "presets.json")
    assert kept.all() == []
    assert "kept as presets.broken-" in kept.notices[0]
    assert [p.read_text("utf-8") for p in tmp_path.glob("presets.broken-*")] == ["half"]


@pytest.fixture
def window(qtbot: QtBot, settings: Settings, store: Store) -> Iterator[MainWindow]:
    conversation = Conversation(store, settings, EngineClient(window_engine.main))
    made = MainWindow(conversation, settings, store)
    qtbot.addWidget(made)
    made.show()
    qtbot.waitExposed(made)
    conversation.start()
    qtbot.waitUntil(lambda: conversation.state is EngineState.IDLE, timeout=15_000)
    yield made
    made.close()


def test_a_person_gives_a_chat_a_preset(qtbot: QtBot, window: MainWindow, tmp_path: Path) -> None:
    window.menus.chat_settings.trigger()
    dialog, bar = window.presets.dialog, window.presets.bar
    assert dialog is not None
    assert bar is not None
    values = window.conversation.own
    values.set(TEMPERATURE, 0.3)
    assert window.own.isVisible()
    assert window.own.text() == "temperature 0.3"
    bar.save("Careful")
    assert window.own.text() == "Careful: temperature 0.3"
    bar.export_file(tmp_path / "given.json", only=True)
    assert json.loads((tmp_path / "given.json").read_text("utf-8"))["presets"][0]["name"] == "Careful"
    # Another chat has none; there it is chosen from the list.
    window.composer.set_text("Something, so that this chat is not empty")
    window.composer.submit()
    qtbot.waitUntil(lambda: window.conversation.state is EngineState.IDLE, timeout=15_000)
    window.conversation.new_chat()
    assert not window.own.isVisible()
    assert values.own.preset == ""
    bar.choice.setCurrentIndex(bar.choice.findData("Careful"))
    bar.choice.activated.emit(bar.choice.currentIndex())
    assert values.own.preset == "Careful"
    (tmp_path / "broken.json").write_text("{", "utf-8")
    bar.import_file(tmp_path / "broken.json")
    assert "no JSON" in bar.said.text()
    dialog.close()


def test_drafters_are_ticked_for_the_chat_that_has_its_own(window: MainWindow, settings: Settings) -> None:
    own = window.conversation.own
    own.set(DRAFTERS, ("lookup",))
    window.conversation.set_drafter("suffix", True)
    assert set(own.get(DRAFTERS)) == {"lookup", "suffix"}
    assert settings.get(DRAFTERS) == DRAFTERS.default


def test_the_list_of_shortcuts_is_searched(window: MainWindow) -> None:
    dialog = window.presets.show_shortcuts()

    def shown() -> list[str]:
        groups = [dialog.tree.topLevelItem(i) for i in range(dialog.tree.topLevelItemCount())]
        return [
            item.text(0)
            for g in groups
            if g
            for k in range(g.childCount())
            if (item := g.child(k))
            if not item.isHidden()
        ]

    everything = shown()
    assert len(everything) > 10
    dialog.search.setText("settings of this")
    assert shown()
    assert len(shown()) < len(everything)
    dialog.close()
