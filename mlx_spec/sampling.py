"""From logits to the distribution that a token is drawn from, and the draw itself.

One code path serves plain decoding, verification and drafting, so that no two of them can disagree. The
order is mlx-lm's: logit bias, penalties, then top-p, min-p and top-k on the untempered distribution, then
temperature. Noise is keyed by (seed, absolute position, stream): the draw at a position does not depend on
how many rows shared its pass, nor on who drafted what.

This module knows nothing of caches, drafts or models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from .events import Problem, SamplingSettings

# Independent streams of noise at one position.
DRAW, ACCEPT, RESIDUAL, DRAFT = range(4)

_MASK = (1 << 64) - 1


def check(settings: SamplingSettings) -> None:
    """Raise `Problem` naming the first setting that is out of its range."""
    s = settings
    limits = [
        ("temperature", s.temperature, 0 <= s.temperature <= 100, "0 to 100"),
        ("top_p", s.top_p, 0 < s.top_p <= 1, "above 0, up to 1"),
        ("top_k", s.top_k, s.top_k >= 0, "0 (off) or more"),
        ("min_p", s.min_p, 0 <= s.min_p < 1, "0 up to, not including, 1"),
        ("repetition_penalty", s.repetition_penalty, 0 < s.repetition_penalty <= 100, "above 0 (1 is off)"),
        ("presence_penalty", s.presence_penalty, abs(s.presence_penalty) <= 100, "-100 to 100"),
        ("frequency_penalty", s.frequency_penalty, abs(s.frequency_penalty) <= 100, "-100 to 100"),
        ("penalty_context", s.penalty_context, s.penalty_context >= 0, "0 (everything) or more"),
        ("max_tokens", s.max_tokens, s.max_tokens is None or s.max_tokens > 0, "1 or more, or none"),
    ]
    for name, value, fine, allowed in limits:
        if not fine or (isinstance(value, float) and not math.isfinite(value)):
            raise Problem(f"The sampling setting {name} is {value}.", f"Set it to {allowed}.")


class History:
    """The committed tokens and, where a penalty needs them, how often each occurs in the penalty window."""

    def __init__(self, tokens: Sequence[int], vocabulary: int, settings: SamplingSettings) -> None:
        self.tokens = list(tokens)
        self.vocabulary = vocabulary
        self.window = settings.penalty_context
        self.penalised = (
            settings.repetition_penalty != 1 or settings.presence_penalty != 0 or settings.frequency_penalty != 0
        )
        self._counts = np.zeros(vocabulary, np.int32)
        if self.penalised:
            seen = self.tokens[-self.window :] if self.window else self.tokens
            np.add.at(self._counts, [t for t in seen if t < vocabulary], 1)

    def __len__(self) -> int:
        return len(self.tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """Commit `tokens`; those that leave the window are no longer counted."""
        for token in tokens:
            self.tokens.append(token)
            if self.penalised:
                self._counts[token] += 1
                if self.window and len(self.tokens) > self.window:
                    self._counts[self.tokens[-1 - self.window]] -= 1

    def counts(self, draft: mx.array | None) -> mx.array | None:
        """Occurrences before each row: int32 (1 + len(draft), vocabulary), or None if no penalty is on.

        Row i sees the committed text and `draft[:i]`. The draft may still be uncomputed on the device; its
        values are not read here. With a window, each drafted token pushes the oldest one out.
        """
        if not self.penalised:
            return None
        base = mx.array(self._counts)[None]
        n = 0 if draft is None else draft.shape[0]
        if draft is None or n == 0:
            return base
        size = self._counts.shape[0]
        change = (draft[:, None] == mx.arange(size)[None]).astype(mx.int32)
        if self.window:
            start = len(self.tokens) - self.window
            leaving = [self.tokens[start + i] if 0 <= start + i < len(self.tokens) else -1 for i in range(n)]
            change = change - (mx.array(leaving)[:, None] == mx.arange(size)[None]).astype(mx.int32)
        return mx.concatenate([base, base + mx.cumsum(change, axis=0)])


def process(
    logits: mx.array,
    settings: SamplingSettings,
    counts: mx.array | None = None,
    custom: Callable[[mx.array], mx.array] | None = None,
) -> mx.array:
    """Log-probabilities of the processed distribution, float32, same shape as `logits` (rows, vocabulary).

    Tokens outside the support are -inf. At temperature 0 the result is not normalised: only its argmax has
    a meaning. `counts` is what `History.counts` gave for these rows; `custom` changes the
    logits of all rows after the penalties.
    """
    x = logits.astype(mx.float32)
    if settings.logit_bias:
        ids = mx.array([i for i, _ in settings.logit_bias])
        x = x.at[:, ids].add(mx.array([b for _, b in settings.logit_bias], mx.float32))
    if counts is not None:
        counts = counts[:, : x.shape[-1]]
        seen = counts > 0
        r = settings.repetition_penalty
        if r != 1:
            x = mx.where(seen, mx.where(x < 0, x * r, x / r), x)
        if settings.presence_penalty:
            x = x - settings.presence_penalty * seen.astype(mx.float32)
        if settings.frequency_penalty:
            x = x - settings.frequency_penalty * counts.astype(mx.float32)
    if custom is not None:
        x = custom(x)
    if settings.temperature == 0:
        return x
    x = x - mx.logsumexp(x, axis=-1, keepdims=True)
    if settings.top_p < 1:
        down = -mx.sort(-x, axis=-1)
        p = mx.exp(down)
        inside = mx.cumsum(p, axis=-1) - p < settings.top_p
        least = mx.min(mx.where(inside, down, mx.inf), axis=-1, keepdims=True)
        x = mx.where(x >= least, x, -mx.inf)
    if settings.min_p > 0:
        x = mx.where(x >= mx.max(x, axis=-1, keepdims=True) + math.log(settings.min_p), x, -mx.inf)
    if 0 < settings.top_k < x.shape[-1]:
        least = mx.min(mx.topk(x, settings.top_k, axis=-1), axis=-1, keepdims=True)
        x = mx.where(x >= least, x, -mx.inf)
    x = x / settings.temperature
    return x - mx.logsumexp(x, axis=-1, keepdims=True)


def key(seed: int, position: int, stream: int = DRAW) -> mx.array:
    """A random key for one position and stream, mixed by splitmix64 so that neighbours are unrelated."""
    z = (seed * 0x9E3779B97F4A7C15 + position * 4 + stream + 1) & _MASK
    for _ in range(2):
        z = (z + 0x9E3779B97F4A7C15) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        z ^= z >> 31
    return mx.array([z >> 32, z & 0xFFFFFFFF], mx.uint32)


def gumbel(seed: int, position: int, vocabulary: int, stream: int = DRAW) -> mx.array:
    """Gumbel noise for one position, float32 (vocabulary,)."""
    return mx.random.gumbel((vocabulary,), key=key(seed, position, stream))


def draw(logp: mx.array, seed: int, position: int, temperature: float, stream: int = DRAW) -> mx.array:
    """One token a row, uint32 (rows,): row i is drawn with the noise of `position + i`."""
    return draw_at(logp, seed, range(position, position + logp.shape[0]), temperature, stream)


def draw_at(logp: mx.array, seed: int, positions: Sequence[int], temperature: float, stream: int = DRAW) -> mx.array:
    """One token a row, uint32 (rows,), each drawn with the noise of its position.

    argmax(log p + Gumbel) is a sample from p (the Gumbel-max trick); at temperature 0 it is argmax(log p).
    """
    if temperature > 0:
        size = logp.shape[-1]
        logp = logp + mx.stack([gumbel(seed, position, size, stream) for position in positions])
    return mx.argmax(logp, axis=-1)
