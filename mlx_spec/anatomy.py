"""The parts of a causal language model of mlx-lm: embedding, layers, head, and hidden states on the way.

mlx-lm's models share a shape (`model.model(ids, cache)` gives the states that the head reads) but not their
names, scales and caps. So the parts are found by name and then checked: put together again they must give the
model's own logits. Where they do not, there is no `Anatomy`, and what needs one says so. Nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache

BODIES = ("model", "transformer", "backbone")
EMBEDDINGS = ("embed_tokens", "wte", "tok_embeddings", "word_embeddings", "embedding", "embeddings")
HEADS = ("lm_head", "output")
NEAR = 0.02  # of the largest logit: how far the parts' logits may be from the model's (weights may be bfloat16)


@dataclass(frozen=True, slots=True)
class Anatomy:
    """`body(ids, cache=...)` gives (1, rows, hidden); `finish` turns `project`'s product into logits."""

    body: nn.Module
    layers: list[Any]
    embedding: nn.Module
    projection: nn.Module  # the embedding itself where the two are tied
    finish: Callable[[mx.array], mx.array]

    @property
    def width(self) -> int:
        """The number of features of a hidden state."""
        return int(self.embedding(mx.zeros((1,), mx.uint32)).shape[-1])

    def head(self, hidden: mx.array) -> mx.array:
        """Logits of normed states (..., hidden)."""
        return self.finish(project(self.projection, hidden))


def project(module: Any, hidden: mx.array) -> mx.array:
    """hidden @ weight.T (+ bias), for a linear layer or an embedding."""
    if isinstance(module, nn.Embedding | nn.QuantizedEmbedding):
        return module.as_linear(hidden)
    product: mx.array = module(hidden)
    return product


def weight_bytes(module: nn.Module) -> int:
    """Bytes of all weights."""
    return sum(int(v.nbytes) for v in dict(tree_flatten(module.parameters())).values())


def dissect(model: nn.Module) -> Anatomy | None:
    """The parts of `model`, or None where they cannot be told for sure. Runs it over two tokens."""
    owner: Any = model
    inner = getattr(model, "language_model", None)  # a model that sees images wraps the one that writes
    if isinstance(inner, nn.Module) and not any(hasattr(inner, e) for e in EMBEDDINGS):
        owner = inner
    body = next((b for b in (getattr(owner, n, None) for n in BODIES) if isinstance(b, nn.Module)), None)
    if body is None:
        return None
    embedding = next((e for e in (getattr(body, n, None) for n in EMBEDDINGS) if isinstance(e, nn.Module)), None)
    layers = getattr(model, "layers", None)
    if embedding is None or not isinstance(layers, list):
        return None
    heads = [h for h in (getattr(owner, n, None) for n in HEADS) if isinstance(h, nn.Module)]
    ids = mx.array([[1, 2]], mx.uint32)
    for projection in [*heads, embedding]:
        try:
            real = model(ids, cache=make_prompt_cache(model)).astype(mx.float32)
            product = project(projection, body(ids, cache=make_prompt_cache(model))).astype(mx.float32)
            for finish in _finishes(owner):
                if product.shape == real.shape and _near(finish(product), real):
                    return Anatomy(body, layers, embedding, projection, finish)
        except (TypeError, ValueError, AttributeError):
            continue  # a body that wants more, or a head of another width
    return None


def _finishes(owner: Any) -> list[Callable[[mx.array], mx.array]]:
    """What models do to the product: nothing, a scale, a soft cap."""
    found: list[Callable[[mx.array], mx.array]] = [lambda x: x]
    places = [owner, getattr(owner, "args", None), getattr(owner, "config", None)]

    def value(*names: str) -> float | None:
        values = (getattr(p, n, None) for p in places for n in names if p is not None)
        return next((float(v) for v in values if isinstance(v, int | float) and v), None)

    scale, divisor = value("logit_scale"), value("logits_scaling")
    cap = value("final_logit_softcapping", "logits_soft_cap")
    if scale:
        found.append(lambda x: x * scale)
    if divisor:
        found.append(lambda x: x / divisor)
    if cap:
        found.append(lambda x: mx.tanh(x / cap) * cap)
    return found


def _near(a: mx.array, b: mx.array) -> bool:
    return bool(mx.max(mx.abs(a - b)) <= NEAR * mx.max(mx.abs(b)))


def some_rows(module: Any, ids: mx.array) -> nn.Module:
    """A linear layer that gives the products for the tokens `ids` alone. Its weights are a copy of those rows."""
    rows: Any
    if hasattr(module, "bits"):
        rows = nn.QuantizedLinear(
            module.group_size,
            1,
            bias="bias" in module,
            group_size=module.group_size,
            bits=module.bits,
            mode=module.mode,
        )
        rows.weight, rows.scales = module.weight[ids], module.scales[ids]
        if "biases" in module:
            rows.biases = module.biases[ids]
        elif "biases" in rows:
            del rows.biases
    else:
        rows = nn.Linear(1, 1, bias="bias" in module)
        rows.weight = module.weight[ids]
    if "bias" in module:
        rows.bias = module.bias[ids]
    mx.eval(rows.parameters())
    made: nn.Module = rows
    return made


class Taps:
    """Hidden states after chosen layers, taken from a pass that runs anyway, while `on`.

    `wanted` are indices of layers, 0 the first; -1 is the embedding's output, which is the first layer's input, and
    the number of layers is what the head reads. After a pass `take` gives one array (1, rows, hidden) for each, not
    yet evaluated.
    """

    def __init__(self, anatomy: Anatomy, wanted: Sequence[int]) -> None:
        """Raises ValueError for a layer that is not there."""
        layers = anatomy.layers
        for i in wanted:
            if not -1 <= i <= len(layers):
                raise ValueError(f"there is no layer {i}: the model has {len(layers)}")
        self.wanted = tuple(wanted)
        self.on = True
        self._got: dict[int, mx.array] = {}
        self._tapped: list[tuple[Any, type]] = []
        for i in sorted(set(wanted)):
            place = anatomy.body if i == len(layers) else layers[max(i, 0)]
            self._tapped.append((place, type(place)))
            _tap(place, partial(self.store, i), before=i < 0)

    def store(self, index: int, state: mx.array) -> None:
        if self.on:
            self._got[index] = state

    def take(self) -> list[mx.array] | None:
        """The states of the last pass, in the order of `wanted`; None if it did not pass by all of them."""
        got, self._got = self._got, {}
        return [got[i] for i in self.wanted] if all(i in got for i in self.wanted) else None

    def remove(self) -> None:
        """The layers are what they were, if nobody tapped them since."""
        for place, cls in reversed(self._tapped):
            place.__class__ = cls


def _tap(layer: Any, store: Callable[[mx.array], None], before: bool) -> None:
    """Let `layer` tell `store` its output, or its input. Attributes, weights and type checks stay what they are."""
    cls = type(layer)
    inner = cls.__call__

    def __call__(self: nn.Module, x: mx.array, *args: Any, **kwargs: Any) -> Any:
        if before:
            store(x)
        result = inner(self, x, *args, **kwargs)
        if not before:
            store(result[0] if isinstance(result, tuple) else result)
        return result

    layer.__class__ = type(cls.__name__, (cls,), {"__call__": __call__, "__module__": cls.__module__})
