"""For all tests: no display, no real data folder, nothing left running."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
FONTS = Path("/usr/share/fonts/truetype/dejavu")
if FONTS.is_dir():
    os.environ.setdefault("QT_QPA_FONTDIR", str(FONTS))
ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder for this test alone."""
    home = tmp_path / "outrider-home"
    monkeypatch.setenv("OUTRIDER_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def starter_model() -> Path:
    """The starter's folder, through our own code; kept between runs in .cache (or $OUTRIDER_TEST_HOME)."""
    from models import locate

    before = os.environ.get("OUTRIDER_HOME")
    os.environ["OUTRIDER_HOME"] = os.environ.get("OUTRIDER_TEST_HOME") or str(ROOT / ".cache" / "test-home")
    try:
        folder = locate("starter")
    finally:
        if before is None:
            del os.environ["OUTRIDER_HOME"]
        else:
            os.environ["OUTRIDER_HOME"] = before
    return folder
