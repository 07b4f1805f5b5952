"""What Medusa heads learn: head k guesses the token k + 2 places on, from one state. Whole runs are in test_medusa.py
and test_loop.py."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map

from mlx_spec.drafters.medusa import Medusa, MedusaHeads
from mlx_spec.heads import want
from mlx_spec.target import Target
from mlx_spec.train import eagle, medusa
from mlx_spec.train.eagle import Batch
from mlx_spec.train.medusa import FADE

from .conftest import Small
from .test_eagle_training import SPOKEN, WIDTH, random_batch, random_teacher


def random_heads(count: int = 3) -> MedusaHeads:
    mx.random.seed(9)
    made = MedusaHeads([medusa.MedusaHead(WIDTH, 1, turn=True) for _ in range(count)])
    made.update(tree_map(lambda v: 0.3 * mx.random.normal(v.shape), made.parameters()))
    mx.eval(made.parameters())
    return made


def test_steps_read_one_state_each() -> None:
    heads, batch = random_heads(), random_batch()
    found = list(medusa.steps(heads, batch, 3))
    assert [f.shape for f in found] == [(3, 7, WIDTH)] * 3
    for head, said in zip(heads.heads, found, strict=True):
        for text in range(3):
            for i in range(7):
                alone = head(batch.final[text, i])
                np.testing.assert_allclose(np.array(said[text, i]), np.array(alone), atol=1e-5)
    assert len(list(medusa.steps(heads, batch, 2))) == 2


def test_the_loss_is_the_papers() -> None:
    heads, teacher, batch, depth = random_heads(), random_teacher(), random_batch(), 3
    law = np.array(mx.softmax(teacher.logits(batch.final), axis=-1), np.float64)
    total = weights = 0.0
    for k, head in enumerate(heads.heads):
        said = np.array(nn.log_softmax(teacher.logits(head(batch.final)), axis=-1), np.float64)
        costs = [
            -(law[text, i + 1 + k] * said[text, i]).sum()
            for text in range(3)
            for i in range(batch.ids.shape[1] - depth - 1)
            if batch.mine[text, i + 2 + k] and batch.ids[text, i + 2 + k] in SPOKEN
        ]
        total += FADE**k * float(np.mean(costs))
        weights += FADE**k
    assert medusa.loss(heads, teacher, batch, depth).item() == pytest.approx(total / weights, rel=1e-5)
    nothing = Batch(batch.ids, np.zeros_like(batch.mine), [], batch.final)
    assert medusa.loss(heads, teacher, nothing, depth).item() == 0
    assert medusa.holds(heads, teacher, nothing, depth)[1] == 0


def test_holds_is_what_a_hand_counts() -> None:
    heads, teacher, batch, depth = random_heads(), random_teacher(), random_batch(texts=6, length=40), 3
    said = [np.array(mx.argmax(teacher.logits(head(batch.final)), axis=-1)) for head in heads.heads]
    kept, chains = [0] * depth, 0
    for text in range(6):
        for i in range(40 - depth - 1):
            if not batch.mine[text, i + 2]:
                continue
            chains += 1
            for k in range(depth):
                if not batch.mine[text, i + 2 + k] or SPOKEN[said[k][text, i]] != batch.ids[text, i + 2 + k]:
                    break
                kept[k] += 1
    found, count = medusa.holds(heads, teacher, batch, depth)
    assert (found.tolist(), count) == (kept, chains)
    assert 0 < kept[1] < kept[0] < chains


def test_what_is_learned_is_what_a_draft_says(small: Small) -> None:
    """The rows of training and the logits of drafting are one function of the target's last state."""
    spoken = np.arange(0, 320, 2)
    teacher = eagle.teacher(small.anatomy, spoken.astype(np.int32), 320)
    heads = medusa.fresh(small.anatomy, spoken, {})
    heads.update(tree_map(lambda v: 0.05 * mx.random.normal(v.shape, key=mx.random.key(3)), heads.parameters()))
    target = Target(small.model)
    want(target, small.anatomy, (6,))
    drafter = Medusa(heads, spoken, target, small.anatomy)
    final = small.anatomy.body(mx.array([[5, 9, 40, 41, 42, 43, 44]]))
    batch = Batch(np.zeros((1, 7), np.int32), np.ones((1, 7), bool), [], final)
    rows = [teacher.logits(r) for r in medusa.steps(heads, batch, medusa.HEADS)]
    for place in range(2):
        for ours, theirs in zip(rows, drafter.say(final[0, place : place + 1], medusa.HEADS), strict=True):
            np.testing.assert_allclose(np.array(ours[0, place]), np.array(theirs[0]), atol=1e-3)
    assert target.hidden is not None
    target.hidden.remove()


def test_fresh_heads_learn_and_the_targets_rows_stay(small: Small) -> None:
    ids = (np.arange(4)[:, None] * 50 + 3 * np.arange(20)[None]).astype(np.int32) % 200 + 20
    final = 3 * small.anatomy.embedding(mx.array(np.roll(ids, -1, axis=1)))
    batch = Batch(ids, np.ones_like(ids, bool), [], final)
    teacher = eagle.teacher(small.anatomy, np.arange(320, dtype=np.int32), 320)
    heads = medusa.fresh(small.anatomy, np.arange(320), {})
    assert len(heads.heads) == medusa.HEADS
    assert {name.split(".")[2] for name, _ in tree_flatten(heads.parameters())} == {"blocks", "turn"}
    rows = np.array(small.anatomy.projection.weight)
    graded = nn.value_and_grad(heads, lambda b: medusa.loss(heads, teacher, b, medusa.HEADS))
    optimizer = optim.AdamW(learning_rate=1e-2, weight_decay=0.0)
    costs = []
    for _ in range(12):
        cost, gradients = graded(batch)
        optimizer.update(heads, gradients)
        mx.eval(cost, heads.parameters(), optimizer.state)
        costs.append(cost.item())
    assert costs[-1] < 0.7 * costs[0]
    assert np.array_equal(np.array(small.anatomy.projection.weight), rows)
