"""What Apple's GPUs are known to do with a pass of several rows, as tables.

Two kernels decide how wide a pass may be before it stops being cheap. The product with quantized weights reads
the weights once for a few rows, and then again for every few more; where that begins depends on the chip. And the
attention of few rows has a fast path which wants rows x (query heads / key heads) to be at most 32.

These are first guesses: what passes really cost is measured while the model writes (controller.py). Sources:
mlx 0.32, backend/metal/quantized.cpp and scaled_dot_product_attention.cpp. No Apple GPU has confirmed them here.
"""

from __future__ import annotations

import math
import re
from typing import Any

import mlx.core as mx

FAST_ROWS = 8  # query rows that the vector kernel takes
FAST_PRODUCT = 32  # rows x query heads / key heads
SPLIT_MOST = 16  # rows; wider passes are prefill, for which the full kernel is right
WIDE_TILE = 5  # rows that one trip of the weights serves, from generation 15 on (M3)
FIRST_WIDE = 15

# Rows from which the matrix kernel takes over, by the inner dimension (up to 2048, up to 4096, larger).
MATRIX = {17: (33, 25, 13), 16: (13, 15, 13), 15: (13, 15, 13), 14: (14, 10, 6), 13: (14, 10, 6)}
MATRIX_OLD = (18, 12, 10)
MATRIX_ULTRA = (32, 18, 12)


def generation(architecture: str) -> tuple[int, bool]:
    """The GPU's generation and whether it is of the largest kind, of "applegpu_g16s"; (0, False) for others.
    13 is M1, 14 M2, 15 M3, 16 M4, 17 M5."""
    found = re.fullmatch(r"applegpu_g(\d+)([a-z]?)", architecture)
    return (int(found[1]), found[2] == "d") if found else (0, False)


def matrix_from(gpu: int, largest: bool, inner: int) -> int:
    """Rows from which a product with quantized weights of `inner` columns is a matrix product."""
    limits = MATRIX_ULTRA if largest and gpu < 17 else MATRIX.get(min(gpu, 17), MATRIX_OLD)
    return limits[0 if inner <= 2048 else 1 if inner <= 4096 else 2]


def weight_trips(rows: int, gpu: int, largest: bool, inner: int) -> int:
    """How often the weights are read for a pass of `rows` rows: the floor of its cost in plain passes."""
    if rows >= matrix_from(gpu, largest, inner):
        return math.ceil(matrix_from(gpu, largest, inner) / (WIDE_TILE if gpu >= FIRST_WIDE else 1))
    return math.ceil(rows / WIDE_TILE) if gpu >= FIRST_WIDE else rows


def pass_cost(rows: int, gpu: int, largest: bool, inner: int) -> float:
    """A guess at a pass of `rows` rows in plain passes, half way to the floor: only what is tried gets measured."""
    return 1 + 0.5 * (weight_trips(rows, gpu, largest, inner) - 1)


def fast_rows(query_heads: int, key_heads: int) -> int:
    """Rows that attention takes on its fast path."""
    return max(1, min(FAST_ROWS, FAST_PRODUCT * key_heads // query_heads))


def groups(rows: int, query_heads: int, key_heads: int) -> list[int]:
    """How a pass of `rows` rows is cut for attention: sizes, in order. One group where cutting gains nothing."""
    fast = fast_rows(query_heads, key_heads)
    if rows <= fast or rows > SPLIT_MOST or fast < 2:
        return [rows]
    count = math.ceil(rows / fast)
    small, more = divmod(rows, count)
    return [small + 1] * more + [small] * (count - more)


def split_attention(
    attend: Any, q: mx.array, k: mx.array, v: mx.array, *, scale: float, mask: Any = None, **more: Any
) -> Any:
    """`attend` (mx.fast.scaled_dot_product_attention) group by group, each with the keys and the mask of its rows.

    q: (batch, query heads, rows, dim); k, v: (batch, key heads, length, dim). Equal to one call.
    """
    rows, length = q.shape[2], k.shape[2]
    sizes = groups(rows, q.shape[1], k.shape[1])
    if len(sizes) == 1:
        return attend(q, k, v, scale=scale, mask=mask, **more)
    parts, start = [], 0
    for size in sizes:
        end = start + size
        if isinstance(mask, str):  # "causal": the last row sees all keys, the one before it all but one
            seen = length - (rows - end)
            part = attend(q[:, :, start:end], k[:, :, :seen], v[:, :, :seen], scale=scale, mask=mask, **more)
        else:
            own = mask if mask is None or mask.shape[-2] == 1 else mask[..., start:end, :]
            part = attend(q[:, :, start:end], k, v, scale=scale, mask=own, **more)
        parts.append(part)
        start = end
    return mx.concatenate(parts, axis=2)


def this_gpu() -> tuple[int, bool]:
    """`generation` of this machine; (0, False) where MLX has no Apple GPU."""
    if not mx.metal.is_available():
        return 0, False
    return generation(str(mx.device_info().get("architecture", "")))


def install() -> bool:
    """Let mlx-lm's models use `split_attention`, on Apple's GPUs alone; returns whether it did. Once is enough."""
    if not mx.metal.is_available() or getattr(mx.fast, "_outrider_split", False):
        return False
    attend = mx.fast.scaled_dot_product_attention

    def scaled_dot_product_attention(q: mx.array, k: mx.array, v: mx.array, **more: Any) -> Any:
        return split_attention(attend, q, k, v, **more)

    mx.fast.scaled_dot_product_attention = scaled_dot_product_attention
    mx.fast._outrider_split = True  # type: ignore[attr-defined]
    return True
