"""A model together with its caches and the tokens that are in them.

The same class serves the target and a draft model. It knows which tokens its caches hold, so a new prompt
costs only what differs from the last one. Where a cache cannot take single rows back (see cache.py), kept
rows that were lost with rejected ones are run again in front of the next pass. It knows nothing of drafts,
sampling or text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from .cache import Caches, Mark, evaluate, try_quantized
from .hidden import Hidden

PREFILL_STEP = 512
AGAIN_ALONE = 8  # rows to be run again get a pass of their own from here on, so that they are not lost twice
MARKS = 4  # states kept at turn boundaries, for caches that cannot go back to any length


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
    """`tokens` are the ids that count as read, in order. All of them are in the caches but the last
    `behind`, which will be run in front of the next pass."""

    def __init__(
        self,
        model: nn.Module,
        forward: Callable[..., Any] | None = None,
        *,
        kv_bits: int | None = None,
        kv_start: int = 0,
    ) -> None:
        """`forward(ids, cache=...)` is the model, or stands for it: with another head, say. From `kv_start` tokens on
        the keys and values are kept in `kv_bits` bits. Raises `Problem` if the model cannot work with that."""
        self.model = model
        self._forward: Callable[..., Any] = forward or model
        self.kv_bits, self._kv_start = kv_bits, kv_start
        if kv_bits is not None:
            try_quantized(model, kv_bits)
        self.caches = Caches(model)
        self.tokens: list[int] = []
        self._marks: list[Mark] = []
        self.hidden: Hidden | None = None  # set where a drafter reads the states
        self.trees = False  # set where passes over trees were tried (tree.able)
        # Shapes are known before anything is computed, so this pass costs nothing.
        self.vocabulary = int(model(mx.zeros((1, 1), mx.uint32)).shape[-1])

    @property
    def behind(self) -> int:
        """Tokens to be run again in front of the next pass."""
        return len(self.tokens) - self.caches.length

    def _missing(self) -> list[int]:
        """The last tokens, which the caches lack."""
        return self.tokens[self.caches.length :]

    def reuse(self, prompt: Sequence[int], agreed: int = 0) -> int:
        """Keep what `prompt` shares with what is cached; returns how many tokens that is."""
        n = common_prefix(self.tokens, prompt, agreed)
        self.keep(n)
        del self.tokens[self.caches.length :]
        return len(self.tokens)

    def remember(self) -> None:
        """A turn boundary: a later prompt may want to go back to here."""
        if self.caches.growing:
            return
        self._marks = [m for m in self._marks if m.length < self.caches.length][1 - MARKS :]
        self._marks.append(self.caches.mark())

    def prefill(self, tokens: Sequence[int], step: int = PREFILL_STEP) -> Iterator[int]:
        """Append `tokens` in chunks, computing no logits; yields the number done after each chunk."""
        done = 0
        while done < len(tokens):
            chunk = list(tokens[done : done + step])
            self._pass(mx.array(self._missing() + chunk))
            evaluate(self.caches)
            mx.clear_cache()
            self.tokens += chunk
            done += len(chunk)
            yield done

    @property
    def uniform(self) -> int:
        """Rows that the next pass may have if all are to see what a plain pass would: the keys and values are
        quantized between two passes, not within one."""
        if self.kv_bits is None or self.caches.length >= self._kv_start:
            return 1 << 30
        return self._kv_start - self.caches.length

    def _quantize(self) -> None:
        """Keep the keys and values in few bits, if it is time to."""
        if self.kv_bits is not None and self.caches.length >= self._kv_start:
            self.caches.quantize(self.kv_bits)

    def _pass(self, rows: mx.array) -> mx.array:
        self._quantize()
        if self.hidden:
            self.hidden.listen()
        logits: mx.array = self._forward(rows[None], cache=self.caches.layers)[0]
        if self.hidden:
            self.hidden.ran(self.caches.length, rows.shape[0])
        self.caches.ran(rows.shape[0])
        return logits

    def begin(self, *, single: bool = False) -> None:
        """Rows that may be taken back come next: in one `run`, or (`single`) in several of one row."""
        if self.behind >= AGAIN_ALONE:
            # Not evaluated here: it is computed with the pass that follows.
            self._pass(mx.array(self._missing(), mx.uint32))
        self.caches.begin(single=single)

    def run(self, rows: mx.array, ids: Sequence[int] | None = None) -> mx.array:
        """One pass over `rows` (n,), not yet evaluated; returns the logits (n, vocabulary).

        `ids` are the same tokens where the host knows them already. Where it does not (a draft that is still
        being computed), the caller settles them with `keep`.
        """
        n = rows.shape[0]
        if self.behind:
            rows = mx.concatenate([mx.array(self._missing(), mx.uint32), rows.astype(mx.uint32)])
        self.tokens += list(ids) if ids is not None else [-1] * n
        return self._pass(rows)[-n:]

    def snapshot(self) -> Any:
        """The caches as they are now, whether computed or not, and how many tokens count as read; for `restore`."""
        self._quantize()  # a snapshot fits only the caches that it was taken of
        return len(self.tokens), self.caches.snapshot(), self.hidden.snapshot() if self.hidden else []

    def restore(self, snapshot: Any) -> None:
        """Back, or forth, to a snapshot. Tokens that are not known are named by `keep`."""
        length, caches, hidden = snapshot
        self.caches.restore(caches)
        if self.hidden:
            self.hidden.restore(hidden)
        del self.tokens[length:]
        self.tokens += [-1] * (length - len(self.tokens))

    def keep(self, length: int, tail: Sequence[int] = ()) -> None:
        """Keep the first `length` tokens; `tail` names the last of them, where `run` did not know them."""
        if self.hidden:
            self.hidden.keep(length)
        if length < self.caches.length:
            self._marks = [m for m in self._marks if m.length <= length]
            try:
                self.caches.keep(length, self._marks)
            except LookupError:
                self.caches = Caches(self.model)
        del self.tokens[length:]
        if tail:
            self.tokens[length - len(tail) :] = tail

    def pick(self, start: int, rows: Sequence[int]) -> None:
        """Of the last pass, which began at `start`, keep these rows; `keep` names their tokens."""
        if list(rows) == list(range(len(rows))):
            self.keep(start + len(rows))
            return
        self.caches.pick(start, rows)
        if self.hidden:
            self.hidden.pick(start, list(rows))
        del self.tokens[self.caches.length :]

    def reset(self) -> None:
        """Forget everything."""
        self.caches = Caches(self.model)
        self.tokens = []
        self._marks = []
        if self.hidden:
            self.hidden.keep(0)
