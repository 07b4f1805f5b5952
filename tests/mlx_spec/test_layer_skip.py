"""The target drafting with some of its layers: the text stays, the caches too, and the search finds what is spare."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from mlx_spec import layer_search
from mlx_spec.anatomy import dissect
from mlx_spec.drafters.base import Context
from mlx_spec.drafters.layer_skip import LayerSkip, able
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import DrafterSettings, Message, Problem, Round, SamplingSettings
from mlx_spec.layer_search import Found, save, saved, search
from mlx_spec.sampling import History
from mlx_spec.target import Target

from . import zoo
from .tiny import tiny_llama

PROMPT = [Message("user", "one two three four five")]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = load_engine(tiny_llama(tmp_path / "target", layers=5))
    # Two layers that add almost nothing.
    for i in (1, 3):
        layer = made.target.model.layers[i]
        layer.self_attn.o_proj.weight = layer.self_attn.o_proj.weight * 0.01
        layer.mlp.down_proj.weight = layer.mlp.down_proj.weight * 0.01
    yield made
    mx.clear_cache()


def with_layers(engine: Engine, kept: tuple[int, ...]) -> None:
    anatomy = dissect(engine.target.model)
    assert anatomy is not None
    assert able(engine.target, anatomy) == ""
    engine.drafters["layer_skip"] = LayerSkip(engine.target, anatomy, kept, 0.4)


def write(engine: Engine, sampling: SamplingSettings, settings: DrafterSettings) -> list[Round]:
    return [e for e in engine.generate(PROMPT, sampling, settings) if isinstance(e, Round)]


@pytest.mark.parametrize("kept", [(0, 2, 4), (0, 1, 2, 3, 4), (0,), (2, 3)])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("bits", [None, 4])
def test_the_text_is_plain_decodings(
    engine: Engine, kept: tuple[int, ...], temperature: float, bits: int | None
) -> None:
    if bits:
        import mlx.nn as nn

        nn.quantize(engine.target.model, 32, bits)
    with_layers(engine, kept)
    sampling = SamplingSettings(max_tokens=50, seed=4, temperature=temperature, repetition_penalty=1.1)
    plain = [t for r in write(engine, sampling, DrafterSettings(())) for t in r.tokens]
    for adaptive in (False, True):
        engine.reset()
        rounds = write(engine, sampling, DrafterSettings(("layer_skip",), adaptive=adaptive, max_draft=5))
        tokens = [t for r in rounds for t in r.tokens]
        assert tokens == plain
        length = len(engine.target.tokens)
        assert [c.offset for c in engine.target.caches.layers] == [length] * 5
        if len(kept) == 5 and not adaptive:  # nothing is left out: the drafts are the text
            assert all(r.accepted == len(r.drafted) for r in rounds[:-1])
    # The caches are those of a fresh read.
    fresh = Target(engine.target.model)
    list(fresh.prefill(engine.target.tokens))
    for cache, other in zip(engine.target.caches.layers, fresh.caches.layers, strict=True):
        n = len(engine.target.tokens)
        np.testing.assert_allclose(np.array(cache.keys[..., :n, :]), np.array(other.keys[..., :n, :]), atol=2e-4)


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_sampled_drafts_bring_their_law(engine: Engine, rule: str) -> None:
    with_layers(engine, (0, 2, 4))
    sampling = SamplingSettings(max_tokens=40, seed=4, temperature=0.9)
    rounds = write(engine, sampling, DrafterSettings(("layer_skip",), rule=rule, adaptive=False, max_draft=4))
    assert sum(r.accepted for r in rounds) > 5
    history = History(engine.target.tokens, 320, sampling)
    drafter = engine.drafters["layer_skip"]
    offer = drafter.offer(history, 3)
    assert offer is not None
    draft = drafter.propose(Context(history, sampling, 1, False), offer, 3)
    assert draft.logq is not None
    np.testing.assert_allclose(np.exp(np.array(draft.logq)).sum(-1), 1, atol=1e-4)


def test_the_search_leaves_out_what_is_spare(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_search, "TOKENS", 24)
    steps: list[tuple[int, int]] = []
    found = search(engine, lambda done, total: steps.append((done, total)))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert found.layers == 5
    assert set(found.kept) <= {0, 1, 2, 3, 4}
    assert len(found.kept) < 5
    assert not {1, 3} <= set(found.kept)
    assert 0 < found.right <= 1
    assert 0 < found.cost < 1
    assert found.speed > 0
    assert "layer_skip" not in engine.drafters
    path = tmp_path / "layers" / "a.json"
    save(found, path)
    assert saved(path) == found
    # The engine takes it up only where it gains.
    engine.layers = path
    save(dataclasses.replace(found, speed=0.8), path)
    assert "gains nothing with this model (0.80" in engine.use_layers()
    save(dataclasses.replace(found, speed=1.3), path)
    assert engine.use_layers() == ""
    assert "layer_skip" in engine.drafters
    path.write_text("{")
    assert "not searched yet" in engine.use_layers()


@pytest.mark.parametrize("name", ["mamba", "qwen3_next", "gpt_oss"])
def test_models_whose_layers_cannot_go(name: str) -> None:
    target = Target(zoo.build(name))
    assert able(target, dissect(target.model))
    assert "not known" in able(target, None)


def test_what_cannot_be_is_refused(engine: Engine) -> None:
    anatomy = dissect(engine.target.model)
    assert anatomy is not None
    for kept in ((), (0, 5), (2, 1), (0, 0)):
        with pytest.raises(ValueError, match="are not some of 5"):
            LayerSkip(engine.target, anatomy, kept, 0.5)
    state = Engine(zoo.build("mamba"), engine.tokenizer)
    with pytest.raises(Problem, match="No layers can be left out"):
        search(state)


def test_results_that_cannot_be_read(tmp_path: Path) -> None:
    assert saved(tmp_path / "none.json") is None
    good = Found((0, 2), 3, 0.5, 0.4, 1.1)
    save(good, tmp_path / "a.json")
    assert saved(tmp_path / "a.json") == good
    assert good.worth
