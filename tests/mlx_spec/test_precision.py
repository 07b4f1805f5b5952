"""Weights in what they are computed in: widened ones say what the packed ones say."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

from mlx_spec import precision

from .tiny import tiny_model


@pytest.mark.parametrize("bits", [4, 8])
def test_widened_weights_say_the_same(bits: int) -> None:
    model = tiny_model()
    nn.quantize(model, group_size=64, bits=bits)
    ids = mx.array([[3, 4, 5, 6]])
    packed = np.array(model(ids))
    precision.widen(model)
    assert not [m for m in model.modules() if hasattr(m, "bits")]
    assert {v.dtype for _, v in tree_flatten(model.parameters())} == {mx.float32}
    np.testing.assert_allclose(np.array(model(ids)), packed, atol=2e-2, rtol=1e-3)


def test_a_bias_stays() -> None:
    layers = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 64, bias=False))
    layers.layers[0].bias = mx.arange(32).astype(mx.float16)
    nn.quantize(layers, group_size=32, bits=8)
    precision.widen(layers)
    assert layers.layers[0].bias.tolist() == list(range(32))
    assert "bias" not in layers.layers[1]
    assert layers(mx.zeros((1, 64))).shape == (1, 64)


def test_what_is_not_packed_is_only_widened() -> None:
    model = tiny_model()
    before = {n: np.array(v) for n, v in tree_flatten(model.parameters())}
    precision.widen(model)
    for name, value in tree_flatten(model.parameters()):
        assert np.array_equal(np.array(value), before[name])


@pytest.mark.parametrize(
    ("target", "computed"), [(mx.float32, mx.float32), (mx.bfloat16, mx.bfloat16), (mx.float16, mx.bfloat16)]
)
def test_a_drafter_computes_as_its_target_but_never_in_float16(target: mx.Dtype, computed: mx.Dtype) -> None:
    head = nn.Linear(64, 64)
    assert precision.suit(head, target) == computed
    assert head.weight.dtype == head.bias.dtype == computed


@pytest.mark.parametrize("gpu", [True, False])
def test_packed_weights_stay_packed_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch, gpu: bool) -> None:
    monkeypatch.setattr(precision, "has_gpu", lambda: gpu)
    head = nn.Sequential(nn.Linear(64, 64))
    nn.quantize(head, group_size=64, bits=8)
    precision.suit(head, mx.bfloat16)
    assert isinstance(head.layers[0], nn.QuantizedLinear) is gpu
    assert head(mx.ones((1, 64), mx.bfloat16)).dtype == mx.bfloat16
