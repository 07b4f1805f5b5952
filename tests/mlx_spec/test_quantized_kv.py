"""Keys and values in fewer bits, from a place in the middle of a reply on: drafts still change nothing."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.models import cache as mlx_cache

from mlx_spec.cache import try_quantized
from mlx_spec.engine import load_engine
from mlx_spec.events import DrafterSettings, Problem, Round, SamplingSettings
from mlx_spec.target import Target

from . import zoo
from .test_decoder import Guesser
from .tiny import config, tiny_llama

PROMPT = [5, 9, 30, 7, 5, 9, 30, 7, 5, 9]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    wide = {**config(), "head_dim": 32}  # rows of 16 cannot be quantized
    monkeypatch.setattr("tests.mlx_spec.tiny.config", lambda *_a, **_k: dict(wide))
    return tiny_llama(tmp_path / "target")


@pytest.mark.parametrize("start", [0, 12, 31])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_text_is_plain_decodings(folder: Path, start: int, temperature: float) -> None:
    sampling = SamplingSettings(max_tokens=50, seed=2, temperature=temperature)
    texts: list[list[int]] = []
    for names in ((), ("suffix", "lookup"), ("guesser",)):
        settings = DrafterSettings(names, adaptive=False, max_draft=7)
        engine = load_engine(folder, kv_bits=4, quantized_kv_start=start)
        if names:
            engine.drafters["guesser"] = Guesser(texts[0], len(PROMPT), "half")
        rounds = [e for e in engine.generate(PROMPT, sampling, settings) if isinstance(e, Round)]
        texts.append([t for r in rounds for t in r.tokens])
        assert all(isinstance(c, mlx_cache.QuantizedKVCache) for c in engine.target.caches.layers)
        if names == ("guesser",):
            assert any(r.accepted for r in rounds)
    assert texts[0] == texts[1] == texts[2]


def test_it_takes_effect(folder: Path) -> None:
    exact, small = Target(load_engine(folder).target.model), load_engine(folder, kv_bits=4, quantized_kv_start=0).target
    for target in (exact, small):
        list(target.prefill(PROMPT))
        list(target.prefill(PROMPT))
    rows = mx.array([1, 2], mx.uint32)
    assert not mx.allclose(exact.run(rows), small.run(rows), atol=1e-5)


def test_what_cannot_be_is_refused(folder: Path) -> None:
    with pytest.raises(Problem, match="3 bits"):
        load_engine(folder, kv_bits=3)
    with pytest.raises(Problem, match="no cache that can be kept"):
        try_quantized(zoo.build("mamba"), 8)
