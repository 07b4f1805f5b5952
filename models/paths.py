"""Where things are kept. Knows folders; makes none until something is written."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def home() -> Path:
    """The data folder: $OUTRIDER_HOME, else the platform's place for an application's data."""
    if given := os.environ.get("OUTRIDER_HOME"):
        return Path(given).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "Outrider"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "outrider"


def models_dir() -> Path:
    """Imported and downloaded models, one folder each."""
    return home() / "models"


def downloads_dir() -> Path:
    """Files as they came, and parts of them."""
    return home() / "downloads"


def heads() -> list[Path]:
    """Folders in which heads that draft for a model are looked for: those made here, and those that come along."""
    return [home() / "drafters", Path(__file__).parent / "shipped"]
