"""Which architectures can be run at all: mlx-lm's, by the names of its files. Imports nothing of it."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

# Methods of quantization besides mlx's own that mlx-lm reads.
METHODS = frozenset(("bitnet", "mxfp4", "mxfp8", "compressed-tensors", "modelopt", "awq", "gptq", "fp8"))
# Classes of heads, which draft for a model and are none.
HEADS = ("eagle", "medusa", "dflash", "dspark", "speculator", "assistant", "mtp")


@lru_cache(maxsize=1)
def architectures() -> frozenset[str]:
    """The model_types that mlx-lm has a file for, and those that it takes for others. Empty: no mlx-lm here."""
    spec = importlib.util.find_spec("mlx_lm")
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        return frozenset()
    folder = Path(next(iter(places)))
    names = {f.stem for f in (folder / "models").glob("*.py")}
    for node in ast.parse((folder / "utils.py").read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "MODEL_REMAPPING" for t in node.targets):
            names |= set(ast.literal_eval(node.value))
    return frozenset(names)


def why_not(config: Mapping[str, Any]) -> str:
    """Why a model of this config.json cannot be loaded, as a sentence; "" where nothing speaks against it."""
    kind = config.get("model_type")
    classes = str(config.get("architectures") or "").lower()
    if any(head in classes for head in HEADS) or "dflash_config" in config or "eagle_config" in config:
        return "It is a head that drafts for a model, no model by itself."
    if not isinstance(kind, str):
        return "Its config.json names no model_type, so it is no language model."
    if architectures() and kind not in architectures():
        return f'MLX has no architecture "{kind}" yet.'
    method = config.get("quantization_config")
    if isinstance(method, Mapping) and "quantization" not in config:
        name = str(method.get("quant_method", ""))
        if name and name not in METHODS:
            return f'Its weights are packed by "{name}", which MLX does not read.'
    return ""
