"""What Medusa heads learn: the target's law over the tokens after the next one, from one state.

Cai et al. 2024 (arXiv 2401.10774), part 2.2.1, "Medusa-1": the target is frozen. The teacher of head k at place t is
the target's own law at place t + 1 + k, where it had read the tokens in between, which the head never sees; the
farther heads know less, and count less.

The paper gives each head an output layer of its own. For D = 576 and 6144 tokens that is 3.5 million weights a head,
15 MB at 8 bits for four heads, all of which a draft would read. Here all heads share the target's rows of those
tokens, frozen and not in the file, and each has a linear `turn` in front of them: together an output layer of rank D.
Four heads are then 3 MB at 8 bits, a draft reads the rows once, and a step has no gradient of them to compute. A head
starts as the target's output layer itself.

Knows heads and arrays; the loop, the clock and the disk are in loop.py and data.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

from ..anatomy import Anatomy
from ..drafters.medusa import MedusaHead, MedusaHeads
from .eagle import Array, Batch, Teacher, cross_entropy, len_spoken

HEADS = 4
BLOCKS = 1  # of each, as published
FADE = 0.8  # weight of each head against the one before (the paper's)


def fresh(anatomy: Anatomy, spoken: Array, config: dict[str, Any]) -> MedusaHeads:
    """Untrained heads, which say what the target's own output layer says. `spoken` and `config` are not asked: the
    output layer is the teacher's."""
    made = MedusaHeads([MedusaHead(anatomy.width, BLOCKS, turn=True) for _ in range(HEADS)])
    made.update(tree_map(mx.zeros_like, made.parameters()))
    mx.eval(made.parameters())
    return made


def steps(heads: MedusaHeads, batch: Batch, depth: int) -> Iterator[mx.array]:
    """For each head what the output layer reads (b, m, D): row i of head k is to say the token at place i + k + 2 of
    the text. There are m = n - depth - 1 rows, so that all heads have a text to go by."""
    m = batch.ids.shape[1] - depth - 1
    for head in heads.heads[:depth]:
        yield head(batch.final[:, :m])


def loss(heads: MedusaHeads, teacher: Teacher, batch: Batch, depth: int) -> mx.array:
    """Cross entropy against the target's law, where the target wrote a token that the heads can say."""
    total, weights = mx.array(0.0), 0.0
    width = batch.ids.shape[1]
    counts = (teacher.place[batch.ids] >= 0) & batch.mine
    law = teacher.logits(batch.final).reshape(-1, len_spoken(teacher))
    law = mx.softmax(mx.stop_gradient(law), axis=-1)
    for k, read in enumerate(steps(heads, batch, depth)):
        m = read.shape[1]
        texts, rows = np.nonzero(counts[:, 2 + k : 2 + k + m])
        if not len(rows):
            continue
        logits = teacher.logits(read.reshape(-1, read.shape[-1])[mx.array(texts * m + rows)])
        outcome: Any = cross_entropy(logits, law[mx.array(texts * width + rows + 1 + k)])
        total = total + FADE**k * outcome[0]
        weights += FADE**k
    return total / max(weights, 1.0)


def holds(heads: MedusaHeads, teacher: Teacher, batch: Batch, depth: int) -> tuple[Array, int]:
    """Chains that a greedy draft would keep to 1, 2, ... `depth` tokens, and the number of chains: (depth,), ()."""
    kept = np.zeros(depth, np.int64)
    alive: Any = None
    chains = 0
    for k, read in enumerate(steps(heads, batch, depth)):
        mine = batch.mine[:, 2 + k : 2 + k + read.shape[1]]
        if alive is None:
            alive, chains = mine, int(mine.sum())
        said = np.array(mx.argmax(teacher.logits(read), axis=-1))
        alive = alive & mine & (teacher.place[batch.ids[:, 2 + k : 2 + k + read.shape[1]]] == said)
        kept[k] = alive.sum()
    return kept, chains
