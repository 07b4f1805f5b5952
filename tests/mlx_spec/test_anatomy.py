"""The parts of models: found, checked, tapped, and heads cut short."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache

from mlx_spec.anatomy import Taps, dissect, project, some_rows
from mlx_spec.drafters import shortlist as module
from mlx_spec.drafters.base import Context
from mlx_spec.drafters.draft_model import DraftModel
from mlx_spec.drafters.shortlist import Shortlist
from mlx_spec.events import SamplingSettings
from mlx_spec.sampling import History

from . import zoo
from .tiny import tiny_model

KNOWN = ["llama", "qwen2", "qwen3", "gemma2", "gemma3_text", "cohere", "granite", "gpt_oss", "qwen3_next", "qwen3_5"]
IDS = mx.array([[5, 9, 2, 7]], mx.uint32)


@pytest.mark.parametrize("name", [n for n in KNOWN if n in zoo.architectures()])
def test_the_parts_make_the_model(name: str) -> None:
    model = zoo.build(name)
    anatomy = dissect(model)
    assert anatomy is not None
    whole = model(IDS, cache=make_prompt_cache(model))
    parts = anatomy.head(anatomy.body(IDS, cache=make_prompt_cache(model)))
    assert mx.allclose(whole, parts, atol=1e-4)


def test_a_model_that_is_not_its_parts_has_no_anatomy() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            inner = tiny_model()
            self.model, self.inner = inner.model, inner

        @property
        def layers(self) -> object:
            return self.inner.layers

        def __call__(self, ids: mx.array, cache: object = None) -> mx.array:
            return self.inner(ids, cache=cache) ** 3

    assert dissect(Odd()) is None


@pytest.mark.parametrize("kind", ["linear", "bias", "embedding", "quantized", "quantized embedding"])
def test_some_rows_are_the_same_rows(kind: str) -> None:
    mx.random.seed(1)
    made: nn.Module = nn.Embedding(40, 64) if "embedding" in kind else nn.Linear(64, 40, bias=kind == "bias")
    if "quantized" in kind:
        made = made.to_quantized(64, 4)
    x, ids = mx.random.normal((3, 64)), mx.array([3, 39, 0, 11])
    assert mx.allclose(some_rows(made, ids)(x), project(made, x)[:, ids], atol=1e-5)


def test_taps_take_what_passes() -> None:
    model = tiny_model(layers=3)
    anatomy = dissect(model)
    assert anatomy is not None
    before = model(IDS)
    taps = Taps(anatomy, [2, -1, 0])
    assert taps.take() is None
    after = model(IDS)
    assert mx.array_equal(before, after)
    states = taps.take()
    assert states is not None
    last, embedded, first = states
    assert mx.allclose(embedded, anatomy.embedding(IDS))
    assert mx.allclose(anatomy.head(anatomy.body.norm(last)), after, atol=1e-5)
    assert first.shape == last.shape
    assert not mx.allclose(first, last)
    assert taps.take() is None
    taps.on = False
    model(IDS)
    assert taps.take() is None
    assert isinstance(anatomy.layers[0], type(tiny_model().layers[0]))
    with pytest.raises(ValueError, match="no layer 99"):
        Taps(anatomy, [99])


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Shortlist:
    monkeypatch.setattr(module, "LEAST", 50)
    model = tiny_model()
    anatomy = dissect(model)
    assert anatomy is not None
    return Shortlist(anatomy, 320)


def test_a_short_head_gives_the_same_logits_where_it_gives_any(short: Shortlist) -> None:
    model = tiny_model()
    short.add([5, 300, 200, 300])
    assert short.size == 82
    assert short.has(300)
    assert short.has(79)
    assert not short.has(81)
    full, cut = np.array(model(IDS)), np.array(short(IDS))
    listed = [*range(80), 200, 300]
    np.testing.assert_allclose(cut[..., listed], full[..., listed], atol=1e-5)
    rest = np.setdiff1d(np.arange(320), listed)
    assert np.isneginf(cut[..., rest]).all()


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("coupled", [True, False])
def test_a_draft_model_with_a_short_head_says_only_what_it_can(
    monkeypatch: pytest.MonkeyPatch, temperature: float, coupled: bool
) -> None:
    monkeypatch.setattr(module, "LEAST", 50)
    drafter = DraftModel(tiny_model())
    assert drafter.short is not None
    prompt = [4, 250, 6, 7]
    drafter.begin(prompt)
    settings = SamplingSettings(temperature=temperature, repetition_penalty=1.2)
    history = History(prompt, 320, settings)
    offer = drafter.offer(history, 6)
    assert offer is not None
    draft = drafter.propose(Context(history, settings, 1, coupled), offer, 6)
    assert all(drafter.short.has(int(t)) for t in np.array(draft.tokens))
    if temperature and not coupled:
        assert draft.logq is not None
        assert draft.logq.shape == (6, 320)
        np.testing.assert_allclose(np.exp(np.array(draft.logq)).sum(-1), 1, atol=1e-4)
    else:
        assert draft.logq is None


def test_a_small_vocabulary_keeps_its_head() -> None:
    assert DraftModel(tiny_model()).short is None
