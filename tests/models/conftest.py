"""A hub for these tests, and no other program's models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.hub_stand_in import HubStandIn


def point_to(hub: HubStandIn, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `hub` the hub, with an empty cache, no token and no retries that wait."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "no-token"))
    monkeypatch.setattr("models.download.PAUSE_S", 0.001)
    monkeypatch.setenv("HOME", str(home))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    stand_in = HubStandIn()
    point_to(stand_in, tmp_path, monkeypatch)
    yield stand_in
    stand_in.close()
