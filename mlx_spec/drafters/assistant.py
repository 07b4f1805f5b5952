"""Gemma 4's assistants: small heads without a memory of their own, which look into the target's.

Each layer has queries alone, and attends to the keys and values of the target's last layer of its kind that has any:
one that sees everything, or one with a window. What comes in is the embedding of the newest token beside the state
that chose it; what comes out says the next token and, widened again, stands for the state of the step after. All steps
of a draft stand at the place of the newest token. So nothing is read ahead of a reply and nothing is taken back.

The small models' assistants do not weigh all tokens: they weigh groups, and then the tokens of the best ones.

The layers are mlx-lm's. Knows tensors and states; files are read elsewhere (assistant_files.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import RotatingKVCache
from mlx_lm.models.gemma4_text import DecoderLayer, ModelArgs

from ..anatomy import Anatomy, weight_bytes
from ..hidden import Hidden
from ..precision import suit
from ..sampling import History
from ..target import Target
from .base import Context, Draft, Offer
from .chain import draft_chain

Seen = Mapping[str, tuple[mx.array, mx.array]]  # keys and values (1, heads, rows, head_dim) by the kind of layer


class Assistant(nn.Module):
    """The head itself, d features wide, for a target of `width` D. `groups` is 0 where it weighs all tokens, else it
    weighs the tokens of the best `best` of so many."""

    def __init__(self, args: ModelArgs, width: int, groups: int = 0, best: int = 0) -> None:
        super().__init__()
        args = replace(args, num_kv_shared_layers=args.num_hidden_layers)  # so that no layer has keys of its own
        self.pre_projection = nn.Linear(2 * width, args.hidden_size, bias=False)
        self.embed_tokens = nn.Embedding(args.vocab_size, args.hidden_size)
        self.layers = [DecoderLayer(args, i) for i in range(args.num_hidden_layers)]
        self.norm = nn.RMSNorm(args.hidden_size, args.rms_norm_eps)
        self.post_projection = nn.Linear(args.hidden_size, width, bias=False)
        self._best = best
        if groups:
            self.centroids = nn.Linear(args.hidden_size, groups, bias=False)
            self.token_ordering = mx.zeros((args.vocab_size,), mx.int32)

    def __call__(self, embedded: mx.array, hidden: mx.array, seen: Seen, place: int) -> tuple[mx.array, mx.array]:
        """One row: (1, D) each. Returns what `say` reads (1, d), and what stands for `hidden` in the next step."""
        x = self.pre_projection(mx.concatenate([embedded, hidden], axis=-1))[None]
        for layer in self.layers:
            x, _, _ = layer(x, shared_kv=seen[layer.layer_type], offset=place)
        normed = self.norm(x)[0]
        return normed, self.post_projection(normed)

    def say(self, row: mx.array) -> mx.array:
        """Logits (1, V) of a row (1, d)."""
        if "centroids" not in self:
            logits: mx.array = self.embed_tokens.as_linear(row)
            return logits
        scores = self.centroids(row)[0]
        groups = mx.argpartition(scores, kth=-self._best)[-self._best :]
        ids = self.token_ordering.reshape(scores.shape[0], -1)[groups].reshape(-1)
        full = mx.full((1, self.token_ordering.size), -mx.inf, row.dtype)
        full[:, ids] = row @ self.embed_tokens(ids).T
        return full


def sources(args: ModelArgs) -> dict[str, int]:
    """For each kind of layer of a target the last one that has keys and values of its own."""
    own = args.layer_types[: args.num_hidden_layers - args.num_kv_shared_layers]
    return {kind: i for i, kind in enumerate(own)}


class AssistantDrafter:
    name = "mtp"
    stops = True

    def __init__(self, network: Assistant, target: Target, anatomy: Anatomy, args: ModelArgs) -> None:
        """`args` are the target's. It keeps the states that its output layer reads (heads.want)."""
        self.network, self._target, self._anatomy = network, target, anatomy
        self.taps = (len(anatomy.layers),)
        self._scale, self._window, self._sources = args.hidden_size**0.5, args.sliding_window, sources(args)
        self._dtype = suit(network, anatomy.embedding(mx.zeros((1,), mx.uint32)).dtype)
        self.cost_hint = weight_bytes(network) / max(weight_bytes(target.model), 1)

    @property
    def _hidden(self) -> Hidden:
        assert self._target.hidden is not None
        return self._target.hidden

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing is read: the target has."""

    def offer(self, history: History, limit: int) -> Offer | None:
        """Nothing where the target has not run all but the newest token, or its last state is not known."""
        place = len(history) - 1
        ran = self._target.caches.length == place
        return Offer(limit) if ran and self._hidden.ends(place) else None

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        tokens = context.history.tokens
        place, seen = len(tokens) - 1, self.seen()
        back = [self._hidden.rows(place - 1, place, self.taps)[0].astype(self._dtype)]

        def step(i: int, token: mx.array | None) -> mx.array:
            ids = mx.array([tokens[-1]], mx.uint32) if token is None else token
            embedded = (self._anatomy.embedding(ids) * self._scale).astype(self._dtype)
            row, back[0] = self.network(embedded, back[0], seen, place)
            return self.network.say(row)[:, : self._target.vocabulary].astype(mx.float32)

        return draft_chain(context, n, step)

    def settle(self, drafted: Sequence[int]) -> None:
        """Nothing of a draft is kept."""

    def reset(self) -> None:
        """Nor of a text."""

    def seen(self) -> Seen:
        """The target's keys and values as they are now, those of a window as far as the next row sees."""
        found = {}
        for kind, i in self._sources.items():
            cache = self._target.caches.layers[i]
            if isinstance(cache, RotatingKVCache):
                both = [cache._temporal_order(v)[..., 1 - self._window :, :] for v in (cache.keys, cache.values)]
            else:
                both = [_wide(v, cache) for v in cache.state[:2]]
                both = [v[..., : cache.offset, :] for v in both]
            found[kind] = (both[0].astype(self._dtype), both[1].astype(self._dtype))
        return found


def _wide(rows: Any, cache: Any) -> mx.array:
    """Keys or values, which may be kept in few bits."""
    if isinstance(rows, mx.array):
        return rows
    packed, scales, biases = rows
    return mx.dequantize(packed, scales, biases, group_size=cache.group_size, bits=cache.bits)
