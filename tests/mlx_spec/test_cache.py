"""Transactions: what is kept is what a fresh read of the kept tokens gives."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.models import cache as mlx_cache

from mlx_spec.cache import Caches
from mlx_spec.target import AGAIN_ALONE, Target

from . import zoo

TEXT = [(5 * i * i + i) % 90 + 3 for i in range(80)]
# Plain, sliding windows, chunks, GatedDeltaNet with attention, Mamba beside attention in one layer, convolutions,
# RWKV (two owners of one state), compressed groups (a class of its own), a shared KV cache.
NAMES = ["llama", "gemma3_text", "gpt_oss", "llama4", "qwen3_5", "falcon_h1", "lfm2", "rwkv7", "mamba2", "deepseek_v41"]


@pytest.fixture(autouse=True)
def memory() -> Any:
    yield
    mx.clear_cache()


def next_logits(target: Target) -> np.ndarray:
    return np.array(target.run(mx.array([TEXT[0]], mx.uint32), [TEXT[0]]))[-1]


def reading(model: nn.Module, tokens: list[int]) -> Target:
    """A target that has read `tokens`."""
    target = Target(model)
    for _ in target.prefill(tokens):
        pass
    return target


def fresh(model: nn.Module, tokens: list[int]) -> np.ndarray:
    return next_logits(reading(model, tokens))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("start", [5, 14, 40])
def test_kept_rows_are_as_if_only_they_had_been_read(name: str, start: int) -> None:
    model = zoo.build(name)
    for kept in (1, 2, 5, 7):
        target = reading(model, TEXT[:start])
        target.begin()
        right, wrong = TEXT[start : start + kept], [90 - t for t in TEXT[start + kept : start + 7]]
        mx.eval(target.run(mx.array(right + wrong, mx.uint32)))
        target.keep(start + kept, right)
        assert target.tokens == TEXT[: start + kept]
        assert target.caches.length + target.behind == start + kept
        assert np.allclose(next_logits(target), fresh(model, TEXT[: start + kept]), atol=2e-4)


@pytest.mark.parametrize("name", NAMES)
def test_many_failed_passes_in_a_row(name: str) -> None:
    model = zoo.build(name)
    target = reading(model, TEXT[:9])
    at = 9
    for i in range(12):
        target.begin()
        kept = 1 + i % 3
        right = TEXT[at : at + kept]
        mx.eval(target.run(mx.array([*right, 1, 2, 1, 2], mx.uint32)))
        at += kept
        target.keep(at, right)
        assert target.behind < AGAIN_ALONE + 8  # rows to be run again do not pile up
    assert np.allclose(next_logits(target), fresh(model, TEXT[:at]), atol=3e-4)


@pytest.mark.parametrize("name", ["qwen3_5", "falcon_h1", "lfm2", "rwkv7", "mamba2", "jamba", "nemotron_h", "plamo2"])
def test_recurrent_layers_alone_are_run_again(name: str) -> None:
    target = reading(zoo.build(name), TEXT[:9])
    target.begin()
    mx.eval(target.run(mx.array([*TEXT[9:12], 1, 2], mx.uint32)))
    target.keep(12, TEXT[9:12])
    assert target.behind == 0
    assert not target.caches.reruns


@pytest.mark.parametrize("name", NAMES)
def test_a_turn_boundary_can_be_gone_back_to(name: str) -> None:
    model = zoo.build(name)
    target = reading(model, TEXT[:30])
    target.remember()
    for _ in target.prefill(TEXT[30:70]):
        pass
    edited = [*TEXT[:33], 7, 7, 7]
    assert target.reuse(edited) >= 30
    for _ in target.prefill(edited[len(target.tokens) :]):
        pass
    assert np.allclose(next_logits(target), fresh(model, edited), atol=2e-4)


def test_a_quantized_cache_takes_rows_back() -> None:
    model = zoo.build("llama", head_dim=32, layer_types=None)
    target = Target(model)
    target.caches.layers = [mlx_cache.QuantizedKVCache(group_size=32, bits=8) for _ in target.caches.layers]
    target.caches._leaves = target.caches.layers
    for _ in target.prefill(TEXT[:20]):
        pass
    before = next_logits(target)
    target.keep(20)
    target.begin()
    mx.eval(target.run(mx.array([TEXT[0], 5, 6, 7], mx.uint32)))
    target.keep(20)
    assert np.allclose(next_logits(target), before, atol=1e-4)


def test_more_than_there_is_cannot_be_kept() -> None:
    caches = Caches(zoo.build("llama"))
    with pytest.raises(ValueError, match="cannot keep"):
        caches.keep(3)
