"""Makes plain dataclasses out of what a JSON file says, and refuses what does not have their types.

Unknown fields are left out and missing ones get their defaults, so that files of older and newer versions are read.
Knows nothing of chats.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Wrong(ValueError):
    """The data are not of the type that was asked for."""


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def build(cls: type[T], value: Any) -> T:
    """An instance of a dataclass. Raises `Wrong` naming the field that does not fit."""
    if not isinstance(value, dict):
        raise Wrong(f"{cls.__name__} is no object")
    hints, given = _hints(cast(Any, cls)), {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.name in value:
            given[field.name] = _convert(hints[field.name], value[field.name], field.name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise Wrong(f"{field.name} is missing")
    return cls(**given)


def _convert(kind: Any, value: Any, name: str) -> Any:
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in inside:
            return None
        (kind,) = (k for k in inside if k is not type(None))
        return _convert(kind, value, name)
    if origin is tuple:
        if not isinstance(value, list):
            raise Wrong(f"{name} is no list")
        if len(inside) == 2 and inside[1] is Ellipsis:
            return tuple(_convert(inside[0], v, name) for v in value)
        if len(inside) != len(value):
            raise Wrong(f"{name} has another length")
        return tuple(_convert(k, v, name) for k, v in zip(inside, value, strict=True))
    if origin is dict:
        if not isinstance(value, dict):
            raise Wrong(f"{name} is no object")
        return {str(k): _convert(inside[1], v, name) for k, v in value.items()}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return build(kind, value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 2**1000 else math.inf
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not fits or (kind is float and not math.isfinite(value)) or (kind is int and abs(value) >= 2**62):
        raise Wrong(f"{name} is no {getattr(kind, '__name__', kind)}")
    return value
