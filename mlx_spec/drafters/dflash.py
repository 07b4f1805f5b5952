"""DFlash drafters: all tokens of a draft come out of one pass of a small network, whose context is the target's states.

Chen et al. 2026 (arXiv 2602.06036). The context rows of a place are made once, when the target's state there is known
for good, and kept as keys and values; the rows of a block are never kept. So nothing has to be taken back after a
rejection, and a block stands behind the last place that the target has run, its first row the newest token.

How many rows a block has is asked for each time. It need not be as many as the network was trained with, but rows see
those behind them, so a shorter block is another guess, not the beginning of a longer one.

Which token comes is drawn from each row's law in turn. In a plain DFlash they do not depend on each other; in DSpark
and DFlash 2 (see dflash_net.py) each is changed by the draft before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache, make_prompt_cache

from ..anatomy import Anatomy, Taps, project, some_rows, weight_bytes
from ..hidden import Hidden
from ..precision import suit
from ..sampling import History
from ..target import PREFILL_STEP, Target, common_prefix
from .base import Context, Draft, Offer
from .chain import draft_chain, lag
from .dflash_files import Loaded
from .dflash_net import DFlashNet, See, visible
from .feature import reads, spread

WINDOW = 4096  # context rows that are kept: more cost time and memory, and gain nothing (reported for DSpark's heads)
SLACK = 256  # rows more before the oldest are dropped, for that copies the rest
LEAST = 0.3  # a draft that is less likely to hold, as DSpark's confidence head says, is not made
CLOSE = 0.02


class Rows:
    """The context rows of a network as keys and values, for each layer the newest that it may see. `places` are those
    of the rows in the layer that has most."""

    def __init__(self, net: DFlashNet) -> None:
        self._net = net
        self._most = [min(WINDOW, WINDOW if w is None else w - 1) for w in net.shape.windows]
        self.clear()

    def clear(self) -> None:
        self.places: list[int] = []
        self.layers = [KVCache() for _ in self._net.layers]

    @property
    def stop(self) -> int:
        """The place behind the last row."""
        return self.places[-1] + 1 if self.places else 0

    def feed(self, fused: mx.array, start: int) -> None:
        """Add context rows (n, d), the first of them at the place `start`, behind all that there are."""
        self.places += range(start, start + fused.shape[0])
        for layer, cache, most in zip(self._net.layers, self.layers, self._most, strict=True):
            cache.update_and_fetch(*layer.self_attn.remember(fused[None], start))
            if cache.offset > most + SLACK:
                end = cache.offset
                cache.keys, cache.values = cache.keys[..., end - most : end, :], cache.values[..., end - most : end, :]
                cache.offset = most
        del self.places[: len(self.places) - max(c.offset for c in self.layers)]

    def keep(self, length: int) -> None:
        """The rows of the places from `length` on are no more. A layer that does not see far has fewer then, until
        there are new ones."""
        gone = len(self.places) - bisect_left(self.places, length)
        del self.places[len(self.places) - gone :]
        for cache in self.layers:
            cache.trim(gone)

    def sees(self, start: int, n: int) -> list[See]:
        """For each layer what a block of `n` rows sees whose first is at `start`."""
        shape = self._net.shape
        found: list[See] = []
        for cache, window, causal in zip(self.layers, shape.windows, shape.causal, strict=True):
            places = self.places[len(self.places) - cache.offset :]
            found.append(partial(_beside, cache, visible(places, start, n, window, causal)))
        return found

    @property
    def state(self) -> list[Any]:
        """What is to be evaluated."""
        return [c.state for c in self.layers if c.offset]


def _beside(cache: KVCache, mask: mx.array | None, k: mx.array, v: mx.array) -> tuple[mx.array, mx.array, Any]:
    """The block's keys and values behind those of the context, which alone stay."""
    n = k.shape[2]
    keys, values = cache.update_and_fetch(k, v)
    cache.trim(n)
    return keys, values, mask


class DFlash:
    name = "dflash"
    stops = True

    def __init__(self, loaded: Loaded, target: Target, anatomy: Anatomy) -> None:
        """The target keeps the states that the network reads (heads.want)."""
        net, shape, ids = loaded.net, loaded.net.shape, loaded.ids
        self.net, self._target, self._anatomy = net, target, anatomy
        self._own = anatomy.embedding(mx.zeros((1,), mx.uint32)).dtype
        own = "embed_tokens" in net
        self._scale = embedding_scale(target, anatomy) if shape.scale is None and not own else shape.scale or 1.0
        self._dtype = suit(net, self._own)
        self._read = reads(net.embed_tokens if own else None, anatomy, target.vocabulary)
        self._spread = spread(None if ids is None else mx.array(ids), target.vocabulary)
        self._head = anatomy.projection
        if ids is not None and not shape.said:
            self._head = some_rows(anatomy.projection, mx.array(ids))
        cost = weight_bytes(net) + (0 if shape.said else weight_bytes(self._head))
        self.cost_hint = cost / max(shape.most * weight_bytes(target.model), 1)
        self.reset()

    @property
    def _hidden(self) -> Hidden:
        assert self._target.hidden is not None
        return self._target.hidden

    def reset(self) -> None:
        self.rows = Rows(self.net)
        self._known: list[int] = []  # the text that they belong to

    def begin(self, prompt: Sequence[int]) -> None:
        self._catch_up(prompt)
        mx.eval(self.rows.state)

    def offer(self, history: History, limit: int) -> Offer | None:
        """Nothing where the states of the row before the newest token are not known."""
        known = self._hidden.ends(len(history) - 1)
        return Offer(min(limit, self.net.shape.most)) if known else None

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        tokens = context.history.tokens
        self._catch_up(tokens)
        n = min(n, self.net.shape.most)
        rows = self.block(tokens[-1:], len(tokens) - 1, n, self.rows.sees(len(tokens) - 1, n + self.net.shape.first))
        return draft_chain(context, n, self._steps(rows[0], tokens[-1]))

    def settle(self, drafted: Sequence[int]) -> None:
        """Nothing of a proposal is kept."""

    def block(self, newest: Sequence[int], start: int | mx.array, n: int, sees: Sequence[See]) -> mx.array:
        """The rows (batch, n, d) that say `n` drafts after each of the tokens `newest`, which are at `start`."""
        shape = self.net.shape
        masks = [shape.mask] * (n + shape.first - 1)
        ids = mx.array([[token, *masks] for token in newest], mx.uint32)
        x = (self._read(ids) * self._scale).astype(self._dtype)
        return self.net(x, start, sees)[:, shape.first :]

    def say(self, rows: mx.array) -> mx.array:
        """Logits (n, Vd) of rows (n, d), by their own law or, where they have none, by the target's."""
        shape = self.net.shape
        if shape.said:
            logits = self.net.lm_head(rows).astype(mx.float32)
        else:
            logits = project(self._head, rows.astype(self._own))
            if shape.multiplier is None and shape.cap is None and not shape.markov:
                return self._anatomy.finish(logits).astype(mx.float32)
        logits = logits.astype(mx.float32) * (shape.multiplier or 1.0)
        return mx.tanh(logits / shape.cap) * shape.cap if shape.cap else logits

    def _steps(self, rows: mx.array, newest: int) -> Callable[[int, mx.array | None], mx.array | None]:
        """What `draft_chain` asks for, of a block's rows (n, d)."""
        said, late = self.say(rows), lag()
        state: mx.array | None = None
        sure: list[mx.array] = []

        def step(i: int, token: mx.array | None) -> mx.array | None:
            nonlocal state
            before = mx.array([newest], mx.uint32) if token is None else token
            row = rows[i : i + 1]
            logits, state, chance = self._law(said[i : i + 1], row, before, state)
            if chance is not None:
                sure.append(chance)
                mx.async_eval(chance)
                # The first is made anyway: its cost is paid.
                if i - late >= 1 and float(sure[i - late].item()) < LEAST:  # type: ignore[arg-type]
                    return None
            return logits

        return step

    def _law(
        self, said: mx.array, rows: mx.array, before: mx.array, state: mx.array | None
    ) -> tuple[mx.array, mx.array | None, mx.array | None]:
        """Logits (n, vocabulary) of rows (n, d) that said (n, Vd), behind the tokens `before` (n,); the state for the
        next row; and how likely the draft is to hold (n,), if the network knows."""
        net, read = self.net, None
        if net.shape.markov:
            read = net.markov_head.read(before)
            added, state = net.markov_head(read, rows, state)
            said = said + added.astype(said.dtype)
        logits = self._spread(said)
        if net.shape.selector:
            logits = net.candidate_selector(before, rows, logits)
        return logits, state, net.confidence_head(rows, read) if net.shape.confidence else None

    def _catch_up(self, tokens: Sequence[int]) -> None:
        """Context rows for all places of this text but the newest, as far as the target's states are known."""
        self.rows.keep(min(common_prefix(self._known, tokens), len(tokens) - 1))
        self._known = list(tokens)
        stop = min(len(tokens) - 1, self._hidden.stop)
        start = max(self.rows.stop, self._hidden.start, stop - WINDOW)
        for first in range(start, stop, PREFILL_STEP):
            self.rows.feed(self._fuse(self._hidden.rows(first, min(first + PREFILL_STEP, stop), self.taps)), first)
            if stop - first > PREFILL_STEP:
                mx.eval(self.rows.state)

    def _fuse(self, states: Sequence[mx.array]) -> mx.array:
        return self.net.fuse([s.astype(self._dtype) for s in states])

    @property
    def taps(self) -> tuple[int, ...]:
        return self.net.shape.taps

    def guesses(self, ids: Sequence[int], states: Sequence[mx.array]) -> mx.array:
        """For a text of n tokens with its states (n, D) the first guess (n - 1,) after each token but the first: a
        block for each, all in one pass."""
        shape, places = self.net.shape, range(1, len(ids))
        n = min(shape.most, 4) + shape.first
        fused = self._fuse([s[:-1] for s in states])[None]
        sees: list[See] = []
        for layer, window, causal in zip(self.net.layers, shape.windows, shape.causal, strict=True):
            masks = [visible(range(len(places)), place, n, window, causal) for place in places]
            own = mx.ones((n, n), mx.bool_)
            past = mx.arange(len(places))[None] < mx.array(list(places))[:, None]
            both = mx.concatenate([mx.repeat(past[:, None], n, axis=1), mx.repeat(own[None], len(places), axis=0)], -1)
            mask = both if masks[0] is None else both & mx.stack([m for m in masks if m is not None])
            sees.append(partial(_shared, layer.self_attn.remember(fused, 0), mask[:, None]))
        rows = self.block(ids[1:], mx.array(list(places), mx.int32), n - shape.first, sees)[:, 0]
        logits, _, _ = self._law(self.say(rows), rows, mx.array(list(ids[1:]), mx.uint32), None)
        return mx.argmax(logits, axis=-1)


def _shared(
    context: tuple[mx.array, mx.array], mask: mx.array, k: mx.array, v: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """The keys and values of blocks (batch, heads, n, head_dim) behind those of a context that they share."""
    shape = (k.shape[0], *context[0].shape[1:])
    keys, values = (
        mx.concatenate([mx.broadcast_to(c, shape), own], axis=2) for c, own in zip(context, (k, v), strict=True)
    )
    return keys, values, mask


def embedding_scale(target: Target, anatomy: Anatomy) -> float:
    """What the target multiplies its embedding by in front of its first layer: 1 for most."""
    taps = Taps(anatomy, (-1,))
    try:
        ids = mx.array([[1, 2]], mx.uint32)
        target.model(ids, cache=make_prompt_cache(target.model))  # of which only the first layer's input is computed
        states = taps.take()
    finally:
        taps.remove()
    given = anatomy.embedding(ids).astype(mx.float32)
    if states is None or states[0].shape != given.shape:
        return 1.0
    read = states[0].astype(mx.float32)
    scale = mx.sum(read * given) / mx.sum(given * given)
    near = mx.max(mx.abs(read - scale * given)) <= CLOSE * mx.max(mx.abs(read))
    return float(scale.item()) if near.item() else 1.0  # type: ignore[arg-type]
