"""The report as a page: it says what the JSON says, stands alone, and is well formed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mlx_spec.bench.arms import Run
from mlx_spec.bench.page import _by_place, _by_width, page
from mlx_spec.bench.report import Measured, as_json
from mlx_spec.bench.workload import read


def result() -> dict[str, Any]:
    plain = Run((1,) * 12, 1.2, 12, rounds=((1, 0, 0, 0.1, 1.0),) * 12)
    ours = Run((1,) * 12, 0.6, 4, 12, 8, (("lookup", 12, 8),), ((5, 4, 2, 0.15, 2.9), (5, 4, 2, 0.15, 3.1)) * 2)
    measured = [Measured(c, "1", 0, "<b>hi</b>", 9, {"plain": [plain], "ours": [ours]}) for c in ("code", "a<b&c")]
    return as_json(measured, {"model": "me & <you>", "draft": None, "temperature": 0.0})


def test_the_page_says_what_was_measured() -> None:
    text = page(result())
    assert "2.00&times; plain" in text
    assert text.count("<svg") == 5
    assert "a&lt;b&amp;c" in text
    assert "<you>" not in text
    assert not re.search(r"(src|href)=|https?://", text)  # nothing is fetched


def test_what_the_pictures_show() -> None:
    data = result()
    from mlx_spec.bench.page import _rounds

    rounds = _rounds(data)
    assert _by_place(rounds) == [(1, 1.0), (2, 1.0), (3, 0.0)]  # the place after a failure was never tried
    assert _by_width(rounds) == [(5, pytest.approx(1.5))]


def test_the_sets_that_come_along() -> None:
    for name in ("copy", "hostile"):
        questions = read(Path(name))
        assert len(questions) >= 6
        assert len({q.name for q in questions}) == len(questions)
