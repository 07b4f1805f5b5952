"""A tiny target of six layers, loaded once: what a training needs to know of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from mlx_spec.anatomy import Anatomy, Taps, dissect
from mlx_spec.drafters.eagle_head import default_taps
from mlx_spec.engine import load_model
from tests.mlx_spec.tiny import tiny_llama


@dataclass(frozen=True)
class Small:
    folder: Path
    model: nn.Module
    tokenizer: Any
    config: dict[str, Any]
    anatomy: Anatomy


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    folder = tiny_llama(tmp_path_factory.mktemp("small") / "tiny", layers=6)
    model, tokenizer, _ = load_model(folder)
    anatomy = dissect(model)
    assert anatomy is not None
    return Small(folder, model, tokenizer, json.loads((folder / "config.json").read_text()), anatomy)


@pytest.fixture
def taps(small: Small) -> Iterator[Taps]:
    made = Taps(small.anatomy, default_taps(6))
    yield made
    made.remove()


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    yield
    mx.clear_cache()
