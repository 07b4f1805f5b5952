"""A model together with its caches and the tokens that are in them.

The same class serves the target and a draft model. It knows which tokens its caches hold, so a new prompt
costs only what differs from the last one. It knows nothing of drafts, sampling or text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mlx.core as mx
import mlx.nn as nn

from .cache import Caches, evaluate

PREFILL_STEP = 512


def common_prefix(a: Sequence[int], b: Sequence[int], start: int = 0) -> int:
    """The length of the longest common prefix, if the first `start` tokens are known to agree."""
    n = min(len(a), len(b))
    i = min(start, n)
    # Whole blocks are compared at C speed; a conversation may be 100,000 tokens long.
    while i + 256 <= n and a[i : i + 256] == b[i : i + 256]:
        i += 256
    while i < n and a[i] == b[i]:
        i += 1
    return i


class Target:
    """`tokens` are the ids whose rows are in the caches, in order."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.caches = Caches(model)
        self.tokens: list[int] = []
        # Shapes are known before anything is computed, so this pass costs nothing.
        self.vocabulary = int(model(mx.zeros((1, 1), mx.uint32)).shape[-1])

    def reuse(self, prompt: Sequence[int], agreed: int = 0) -> int:
        """Keep the rows that `prompt` shares with what is cached; returns how many those are."""
        n = common_prefix(self.tokens, prompt, agreed)
        self.keep(n)
        return n

    def prefill(self, tokens: Sequence[int], step: int = PREFILL_STEP) -> Iterator[int]:
        """Append `tokens` in chunks, computing no logits; yields the number done after each chunk."""
        done = 0
        while done < len(tokens):
            chunk = list(tokens[done : done + step])
            self.model(mx.array([chunk]), cache=self.caches.layers)
            evaluate(self.caches)
            mx.clear_cache()
            self.tokens += chunk
            done += len(chunk)
            yield done

    def run(self, rows: mx.array, ids: Sequence[int] | None = None) -> mx.array:
        """One pass over `rows` (n,), not yet evaluated; returns the logits (n, vocabulary).

        `ids` are the same tokens where the host knows them already. Where it does not (a draft that is still
        being computed), the caller settles them with `keep`.
        """
        self.tokens += list(ids) if ids is not None else [-1] * rows.shape[0]
        return self.model(rows[None], cache=self.caches.layers)[0]

    def keep(self, length: int, tail: Sequence[int] = ()) -> None:
        """Keep the first `length` tokens; `tail` names the last of them, where `run` did not know them."""
        self.caches.keep(length)
        del self.tokens[length:]
        if tail:
            self.tokens[length - len(tail) :] = tail

    def reset(self) -> None:
        """Forget everything."""
        self.caches = Caches(self.model)
        self.tokens = []
