"""Pairs to begin with, by the memory of the machine. Their ids are those of public listings; sizes are estimates."""

from __future__ import annotations

from dataclasses import dataclass

from .memory import available
from .repo import Fit, fit


@dataclass(frozen=True, slots=True)
class Model:
    """A model on the hub: its size, and what its cache needs by layers, key and value heads, and width of a head."""

    repo: str
    gb: float
    layers: int
    heads: int
    width: int
    licence: str = "apache-2.0"

    @property
    def config(self) -> dict[str, int]:
        """As much of its config as the caches need."""
        return {"num_hidden_layers": self.layers, "num_key_value_heads": self.heads, "head_dim": self.width}


@dataclass(frozen=True, slots=True)
class Recommended:
    """A target with its draft model (None where drafting by a model does not pay), and why it is here."""

    target: Model
    draft: Model | None
    why: str

    def fit(self, free: int | None = None) -> Fit:
        draft, draft_config = self.draft, self.draft.config if self.draft else None
        return fit(self.target.config, _bytes(self.target), _bytes(draft) if draft else 0, draft_config, free=free)


def _bytes(model: Model) -> int:
    return int(model.gb * 1e9)


SMALL = Model("mlx-community/Qwen3-0.6B-4bit", 0.35, 28, 8, 128)
LLAMA_1B = Model("mlx-community/Llama-3.2-1B-Instruct-4bit", 0.7, 16, 8, 64, "llama3.2")
ALL = (
    Recommended(SMALL, None, "Runs on any Mac; for trying."),
    Recommended(Model("mlx-community/Qwen3-1.7B-4bit", 0.97, 28, 8, 128), None, "Quick, for short tasks."),
    Recommended(Model("mlx-community/Qwen3-4B-4bit", 2.3, 36, 8, 128), None, "A good all-rounder for 8 GB of memory."),
    Recommended(Model("mlx-community/Qwen3-8B-4bit", 4.6, 36, 8, 128), None, "The usual choice for 16 GB."),
    Recommended(
        Model("mlx-community/Qwen3-14B-4bit", 8.3, 40, 8, 128), SMALL, "Better text; a draft model pays from here on."
    ),
    Recommended(
        Model("mlx-community/Qwen3-30B-A3B-4bit", 17.2, 48, 4, 128),
        None,
        "Large, but only 3B of it work on a word: fast.",
    ),
    Recommended(
        Model("mlx-community/Qwen3-32B-4bit", 18.4, 64, 8, 128), SMALL, "For 36 GB and more; gains most by drafts."
    ),
    Recommended(
        Model("mlx-community/Llama-3.3-70B-Instruct-4bit", 39.7, 80, 8, 128, "llama3.3"),
        LLAMA_1B,
        "For 64 GB and more, with a 1B model ahead.",
    ),
)


def recommended(free: int | None = None, most: int = 4) -> list[Recommended]:
    """The largest that fit well, largest first; the smallest of all where none does."""
    there = available() if free is None else free
    fitting = [one for one in ALL if one.fit(there).verdict == "fits"]
    return sorted(fitting, key=lambda one: -one.target.gb)[:most] or [ALL[0]]
