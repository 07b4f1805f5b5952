"""Taking rows back from recurrent layers by running those layers again, and nothing else.

A recurrent or convolutional state (GatedDeltaNet of the Qwen3.5 line, Mamba, RWKV, LFM2's convolutions) holds no
rows that could be dropped. But the layer's input for every row of the pass is known. So: note the inputs of the
layers that own a state while a draft is verified; where only the first k rows stay, put the old states back and
run just these layers over their first k inputs. Their outputs are of no use and are never computed. That costs
the projections of the recurrent layers; attention, experts and the head are not touched.

A layer that owns a state is found by watching: the innermost module that is handed an ArraysCache. This module
knows mlx modules and ArraysCache, no architecture by name; where a state's owner is not seen, `covers` is False.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import ArraysCache


@dataclass(slots=True)
class Call:
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    state: ArraysCache


class Recorder:
    """Notes the calls of one pass. One recorder a model; a second one on the same model shares the watching."""

    def __init__(self, model: nn.Module) -> None:
        self._calls: list[Call] = []
        self._rows = 0
        self._watch: list[Recorder | None] = _watch(model)

    @property
    def active(self) -> bool:
        return self._watch[0] is self

    def start(self) -> None:
        self._calls = []
        self._watch[0] = self

    def stop(self, rows: int) -> None:
        """The pass of `rows` rows has been built."""
        self._rows = rows
        self._watch[0] = None

    def forget(self) -> None:
        self._calls = []

    def covers(self, states: Sequence[Any]) -> bool:
        """Whether every one of `states` was seen with its owner in the last pass."""
        seen = {id(c.state) for c in self._calls}
        return bool(seen) and all(id(s) in seen for s in states)

    def again(self, kept: int) -> None:
        """Run the noted layers over their first `kept` rows. The states must be those of before the pass."""
        calls, self._calls = self._calls, []
        for call in calls:
            args = [_first(a, kept, self._rows) for a in call.args]
            kwargs = {k: _first(v, kept, self._rows) for k, v in call.kwargs.items()}
            call.module(*args, **kwargs)


def _first(value: Any, kept: int, rows: int) -> Any:
    if isinstance(value, mx.array) and value.ndim >= 2 and value.shape[1] == rows:
        return value[:, :kept]
    return value


def _watch(model: nn.Module) -> list[Recorder | None]:
    """Make every module that takes a cache tell the current recorder, the one item of the list returned."""
    known = getattr(model, "_outrider_watch", None)
    if known is not None:
        return known
    current: list[Recorder | None] = [None]
    watched: dict[type, type] = {}
    for module in model.modules():
        cls = type(module)
        if cls not in watched:
            watched[cls] = _watched(cls, current) if _takes_cache(cls) else cls
        if watched[cls] is not cls:
            module.__class__ = watched[cls]
    object.__setattr__(model, "_outrider_watch", current)
    return current


def _takes_cache(cls: type) -> bool:
    try:
        parameters = inspect.signature(cls.__call__).parameters
    except (TypeError, ValueError):
        return False
    return "cache" in parameters or "state" in parameters


def _watched(cls: type, current: list[Recorder | None]) -> type:
    inner = cls.__call__

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        recorder = current[0]
        if recorder is None:
            return inner(self, *args, **kwargs)
        states = [v for v in (*args, *kwargs.values()) if isinstance(v, ArraysCache)]
        before = len(recorder._calls)
        result = inner(self, *args, **kwargs)
        for state in states:
            if not any(c.state is state for c in recorder._calls[before:]):
                recorder._calls.append(Call(self, args, kwargs, state))
        return result

    return type(cls.__name__, (cls,), {"__call__": __call__, "__module__": cls.__module__})
