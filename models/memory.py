"""What a model needs and what the machine has, before anything is loaded."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlx_spec.events import Problem

from .folder import header, read_json, weight_files

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U32": 4, "U8": 1, "I8": 1}
CHUNK = 512  # rows of a prefill pass
KV_START = 5000  # tokens of a conversation from which on keys and values are quantized, where they are
KV_GROUP = 64  # numbers that share a scale and a bias then


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes. `working` is what a prefill pass takes beside weights and caches."""

    weights: int
    draft_weights: int
    kv: int
    draft_kv: int
    working: int

    @property
    def total(self) -> int:
        return self.weights + self.draft_weights + self.kv + self.draft_kv + self.working


def weights_of(folder: Path, dtype: str | None = None) -> int:
    """Bytes of the weights as stored, or widened to float32."""
    total = 0
    bits = {}
    config = read_json(folder / "config.json")
    quantization = config.get("quantization") or {}
    for file in weight_files(folder):
        for name, tensor in header(file).items():
            if name == "__metadata__":
                continue
            size = math.prod(tensor["shape"])
            kind = tensor["dtype"]
            if dtype != "float32":
                total += size * SIZES.get(kind, 4)
            elif kind == "U32":  # packed codes
                stem = name.removesuffix(".weight")
                entry = quantization.get(stem)
                bits[stem] = (entry if isinstance(entry, dict) else quantization).get("bits", 4)
                total += size * 32 // bits[stem] * 4
            elif not name.endswith((".scales", ".biases")):
                total += size * 4
    return total


def kv_of(config: dict[str, Any], context: int, width: int, kv_bits: int | None = None) -> int:
    """Bytes of key and value caches for `context` tokens at `width` bytes a number, or kept in `kv_bits` bits."""
    text = config.get("text_config", config)
    heads = text.get("num_key_value_heads") or text.get("num_attention_heads") or 1
    size = text.get("head_dim") or text.get("hidden_size", 0) // (text.get("num_attention_heads") or 1)
    numbers = 2 * text.get("num_hidden_layers", 0) * heads * size * context
    if kv_bits is None or context <= KV_START:
        return int(numbers * width)
    return int(numbers * (kv_bits / 8 + 2 * width / KV_GROUP))


def need(
    target: Path, draft: Path | None, context: int, dtype: str | None = None, kv_bits: int | None = None
) -> MemoryNeed:
    """Bytes that a target and maybe a draft model take at a full context of `context` tokens.

    `kv_bits` is what the target's keys and values are kept in; a draft model's stay as they are.
    """
    return need_of(
        read_json(target / "config.json"),
        weights_of(target, dtype),
        read_json(draft / "config.json") if draft else {},
        weights_of(draft, dtype) if draft else 0,
        context,
        4 if dtype == "float32" else 2,
        kv_bits,
    )


def need_of(
    config: dict[str, Any],
    weights: int,
    draft_config: dict[str, Any],
    draft_weights: int,
    context: int,
    width: int = 2,
    kv_bits: int | None = None,
) -> MemoryNeed:
    """The same for models that need not be here: their configs, bytes of weights, and bytes a number of the caches.

    No `draft_config` and no `draft_weights`: no draft model. A draft model whose config is not known counts by its
    weights alone.
    """
    vocabulary = config.get("text_config", config).get("vocab_size", 0)
    hidden = config.get("text_config", config).get("intermediate_size", 0)
    return MemoryNeed(
        weights=weights,
        draft_weights=draft_weights,
        kv=kv_of(config, context, width, kv_bits),
        draft_kv=kv_of(draft_config, context, width) if draft_config else 0,
        working=CHUNK * (4 * hidden) * width + 32 * vocabulary * 4,
    )


def available() -> int:
    """Bytes that a new process may take: on a Mac three quarters of all memory (Metal's own limit is about
    that), on Linux what is free or can be freed, within the control group's limit."""
    if sys.platform == "darwin":
        asked = subprocess.run(["sysctl", "-n", "hw.memsize"], capture_output=True, text=True, check=True)
        return int(asked.stdout) * 3 // 4
    free = 1 << 62
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        free = min(free, limit - int((group / "memory.current").read_text()))
    return free


def check(
    target: Path, draft: Path | None, context: int, dtype: str | None = None, kv_bits: int | None = None
) -> MemoryNeed:
    """Raise `Problem` with the figures if the models do not fit; returns the need if they do."""
    asked, there = need(target, draft, context, dtype, kv_bits), available()
    if asked.total <= there:
        return asked
    gb = 1e-9
    parts = f"{asked.weights * gb:.1f} GB of weights"
    if draft:
        parts += f", {asked.draft_weights * gb:.1f} GB for the draft model"
    parts += f", {(asked.kv + asked.draft_kv) * gb:.1f} GB for a context of {context:,} tokens"
    remedies = ["choose a smaller model"]
    if draft and asked.total - asked.draft_weights - asked.draft_kv <= there:
        remedies.insert(0, "go without the draft model")
    small = need(target, draft, context, dtype, 4)
    if kv_bits is None and small.total <= there:
        remedies.insert(0, "keep the keys and values in 4 or 8 bits")
    if asked.total - asked.kv - asked.draft_kv <= there:
        remedies.insert(0, "set a shorter context length")
    raise Problem(
        f"There is not enough memory: {asked.total * gb:.1f} GB are needed ({parts}), {there * gb:.1f} GB are free.",
        " or ".join(remedies).capitalize() + ".",
    )
