"""One pass over a small tree of guesses: a chain, and beside some of its tokens another that might come instead.

Every row sees the text and its own ancestors, and stands at the place that its depth gives it. mlx-lm's models know
only rows in a row, so while the pass is built their two calls that know of places are told better: the rotation of
queries and keys (by depth, not by row) and the attention (by ancestry). Whether a model lets itself be told is tried
once (`able`); where it does not, drafts are chains. Afterwards the rows of the path that held are moved together in
the caches and the others go. Works for caches that grow by rows.

Which path holds needs no law of its own: the target's own draw at a row says which child follows, if one does, and
is the next token if none. So the text is the target's draws (SpecInfer, Miao et al. 2023, arXiv 2305.09781, shows the
walk for greedy drafts; with noise by place it is the same for sampled ones).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models import cache as mlx_cache

from .target import Target

CLOSE = 0.02  # of the largest logit; weights may be bfloat16


def depths(parents: Sequence[int]) -> list[int]:
    """The depth of each row of a pass: of row 0, the newest token, 0. `parents` are rows; row 0 has none (-1)."""
    found: list[int] = []
    for parent in parents:
        found.append(found[parent] + 1 if parent >= 0 else 0)
    return found


def ancestry(parents: Sequence[int]) -> np.ndarray[Any, Any]:
    """(rows, rows) bool: whether a row sees another, itself included."""
    seen = np.eye(len(parents), dtype=bool)
    for row, parent in enumerate(parents):
        if parent >= 0:
            seen[row] |= seen[parent]
    return seen


@contextmanager
def shaped(parents: Sequence[int]) -> Iterator[None]:
    """What models build meanwhile is a pass over this tree. Raises ValueError where attention has a mask of its own."""
    rope, attend = mx.fast.rope, mx.fast.scaled_dot_product_attention
    rows = len(parents)
    steps = mx.array(depths(parents))
    own = mx.array(ancestry(parents))

    def placed(x: mx.array, *args: Any, offset: Any = 0, **more: Any) -> Any:
        if x.ndim != 4 or x.shape[0] != 1 or x.shape[2] != rows or not isinstance(offset, int):
            return rope(x, *args, offset=offset, **more)
        turned = rope(x.transpose(2, 1, 0, 3), *args, offset=offset + steps, **more)
        return turned.transpose(2, 1, 0, 3)

    def attended(q: mx.array, k: mx.array, v: mx.array, *, mask: Any = None, **more: Any) -> Any:
        if q.shape[2] != rows:
            return attend(q, k, v, mask=mask, **more)
        if not (mask is None or (isinstance(mask, str) and mask == "causal")):
            raise ValueError("this model's attention has a mask of its own")
        before = mx.ones((rows, k.shape[2] - rows), mx.bool_)
        return attend(q, k, v, mask=mx.concatenate([before, own], axis=1)[None, None], **more)

    mx.fast.rope, mx.fast.scaled_dot_product_attention = placed, attended  # type: ignore[assignment]
    try:
        yield
    finally:
        mx.fast.rope, mx.fast.scaled_dot_product_attention = rope, attend


def able(target: Target) -> bool:
    """Whether the target checks trees: its caches grow, and a tree's rows give what chains give."""
    caches = mlx_cache.make_prompt_cache(target.model)
    if not caches or any(type(c) is not mlx_cache.KVCache for c in caches) or target.kv_bits is not None:
        return False
    text, tree, parents = [1, 2, 3, 4], [5, 6, 7, 8], [-1, 0, 1, 0]

    def chain(ids: list[int]) -> mx.array:
        rows: mx.array = target.model(mx.array([text + ids]), cache=mlx_cache.make_prompt_cache(target.model))[0, 4:]
        return rows.astype(mx.float32)

    try:
        target.model(mx.array([text]), cache=caches)
        with shaped(parents):
            got = target.model(mx.array([tree]), cache=caches)[0].astype(mx.float32)
        first, second = chain([5, 6, 7]), chain([5, 8])
    except (ValueError, TypeError, AttributeError, RuntimeError):
        return False
    expected = mx.concatenate([first, second[1:]])
    return bool(mx.max(mx.abs(got - expected)) <= CLOSE * mx.max(mx.abs(expected)))


def follow(parents: Sequence[int], ids: Sequence[int], own: Sequence[int]) -> list[int]:
    """The rows that hold, row 0 first: from each row the child that is the target's own token `own` there. `ids` are
    the tokens of the rows."""
    path = [0]
    while True:
        row = path[-1]
        held = [child for child, parent in enumerate(parents) if parent == row and ids[child] == own[row]]
        if not held:
            return path
        path.append(held[0])
