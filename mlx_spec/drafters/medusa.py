"""Medusa heads: what the target thought at one place says several of the tokens after it, all at once.

Cai et al. 2024 (arXiv 2401.10774). The target's own head reads its last state at place t and says token t + 1. Head k,
counted from 0, reads the same state and says token t + 2 + k: it does not know the tokens in between. So no draft
depends on the one before, and a chain costs one small pass, however long it is. Of the paper's tree of candidates
only the best path is drafted, and its rule for temperatures above 0, which is not exact, is not used.

A head is a few blocks and an output layer. Where it has none the target's own stands in. In front of that our heads
have a `turn`, an extension: it moves the state linearly, for a block's SiLU adds to a feature but hardly takes away.

Knows tensors and states; files are read elsewhere (medusa_files.py), and so is training (train/medusa.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from ..anatomy import Anatomy, project, some_rows, weight_bytes
from ..hidden import Hidden
from ..precision import suit
from ..sampling import History
from ..target import Target
from .base import Context, Draft, Offer
from .chain import draft_chain
from .feature import spread


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def __call__(self, x: mx.array) -> mx.array:
        return x + nn.silu(self.linear(x))


class MedusaHead(nn.Module):
    """One head. `said` is the number of rows of its own output layer, 0 where it has none."""

    def __init__(self, width: int, blocks: int, said: int = 0, turn: bool = False) -> None:
        super().__init__()
        self.blocks = [Block(width) for _ in range(blocks)]
        if turn:
            self.turn = nn.Linear(width, width, bias=False)
        if said:
            self.lm_head = nn.Linear(width, said, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        """What the output layer reads, of what the target's head reads: (..., D)."""
        for block in self.blocks:
            x = block(x)
        return x + self.turn(x) if "turn" in self else x


class MedusaHeads(nn.Module):
    """All heads of a drafter, the nearest token's first."""

    def __init__(self, heads: Sequence[MedusaHead]) -> None:
        super().__init__()
        self.heads = list(heads)

    @property
    def shared(self) -> bool:
        """Whether some head needs the target's rows."""
        return any("lm_head" not in head for head in self.heads)


class Medusa:
    """Drafts from the state of the row before the newest token, the newest that the target has run."""

    name = "medusa"
    stops = True

    def __init__(self, heads: MedusaHeads, ids: Any, target: Target, anatomy: Anatomy) -> None:
        """`ids` are the target's ids (Vd,) of the tokens that the heads can say, None where they are the same. The
        target keeps the states that its head reads (heads.want)."""
        self.heads, self._target, self._anatomy = heads, target, anatomy
        self._place = len(anatomy.layers)
        self._own = anatomy.embedding(mx.zeros((1,), mx.uint32)).dtype
        self._dtype = suit(heads, self._own)
        self._spread = spread(None if ids is None else mx.array(ids), target.vocabulary)
        self._rows = anatomy.projection if ids is None else some_rows(anatomy.projection, mx.array(ids))
        read = weight_bytes(heads) + (weight_bytes(self._rows) if heads.shared else 0)
        self.cost_hint = read / max(len(heads.heads) * weight_bytes(target.model), 1)

    @property
    def _hidden(self) -> Hidden:
        assert self._target.hidden is not None
        return self._target.hidden

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing is read but the newest state."""

    def offer(self, history: History, limit: int) -> Offer | None:
        known = self._hidden.ends(len(history) - 1)
        return Offer(min(limit, len(self.heads.heads))) if known else None

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        place = len(context.history) - 2
        state = self._hidden.rows(place, place + 1, (self._place,))[0]
        logits = self.say(state.astype(self._dtype), min(n, len(self.heads.heads)))
        return draft_chain(context, len(logits), lambda i, token: self._spread(logits[i]))

    @property
    def taps(self) -> tuple[int, ...]:
        return (self._place,)

    def guesses(self, ids: Sequence[int], states: Sequence[mx.array]) -> mx.array:
        """For a text of n tokens with its states (n, D) the first guess (n - 1,) after each token but the first."""
        rows = states[0][:-1].astype(self._dtype)
        found = mx.concatenate([self._spread(self.say(rows[i : i + 1], 1)[0]) for i in range(rows.shape[0])])
        return mx.argmax(found, axis=-1)

    def say(self, state: mx.array, n: int) -> list[mx.array]:
        """Logits (1, Vd) of each of the first `n` heads after `state` (1, D), not yet evaluated. The target's rows
        are read once for all heads that need them."""
        heads = self.heads.heads[:n]
        states = [head(state) for head in heads]
        without = [i for i, head in enumerate(heads) if "lm_head" not in head]
        said: dict[int, mx.array] = {}
        if without:
            joined = mx.concatenate([states[i] for i in without]).astype(self._own)
            logits = self._anatomy.finish(project(self._rows, joined)).astype(mx.float32)
            said = {i: logits[row : row + 1] for row, i in enumerate(without)}
        return [said[i] if i in said else head.lm_head(states[i]).astype(mx.float32) for i, head in enumerate(heads)]

    def settle(self, drafted: Sequence[int]) -> None:
        """Nothing of a proposal is kept."""

    def reset(self) -> None:
        """There is nothing to forget: the states are the target's."""
