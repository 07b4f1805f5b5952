"""The sidebar's widgets: they paint in every state, say what is so, and keep the marks of switches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from desktop.engine_keeper import EngineState
from desktop.sidebar.chart import RateChart, nice_top, split_replies
from desktop.sidebar.live_sidebar import LiveSidebar, changes, model_title
from desktop.sidebar.rounds_view import KEPT, ROW, RoundsView, describe
from desktop.sidebar.stats import Sample, Stats
from mlx_spec.events import DrafterSettings, Memory, ModelInfo
from tests.desktop.sidebar.rounds import make_finished, make_round

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")  # the offscreen platform's own complaint

INFO = ModelInfo("Starter", "Small", "llama", 135_000_000, 5.0, 8192, 98_000_000, ("lookup", "model"))


def test_axis_tops() -> None:
    assert [nice_top(v) for v in (0, 0.7, 1, 1.1, 3, 4.5, 7, 99, 101)] == [1, 1, 1, 2, 4, 5, 10, 100, 200]


def test_no_line_joins_two_replies() -> None:
    samples = [Sample(0, 1, None, True), Sample(1, 1, None), Sample(2, 1, None, True)]
    assert [len(part) for part in split_replies(samples)] == [2, 1]


@pytest.mark.parametrize("size", [(20, 20), (180, 112), (600, 300)])
def test_chart_paints_in_any_state_and_size(qtbot: QtBot, size: tuple[int, int]) -> None:
    stats = Stats()
    chart = RateChart(stats)
    qtbot.addWidget(chart)
    chart.setMinimumSize(1, 1)
    chart.resize(*size)
    chart.grab()
    stats.add([make_round(total_s=0.2)])
    chart.grab()
    for text in ("Prompt lookup off", "Draft model on"):
        stats.mark(text)
    stats.add([make_round(total_s=0.2, plain_s=0.1) for _ in range(40)])
    stats.start_reply()
    stats.add([make_round(total_s=0.2, plain_s=0.1)])
    chart._refresh()
    assert not chart.grab().isNull()
    assert "plain decoding 10.0 tok/s" in chart.accessibleDescription()


def test_rounds_are_capped_followed_and_explained(qtbot: QtBot) -> None:
    view = RoundsView()
    qtbot.addWidget(view)
    view.resize(260, ROW * 5)
    view.grab()
    view.add_rounds(make_round(i, "lookup", 40, 3, plain_s=0.1) for i in range(KEPT + 50))
    view._refresh()
    view.grab()
    assert len(view.rounds()) == KEPT
    assert view.rounds()[-1].index == KEPT + 49
    bar = view.verticalScrollBar()
    assert bar.maximum() > 0
    assert bar.value() == bar.maximum()
    bar.setValue(0)
    view.add_rounds([make_round()])
    view._refresh()
    assert bar.value() == 0  # somebody is reading
    at = view.round_at(QPoint(3, 3))
    assert at is not None
    text = describe(at)
    assert "drafted 40, 3 held" in text
    assert "“ d0”" in text
    assert "A plain pass takes 100 ms" in text
    assert "nothing was drafted" in describe(make_round())


def test_sidebar_states(qtbot: QtBot) -> None:
    side = LiveSidebar()
    qtbot.addWidget(side)
    side.resize(side.minimumSizeHint())
    side.show()
    assert not side._restart.isVisible()
    side.set_state(EngineState.LOADING, "Reading Starter", 0.5)
    assert side._progress.isVisible()
    assert side._progress.value() == 500
    side.set_state(EngineState.PREFILLING, "Reading the prompt", -1.0)
    assert side._progress.maximum() == 0
    side.set_state(EngineState.DEAD, "The engine stopped", -1.0)
    assert not side._progress.isVisible()
    assert side._restart.isVisible()
    with qtbot.waitSignal(side.restart_requested):
        side._restart.click()


def test_sidebar_follows_a_reply(qtbot: QtBot) -> None:
    side = LiveSidebar()
    qtbot.addWidget(side)
    side.set_drafters(DrafterSettings())
    side.set_model(INFO)
    side.set_memory(Memory(1_000_000_000, 1_000_000_000, 8_000_000_000))
    side.reply_started()
    side.add_rounds([make_round(drafter="lookup", drafted=4, accepted=3, total_s=0.1)])
    side.refresh()
    assert side._ratio.text() == "measuring…"
    side.add_rounds([make_round(drafter="lookup", drafted=4, accepted=3, total_s=0.1, plain_s=0.05)])
    side.refresh()
    assert side._ratio.text() == "2.0× plain"
    assert side._rate.text() == "40.0 tok/s"
    assert "1.0 GB in use of 8.0 GB" in side._memory_text.text()
    side.set_drafters(DrafterSettings(names=("lookup",)))
    assert [m.text for m in side.stats.marks] == ["Draft model off"]
    side.reply_finished(make_finished(tokens=20, decode_s=4.0, plain_s=0.1))
    side.refresh()
    assert side._ratio.text() == "0.50× plain"
    assert side._words.text().startswith("slower than plain decoding")
    side.grab()


def test_changes_in_words() -> None:
    before, after = DrafterSettings(), DrafterSettings(names=("lookup",), rule="rejection", max_draft=8)
    assert changes(before, after) == ["Draft model off", "rule: rejection", "up to 8"]
    assert changes(after, DrafterSettings(names=("lookup", "model"), rule="rejection", max_draft=8)) == [
        "Draft model on"
    ]


def test_model_names() -> None:
    assert model_title("/some/where/Model.gguf") == "Model.gguf"
    assert model_title("owner/model") == "owner/model"
    assert model_title("starter") == "starter"


def test_a_long_model_name_does_not_widen_the_sidebar(qtbot: QtBot) -> None:
    side = LiveSidebar()
    qtbot.addWidget(side)
    before = side.minimumSizeHint().width()
    side.set_model(replace(INFO, model="owner/" + "x" * 200, draft="y" * 200))
    assert side.minimumSizeHint().width() == before


def test_no_mark_before_anything_was_written(qtbot: QtBot) -> None:
    side = LiveSidebar()
    qtbot.addWidget(side)
    side.set_drafters(DrafterSettings())
    side.set_drafters(DrafterSettings(names=("lookup",)))
    assert not side.stats.marks
