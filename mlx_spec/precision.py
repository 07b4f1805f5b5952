"""What weights are computed in: as they are stored, or widened where that is faster or needed."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten


def widen(model: nn.Module) -> None:
    """Turn a model's weights into float32 in place, quantized ones included.

    For machines on which mlx has no GPU (quantized products are slow there) and for checks of exactness.
    """
    model.set_dtype(mx.float32)
    wide: list[tuple[str, nn.Module]] = []
    for path, module in model.named_modules():
        if isinstance(module, (nn.QuantizedLinear, nn.QuantizedEmbedding)):
            shape = {"group_size": module.group_size, "bits": module.bits, "mode": module.mode}
            weight = mx.dequantize(module.weight, module.scales, module.get("biases"), **shape)
            weight = weight.astype(mx.float32)
            if isinstance(module, nn.QuantizedEmbedding):
                new: nn.Module = nn.Embedding(1, 1)
            else:
                new = nn.Linear(1, 1, bias="bias" in module)
                if "bias" in module:
                    new.bias = module.bias
            new.weight = weight
            mx.eval(weight)
            wide.append((path, new))
    if wide:
        model.update_modules(tree_unflatten(wide))


def has_gpu() -> bool:
    return bool(mx.default_device() != mx.Device(mx.cpu))


def suit(module: nn.Module, dtype: mx.Dtype) -> mx.Dtype:
    """Make a drafter's weights compute beside a target that computes in `dtype`; returns in what.

    Never in float16: it is too small for the states of some models, and what reads them drafts nonsense there (M1 and
    M2 have no fast bfloat16 but float16 would be wrong). Without a GPU quantized weights are widened.
    """
    dtype = mx.float32 if dtype == mx.float32 else mx.bfloat16
    if not has_gpu():
        widen(module)
    module.set_dtype(dtype)
    mx.eval(module.parameters())
    return dtype
