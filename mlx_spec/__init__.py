"""Speculative decoding on MLX: exact text, fewer passes, every round visible.

    from mlx_lm import load
    from mlx_spec import generate, stream_generate

This package knows no window, no settings file and no network. Importing it does not import mlx: what needs
mlx is imported when it is first asked for, so a face that only needs `mlx_spec.events` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .events import (
    DrafterSettings,
    Finished,
    Message,
    Problem,
    PromptProgress,
    Round,
    SamplingSettings,
    Span,
)

if TYPE_CHECKING:
    from .api import GenerationResponse, generate, stream_generate
    from .engine import Engine, load_engine

__all__ = [
    "DrafterSettings",
    "Engine",
    "Finished",
    "GenerationResponse",
    "Message",
    "Problem",
    "PromptProgress",
    "Round",
    "SamplingSettings",
    "Span",
    "generate",
    "load_engine",
    "stream_generate",
]

_LATE = {
    "Engine": "engine",
    "GenerationResponse": "api",
    "generate": "api",
    "load_engine": "engine",
    "stream_generate": "api",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        import importlib

        return getattr(importlib.import_module(f".{_LATE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
