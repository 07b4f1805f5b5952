"""Cache transactions over every cache class of mlx-lm: run rows, keep the first n, take the rest back.

Every pass of a model appends its rows to the model's caches. After verification only some rows may stay. How
rows are taken back depends on the kind of cache:

* caches that grow by a row a token (KVCache, QuantizedKVCache, ConcatenateKVCache) move an offset;
* sliding windows (RotatingKVCache, ChunkedKVCache) drop rows at the end, as long as that leaves every row
  that the next token may look at; a pass over several rows always leaves enough for its own rows to go;
* states that hold no rows (recurrent and convolutional ones, compressed groups) cannot be trimmed. A `mark`
  keeps references to the arrays as they were before the pass, which is free, for mlx arrays never change.
  `keep` goes back to the mark. Then the layers that own the states are run over the kept rows again
  (recurrent.py), or, where that is not possible, `keep` says so and all layers are, in front of the next pass.

A kept reference to a buffer that is written in place makes mlx copy the buffer once. Caches that grow are
therefore never marked by reference, windows only where one token at a time is run over them.

Nothing here relies on `trim` of the cache classes where that silently does nothing. This module knows
mlx-lm's cache classes and nothing of tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import cache as mlx_cache

from .events import Problem
from .recurrent import Recorder

GROWING = (mlx_cache.KVCache, mlx_cache.QuantizedKVCache)
ROWS = (*GROWING, mlx_cache.ConcatenateKVCache)  # any number of rows can go
WINDOWS = (mlx_cache.RotatingKVCache, mlx_cache.ChunkedKVCache)
Saved = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """The state of all caches at `length` tokens. `saved` has None for a cache that needs only its offset."""

    length: int
    saved: tuple[Saved | None, ...]


class Caches:
    """All caches of one model. `length` is the number of tokens in them."""

    def __init__(self, model: nn.Module) -> None:
        self.layers: list[Any] = mlx_cache.make_prompt_cache(model)
        self.length = 0
        self._leaves = leaves(self.layers)
        if getattr(model, "model_type", "") == "plamo3":
            # Its mask lets a row of a wide pass see one row more than its cache keeps for a single one: the
            # text would depend on how it is cut into passes. The mask is the model's, so keep the row.
            for cache in self._leaves:
                if isinstance(cache, mlx_cache.RotatingKVCache):
                    cache.max_size += 1
        # Whether rows can be taken back without running any again.
        self.stateless = all(isinstance(c, (*ROWS, *WINDOWS)) for c in self._leaves)
        self.growing = all(isinstance(c, ROWS) for c in self._leaves)
        self._begun: Mark | None = None
        # States whose layers can be run again alone; None where there are none, or others beside them.
        self._states = [c for c in self._leaves if isinstance(c, mlx_cache.ArraysCache)]
        known = (*ROWS, *WINDOWS, mlx_cache.ArraysCache)
        alone = bool(self._states) and all(isinstance(c, known) for c in self._leaves)
        self._recorder = Recorder(model) if alone else None

    def quantize(self, bits: int) -> None:
        """Keep keys and values in `bits` bits from here on, where a cache can: those that grow."""
        for i, cache in enumerate(self._leaves):
            if cache.__class__ is mlx_cache.KVCache and cache.keys is not None:
                group = _group(cache)
                if group:
                    small = cache.to_quantized(group_size=group, bits=bits)
                    _replace(self.layers, cache, small)
                    self._leaves[i] = small

    def begin(self, *, single: bool = False) -> None:
        """Rows that may be taken back are about to be run: in one pass, or (`single`) one after another."""
        if self.growing or (self.stateless and not single):
            self._begun = None  # `keep` needs no help
        else:
            self._begun = self.mark()
            if self._recorder is not None and not single:
                self._recorder.start()

    def mark(self) -> Mark:
        """Remember the present state; see `back`."""
        return Mark(self.length, tuple(None if isinstance(c, GROWING) else _save(vars(c)) for c in self._leaves))

    def snapshot(self) -> tuple[int, list[Saved]]:
        """References to everything. While it is held, what is written next copies its buffers."""
        return self.length, [_save(vars(c)) for c in self._leaves]

    def restore(self, snapshot: tuple[int, list[Saved]]) -> None:
        """The caches of a snapshot; what was begun since is forgotten."""
        self.length, states = snapshot
        for cache, saved in zip(self._leaves, states, strict=True):
            vars(cache).clear()
            vars(cache).update(_save(saved))
        self._begun = None
        if self._recorder is not None:
            self._recorder.forget()

    def back(self, mark: Mark) -> None:
        """Go back to a mark. What grew since must still hold the mark's rows, and it does unless it was
        taken back further than the mark in between."""
        for cache, saved in zip(self._leaves, mark.saved, strict=True):
            if saved is None:
                _take_back(cache, self.length - mark.length)
            else:
                vars(cache).clear()
                vars(cache).update(_save(saved))
        self.length = mark.length

    def ran(self, rows: int) -> None:
        """A pass appended `rows`."""
        if self._recorder is not None:
            if self._recorder.active:
                self._recorder.stop(rows)
            else:
                self._recorder.forget()
        self.length += rows

    def keep(self, length: int, marks: Sequence[Mark] = ()) -> int:
        """Take back everything after the first `length` tokens, or more where that cannot be done.

        Returns how many tokens are in the caches now. Fewer than `length` means that the tokens after them
        must be run again: the state went back to `begin` or to the latest of `marks` that is not after
        `length`. Raises LookupError where there is no such state.
        """
        extra = self.length - length
        if extra < 0:
            raise ValueError(f"cannot keep {length} tokens of {self.length}")
        if extra == 0:
            return length
        if all(_can_take_back(c, extra) for c in self._leaves):
            for cache in self._leaves:
                _take_back(cache, extra)
            self.length = length
            self._forget()
            return length
        if self._run_states_again(length, extra):
            self.length = length
            return length
        known = [*marks, *([self._begun] if self._begun else [])]
        fitting = [m for m in known if m.length <= length]
        if fitting:
            self.back(max(fitting, key=lambda m: m.length))
        else:
            raise LookupError(f"no state of {length} tokens or fewer is known")
        self._forget()
        return self.length

    def pick(self, start: int, rows: Sequence[int]) -> None:
        """Of the last pass, which began at `start`, keep these rows in this order. For KVCaches alone."""
        kept = mx.array([start + r for r in rows])
        for cache in self._leaves:
            cache.keys[..., start : start + len(rows), :] = cache.keys[..., kept, :]
            cache.values[..., start : start + len(rows), :] = cache.values[..., kept, :]
            cache.offset = start + len(rows)
        self.length = start + len(rows)

    def _run_states_again(self, length: int, extra: int) -> bool:
        """Take back `extra` rows of the pass since `begin` by running the layers with a state once more."""
        recorder, begun = self._recorder, self._begun
        if recorder is None or begun is None or length <= begun.length or not recorder.covers(self._states):
            return False
        others = [c for c in self._leaves if not isinstance(c, mlx_cache.ArraysCache)]
        if not all(_can_take_back(c, extra) for c in others):
            return False
        for cache, saved in zip(self._leaves, begun.saved, strict=True):
            if isinstance(cache, mlx_cache.ArraysCache):
                vars(cache).update(_save(saved))
            else:
                _take_back(cache, extra)
        recorder.again(length - begun.length)
        self._begun = None
        return True

    def _forget(self) -> None:
        """A mark after the present end would be of another text, once more rows are run."""
        if self._begun is not None and self._begun.length > self.length:
            self._begun = None

    def arrays(self) -> list[Any]:
        """What to evaluate so that the caches are computed."""
        return _arrays([vars(c) for c in self._leaves])

    @property
    def reruns(self) -> bool:
        """Whether rows that were kept may have to be run again by all layers."""
        return not self.stateless and self._recorder is None

    @property
    def ahead(self) -> bool:
        """Whether one row run on trial can be taken back at no cost (a window that is full cannot)."""
        rows_or_states = all(isinstance(c, (*ROWS, mlx_cache.ArraysCache)) for c in self._leaves)
        return rows_or_states and (self.growing or self._recorder is not None)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.arrays())


def try_quantized(model: nn.Module, bits: int) -> None:
    """Raise `Problem` unless `model` runs with keys and values of `bits` bits."""
    if bits not in (4, 8):
        raise Problem(f"Keys and values cannot be kept in {bits} bits.", "Choose 4 or 8, or leave them as they are.")
    caches = Caches(model)
    row = mx.zeros((1, 1), mx.uint32)
    try:
        model(row, cache=caches.layers)
        caches.quantize(bits)
        mx.eval(model(row, cache=caches.layers))
    except (ValueError, TypeError, AttributeError, NotImplementedError) as e:
        raise Problem(
            f"This model cannot keep its keys and values in {bits} bits: {str(e)[:120]}.", "Leave them as they are."
        ) from e
    if not any(isinstance(c, mlx_cache.QuantizedKVCache) for c in leaves(caches.layers)):
        raise Problem("This model has no cache that can be kept in fewer bits.", "Leave keys and values as they are.")


def _group(cache: Any) -> int:
    """The group size that both keys and values can be quantized in; 0 if there is none."""
    sizes = (cache.keys.shape[-1], cache.values.shape[-1])
    return next((g for g in (64, 32) if all(s % g == 0 for s in sizes)), 0)


def _replace(layers: list[Any], old: Any, new: Any) -> None:
    for i, cache in enumerate(layers):
        if cache is old:
            layers[i] = new
        elif isinstance(cache, mlx_cache.CacheList):
            cache.caches = tuple(new if c is old else c for c in cache.caches)


def evaluate(caches: Caches) -> None:
    mx.eval(caches.arrays())


def leaves(layers: Sequence[Any]) -> list[Any]:
    """The caches, those inside of CacheLists one by one."""
    found: list[Any] = []
    for cache in layers:
        found += leaves(cache.caches) if isinstance(cache, mlx_cache.CacheList) else [cache]
    return found


def _can_take_back(cache: Any, extra: int) -> bool:
    """Whether the last `extra` rows can go and leave all that the next token may look at."""
    if isinstance(cache, ROWS):
        return bool(cache.offset >= extra)
    if cache.__class__ is mlx_cache.RotatingKVCache:
        after = cache.offset - extra
        if cache.keys is None or after < 0:
            return False
        if cache.offset <= cache.max_size:
            return True  # nothing was ever overwritten
        in_order = cache._idx == cache.keys.shape[2]
        return bool(in_order and cache._idx - extra >= min(cache.max_size, after))
    if cache.__class__ is mlx_cache.ChunkedKVCache:
        after = cache.offset - extra
        return bool(after >= 0 and after - cache.start_position >= min(cache.chunk_size, after))
    return False


def _take_back(cache: Any, extra: int) -> None:
    if extra == 0:
        return
    if isinstance(cache, mlx_cache.ConcatenateKVCache):
        # Its own trim moves the offset, and the next update appends after the rows that should be gone.
        n = cache.offset - extra
        cache.keys, cache.values, cache.offset = cache.keys[..., :n, :], cache.values[..., :n, :], n
    elif isinstance(cache, mlx_cache.RotatingKVCache):
        if cache._idx == cache.keys.shape[2]:
            n = cache._idx - extra
            cache.keys, cache.values = cache.keys[..., :n, :], cache.values[..., :n, :]
        cache._idx -= extra
        cache.offset -= extra
    else:
        cache.offset -= extra


def _save(value: Any) -> Any:
    """A copy of everything but the numbers: new handles on the same arrays."""
    if isinstance(value, mx.array):
        return copy.copy(value)
    if isinstance(value, dict):
        return {k: _save(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_save(v) for v in value]
    if isinstance(value, tuple):
        return tuple(_save(v) for v in value)
    return value


def _arrays(value: Any) -> list[mx.array]:
    if isinstance(value, mx.array):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [a for v in value for a in _arrays(v)]
    return []
