"""Means, table and JSON, on figures made by hand."""

from __future__ import annotations

import json

import pytest

from mlx_spec.bench.arms import Run
from mlx_spec.bench.compare import Difference
from mlx_spec.bench.report import Measured, as_json, figures, from_json, geometric_mean, predicted, table, worst

TEXT = tuple(range(12))


def measured(category: str, name: str, ours: float, theirs: float, difference: Difference | None) -> Measured:
    """12 tokens in 12 s plain, in the given seconds by ours and mlx-lm."""
    return Measured(
        category,
        name,
        0,
        f"Question\n{name}",
        7,
        {
            "plain": [Run(TEXT, 12, 12)],
            "ours": [Run(TEXT, ours, 4, 16, 8, (("lookup", 10, 6), ("model", 6, 2)))],
            "mlx-lm-2": [Run(TEXT, theirs, 6, 12, 6)],
        },
        {"plain": None, "mlx-lm-2": difference},
    )


FOUND = Difference(3, 5, 6, 0.001)
ALL = [
    measured("chat", "1", 4, 6, None),
    measured("chat", "2", 12, 6, FOUND),
    measured("code", "3", 3, 12, None),
]


def test_geometric_mean() -> None:
    assert geometric_mean([2, 0.5]) == pytest.approx(1)
    assert geometric_mean([3]) == pytest.approx(3)


def test_figures() -> None:
    chat = figures(ALL[:2])["arms"]
    assert chat["ours"]["ratio_to_plain"] == pytest.approx(3**0.5)
    assert chat["ours"]["tokens_per_pass"] == 3
    assert chat["ours"]["acceptance"] == 0.5
    assert chat["ours"]["tokens_per_second"] == 24 / 16
    assert chat["ours"]["by_drafter"] == {
        "lookup": {"drafted": 20, "accepted": 12},
        "model": {"drafted": 12, "accepted": 4},
    }
    assert chat["plain"]["acceptance"] is None
    assert chat["plain"]["ratio_to_plain"] == pytest.approx(1)
    assert (chat["mlx-lm-2"]["compared"], chat["mlx-lm-2"]["differing"]) == (2, 1)
    assert worst(ALL) is ALL[1]


def test_table() -> None:
    lines = table(ALL).splitlines()
    assert lines[0].split() == [
        *("category", "prompts", "ours/plain", "tokens/pass", "accepted", "mlx-lm-2/plain"),
        *("ours/best", "other"),
    ]
    assert lines[2].split() == ["chat", "2", "1.73x", "3.00", "50", "%", "2.00x", "0.87x"]
    assert lines[3].split() == ["code", "1", "4.00x", "3.00", "50", "%", "1.00x", "4.00x"]
    assert lines[4].startswith("all")
    assert 'Worst: chat 2, 1.00x: "Question 2"' in lines
    assert "lookup: 18 of 30 drafted tokens held" in lines
    assert "Our text is identical to that of plain." in lines
    assert any(line.startswith("Our text differs from that of mlx-lm-2 on 1 of 3 prompts") for line in lines)
    assert max(map(len, lines)) < 140


def test_one_category_is_one_row() -> None:
    assert [line.split()[0] for line in table(ALL[2:]).splitlines()[:3]][-1] == "all"


def test_json_has_every_prompt() -> None:
    data = json.loads(json.dumps(as_json(ALL, {"model": "m"})))
    assert data["settings"] == {"model": "m"}
    assert set(data["categories"]) == {"chat", "code"}
    assert data["worst"] == {"category": "chat", "name": "2", "turn": 0, "ratio": 1.0}
    second = data["prompts"][1]
    assert second["ratio_to_plain"] == {"plain": 1.0, "ours": 1.0, "mlx-lm-2": 2.0}
    assert second["runs"]["ours"][0]["tokens"] == list(TEXT)
    assert second["differences"] == {
        "plain": None,
        "mlx-lm-2": {"index": 3, "ours": 5, "other": 6, "gap": 0.001},
    }


def test_predictions() -> None:
    """8 drafts in 4 rounds, one in two held; a wide pass takes 1.5 plain ones, a draft 0.25."""
    plain = Run(TEXT, 12, 12, rounds=((1, 0, 0, 1.0, 1.0),) * 12)
    rounds = ((3, 2, 2, 1.5, 2.0), (3, 2, 0, 1.5, 2.0)) * 2
    m = Measured("chat", "1", 0, "?", 7, {"plain": [plain], "ours": [Run(TEXT, 8, 4, 8, 4, rounds=rounds)]})
    found = predicted(m)
    alpha = 4 / 6
    assert found["papers"] == pytest.approx((1 + alpha + alpha**2) / 1.5)
    assert found["costs"] == pytest.approx((1 + alpha + alpha**2) / 2)
    assert found["ours"] == pytest.approx(8 / 8)
    assert predicted(ALL[0]) == {}


def test_results_are_read_back() -> None:
    data = json.loads(json.dumps(as_json(ALL, {})))
    assert from_json(data) == ALL
