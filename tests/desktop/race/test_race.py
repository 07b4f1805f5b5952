"""A race from the menu to the saved picture, with an engine process that needs no model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from desktop.color_scheme import scheme_palette
from desktop.conversation import Conversation
from desktop.engine_client import EngineClient
from desktop.engine_keeper import EngineState
from desktop.race.opener import RaceOpener
from desktop.race.race_window import RaceWindow
from desktop.race.report import fenced, markdown
from desktop.race.result import Lap, Race, lap_line, ratio_line, same_line, terms
from desktop.settings import DRAFTERS, SEED, SYSTEM_PROMPT, Settings
from desktop.store import Store
from mlx_spec.events import Generate, Message, Problem, SamplingSettings
from tests.desktop.race import engine
from tests.desktop.tokens.samples import TEXT, finished, reply

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")
WAIT_MS = 15_000


@pytest.fixture
def opener(qtbot: QtBot, tmp_path: Path) -> Iterator[RaceOpener]:
    settings = Settings(tmp_path / "settings.json")
    store = Store(tmp_path / "chats.db")
    conversation = Conversation(store, settings, EngineClient(engine.main))
    made = RaceOpener(None, conversation)  # type: ignore[arg-type]
    conversation.start()
    qtbot.waitUntil(lambda: conversation.state is EngineState.IDLE, timeout=WAIT_MS)
    yield made
    if made.window is not None:
        qtbot.addWidget(made.window)
        made.window.close()
    conversation.close()
    store.close()


@pytest.fixture
def asked(opener: RaceOpener, monkeypatch: pytest.MonkeyPatch) -> list[Generate]:
    """What the engine is asked to write."""
    found: list[Generate] = []
    client = opener.runner._client
    send = client.send

    def note(request: object) -> bool:
        if isinstance(request, Generate):
            found.append(request)
        return send(request)  # type: ignore[arg-type]

    monkeypatch.setattr(client, "send", note)
    return found


def run(qtbot: QtBot, opener: RaceOpener, prompt: str = "Tell me.") -> RaceWindow:
    window = opener.open(prompt)
    window.seed.setValue(7)
    window.go.click()
    qtbot.waitUntil(lambda: not opener.runner.running, timeout=WAIT_MS)
    return window


def test_a_seed_that_is_set_is_the_races_seed(opener: RaceOpener) -> None:
    opener._settings.set(SEED, 41)
    assert opener.open().seed.value() == 41


def test_plain_then_drafted_and_the_same_text(qtbot: QtBot, opener: RaceOpener, asked: list[Generate]) -> None:
    opener._settings.set(SYSTEM_PROMPT, "Be brief.")
    window = run(qtbot, opener)
    warm, plain, drafted = asked
    assert [m.content for m in plain.messages] == ["Be brief.", "Tell me."]
    assert warm.sampling == replace(plain.sampling, max_tokens=4)
    assert plain.sampling == drafted.sampling
    assert plain.sampling.seed == 7
    assert warm.drafters.names == plain.drafters.names == ()
    assert drafted.drafters.names == ("suffix", "lookup")  # past replies would know the answer
    assert drafted.drafters.rule == "match"
    assert all(r.chat is None for r in asked)
    race = window.race
    assert race is not None
    assert race.same
    assert race.left_out == ("history",)
    assert window.same.text() == f"identical, {len(race.plain.tokens)} tokens"
    assert "as fast with drafts" in window.ratio.text()
    assert [lane.text.toPlainText() for lane in window.lanes] == [TEXT, TEXT]
    count = len(race.plain.tokens)
    assert all(lane.rate.text().endswith(f"{count} tokens") for lane in window.lanes)
    window.player.slider.setValue(0)
    window.player.slider.setValue(window.player.slider.maximum())
    assert all(lane.rate.text().endswith(f"{count} tokens") for lane in window.lanes)
    assert race.drafted.seconds < race.plain.seconds
    assert window.player.total == pytest.approx(race.plain.seconds)
    assert window.go.text() == "Start"
    window.grab()


def test_the_replay_shows_each_by_its_own_clock(qtbot: QtBot, opener: RaceOpener) -> None:
    window = run(qtbot, opener)
    race = window.race
    assert race is not None
    window.player.seek(race.drafted.seconds)
    plain, drafted = (lane.text.toPlainText() for lane in window.lanes)
    assert drafted == TEXT
    assert plain
    assert TEXT.startswith(plain)
    assert plain != TEXT
    assert window.lanes[1].clock.text() == f"{race.drafted.seconds:.2f} s"
    window.player.seek(0.0)
    assert [lane.text.toPlainText() for lane in window.lanes] == ["", ""]
    window.player.speed.setCurrentText("4×")
    window.player.play()
    qtbot.waitUntil(lambda: window.player.at > 0.3, timeout=WAIT_MS)
    window.player.pause()
    assert window.lanes[1].text.toPlainText()


def test_texts_that_part_are_said_to_part(qtbot: QtBot, opener: RaceOpener) -> None:
    window = run(qtbot, opener, "part here")
    race = window.race
    assert race is not None
    assert not race.same
    assert window.same.text().startswith(f"not identical: the first {race.agreed:,} tokens")
    assert 0 < race.agreed < len(race.plain.tokens)
    assert "## Plain" in markdown(race)
    assert "## With drafts" in markdown(race)


def test_a_failure_is_said_and_the_next_race_runs(qtbot: QtBot, opener: RaceOpener) -> None:
    window = run(qtbot, opener, "fail")
    assert window.race is None
    assert "not a number" in window.same.text()
    assert not window.save_picture.isEnabled()
    assert run(qtbot, opener).race is not None


def test_stopping_frees_the_engine(qtbot: QtBot, opener: RaceOpener) -> None:
    talk = opener.runner._conversation
    window = opener.open("slow")
    window.go.click()
    qtbot.waitUntil(lambda: bool(window.lanes[0].text.toPlainText()), timeout=WAIT_MS)
    assert talk.state is EngineState.GENERATING
    with pytest.raises(Problem, match="race"):
        talk.send("not now")
    assert talk.chat is not None
    assert talk._store.messages(talk.chat.id) == []
    talk.set_drafter("lookup", False)  # must not reach the lap that is running
    window.go.click()
    qtbot.waitUntil(lambda: not opener.runner.running, timeout=WAIT_MS)
    assert talk.state is EngineState.IDLE
    assert window.race is None
    assert window.status.text() == "Stopped"


def test_another_model_ends_the_race(qtbot: QtBot, opener: RaceOpener) -> None:
    talk = opener.runner._conversation
    window = opener.open("slow")
    window.go.click()
    qtbot.waitUntil(lambda: bool(window.lanes[0].text.toPlainText()), timeout=WAIT_MS)
    talk.load("Tiny")
    assert not opener.runner.running
    assert "Another model" in window.same.text()
    qtbot.waitUntil(lambda: talk.state is EngineState.IDLE, timeout=WAIT_MS)


def test_a_dead_engine_ends_the_race(qtbot: QtBot, opener: RaceOpener) -> None:
    talk = opener.runner._conversation
    window = opener.open("slow")
    window.go.click()
    qtbot.waitUntil(lambda: bool(window.lanes[0].text.toPlainText()), timeout=WAIT_MS)
    process = talk.client._process
    assert process is not None
    process.kill()
    qtbot.waitUntil(lambda: not opener.runner.running, timeout=WAIT_MS)
    assert talk.state is EngineState.DEAD
    assert "ended" in window.same.text()


def test_closing_the_window_ends_the_race(qtbot: QtBot, opener: RaceOpener) -> None:
    window = opener.open("slow")
    window.go.click()
    qtbot.waitUntil(lambda: bool(window.lanes[0].text.toPlainText()), timeout=WAIT_MS)
    window.close()
    qtbot.waitUntil(lambda: not opener.runner.running, timeout=WAIT_MS)


def test_without_a_drafter_there_is_no_race(qtbot: QtBot, opener: RaceOpener, asked: list[Generate]) -> None:
    opener._settings.set(DRAFTERS, ("history",))
    window = run(qtbot, opener)
    assert asked == []
    assert "No drafter" in window.same.text()
    assert opener.runner._conversation.state is EngineState.IDLE


# ------------------------------------------------------------------------------------------------- saving


def made_race(**more: object) -> Race:
    plain, drafted = reply(names=()), reply(names=("suffix", "model"), seed=5)
    race = Race(
        (Message("user", "What does an outrider do?"),),
        "Tiny",
        SamplingSettings(temperature=0.7, seed=7),
        Lap("Plain", (), plain, finished(plain)),
        Lap("With drafts", ("suffix", "model"), drafted, finished(drafted)),
    )
    return replace(race, **more)  # type: ignore[arg-type]


def test_the_figures_in_words() -> None:
    race = made_race()
    assert same_line(race) == "identical, 94 tokens"
    assert ratio_line(race).endswith("as fast with drafts")
    assert ratio_line(made_race(plain=race.drafted, drafted=race.plain)).startswith("slower with drafts: 0.")
    assert lap_line(race.plain).startswith("94 tokens in 94 passes, ")
    assert "of drafts held" in lap_line(race.drafted)
    assert lap_line(Lap("Plain")) == "not run yet"
    assert "seed 7" in terms(race)
    assert "seed" not in terms(made_race(sampling=SamplingSettings(seed=7)))  # greedy draws nothing
    assert ratio_line(made_race(plain=Lap("Plain"))) == "nothing was written"


def test_the_report_says_it_all() -> None:
    text = markdown(made_race())
    assert "identical, 94 tokens" in text
    assert "| Plain | 94 | 94 |" in text
    assert "> What does an outrider do?" in text
    assert "| Suffix lookup |" in text
    assert TEXT in text
    assert text.count(TEXT) == 1
    assert fenced("a ```` b")[0] == "`````text"


def test_saving(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    window = RaceWindow()
    qtbot.addWidget(window)
    window.show_race(made_race())
    picked: Callable[[Path], object] = lambda path: monkeypatch.setattr(  # noqa: E731
        QFileDialog, "getSaveFileName", lambda *_: (str(path), "")
    )
    for dark in (False, True):
        window.setPalette(scheme_palette(dark))
        picked(tmp_path / f"race-{dark}.png")
        window.save_picture.click()
        image = QImage(str(tmp_path / f"race-{dark}.png"))
        assert image.width() == 2400
        assert (image.pixelColor(4, 4).lightnessF() < 0.5) == dark
    picked(tmp_path / "race.md")
    window.save_report.click()
    assert (tmp_path / "race.md").read_text("utf-8").startswith("# Race")
    picked(tmp_path / "nowhere" / "race.md")
    window.save_report.click()
    assert "could not be written" in window.status.text()
    assert "Choose another place" in window.status.text()
