"""What an EAGLE head learns: all chains of a text at once are the chains that drafting runs one by one."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache

from mlx_spec.anatomy import dissect
from mlx_spec.drafters.eagle_head import EagleHead, Shape
from mlx_spec.train import eagle
from mlx_spec.train.eagle import FADE, Batch, Teacher, cross_entropy
from tests.mlx_spec.tiny import config, tiny_model

from .conftest import Small

WIDTH, SAID, KNOWN = 32, 6, 9  # features; tokens that the head can say, of those that there are
SPOKEN = np.array([0, 1, 3, 4, 6, 8], np.int32)


def shape(**more: Any) -> Shape:
    sizes = {
        "hidden": WIDTH, "heads": 4, "kv_heads": 2, "head_dim": 8, "intermediate": 40, "vocabulary": SAID,
        "target_hidden": WIDTH, "taps": (0, 1, 2),
    }  # fmt: skip
    return Shape(**{**sizes, **more})


def random_head(**more: Any) -> EagleHead:
    mx.random.seed(5)
    head = EagleHead(shape(**more))
    head.update({"lm_head": {"weight": mx.random.normal((SAID, WIDTH))}})
    mx.eval(head.parameters())
    return head


def random_teacher() -> Teacher:
    mx.random.seed(6)
    table, rows = mx.random.normal((KNOWN, WIDTH)), mx.random.normal((SAID, WIDTH))
    mx.eval(table, rows)  # as weights are: what is not is computed by the thread that made it
    place = np.full(KNOWN, -1, np.int32)
    place[SPOKEN] = np.arange(SAID)
    return Teacher(lambda ids: table[ids], lambda hidden: hidden @ rows.T, place)


def random_batch(texts: int = 3, length: int = 11) -> Batch:
    chance = np.random.default_rng(7)
    states = [mx.array(chance.normal(size=(texts, length, WIDTH)).astype(np.float32)) for _ in range(4)]
    ids = chance.integers(0, KNOWN, (texts, length)).astype(np.int32)
    return Batch(ids, chance.random((texts, length)) < 0.7, states[:3], states[3])


# --------------------------------------------------------------------------------------------------------------- chains


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"kv_heads": 4, "norm_output": True},
        {"layers": 2, "norm_before_residual": True},
        {"norm_before_fc": True, "bias": True},
        {"norm_each": True, "heads": 2, "kv_heads": 1},
    ],
    ids=["plain", "output-fed-back", "two-layers", "normed-before", "each-normed"],
)
def test_steps_are_the_chains_that_drafting_runs(more: dict[str, Any]) -> None:
    """Row i of step k is what the head says after it has read the true rows up to i, and then k of its own."""
    head, teacher, batch, depth = random_head(**more), random_teacher(), random_batch(), 3
    found = [np.array(s) for s in eagle.steps(head, teacher, batch, depth)]
    texts, length = batch.ids.shape
    rows = length - depth - 1
    assert [f.shape for f in found] == [(texts, rows, WIDTH)] * depth
    for text in range(texts):
        ids = mx.array(batch.ids[text : text + 1])
        for i in range(rows):
            caches = [KVCache() for _ in head.layers]
            hidden = head.fuse([s[text : text + 1, : i + 1] for s in batch.states])
            said, fed = head(teacher.embed(ids[:, 1 : i + 2]), hidden, caches)
            for k in range(depth):
                if k:
                    said, fed = head(teacher.embed(ids[:, i + 1 + k : i + 2 + k]), fed[:, -1:], caches)
                np.testing.assert_allclose(found[k][text, i], np.array(said[0, -1]), atol=1e-4)


def test_a_row_knows_nothing_of_what_comes_later() -> None:
    head, teacher, batch = random_head(), random_teacher(), random_batch(texts=1)
    later = batch.ids.copy()
    later[:, 6:] = (later[:, 6:] + 1) % KNOWN
    states = [mx.concatenate([s[:, :5], s[:, 5:] + 1], axis=1) for s in batch.states]
    other = Batch(later, batch.mine, states, batch.final)
    pairs = zip(eagle.steps(head, teacher, batch, 3), eagle.steps(head, teacher, other, 3), strict=True)
    for k, (ours, theirs) in enumerate(pairs):
        same = np.isclose(np.array(ours), np.array(theirs), atol=1e-6).all(axis=-1)[0]
        assert same.tolist() == [i + 1 + k < 6 and i < 5 for i in range(7)]


# -------------------------------------------------------------------------------------------------------- cross entropy


def test_cross_entropy_is_the_plain_one() -> None:
    chance = np.random.default_rng(0)
    logits = mx.array((30 * chance.normal(size=(5, 7))).astype(np.float32))
    law = mx.softmax(mx.array(chance.normal(size=(5, 7)).astype(np.float32)), axis=-1)

    def ours(x: mx.array) -> mx.array:
        outcome: Any = cross_entropy(x, law)
        return 3 * outcome[0]

    def plain(x: mx.array) -> mx.array:
        return -3 * mx.mean(mx.sum(law * nn.log_softmax(x, axis=-1), axis=-1))

    (cost, gradient), (expected, slope) = mx.value_and_grad(ours)(logits), mx.value_and_grad(plain)(logits)
    assert cost.item() == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(np.array(gradient), np.array(slope), atol=1e-6)
    # And against no library at all.
    x, p = np.array(logits, np.float64), np.array(law, np.float64)
    log = x - np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)) - x.max(1, keepdims=True)
    assert cost.item() == pytest.approx(-3 * (p * log).sum(1).mean(), rel=1e-5)
    np.testing.assert_allclose(np.array(gradient), 3 * (np.exp(log) - p) / 5, atol=1e-6)


def test_the_teachers_law_learns_nothing() -> None:
    law = mx.array([[0.3, 0.7]])

    def cost(p: mx.array) -> mx.array:
        outcome: Any = cross_entropy(mx.array([[1.0, 2.0]]), p)
        return outcome[0]

    assert not np.array(mx.grad(cost)(law)).any()


def test_huge_logits_stay_numbers() -> None:
    outcome: Any = cross_entropy(mx.array([[1e4, -1e4, 0.0]]), mx.array([[1.0, 0.0, 0.0]]))
    assert outcome[0].item() == pytest.approx(0.0)
    assert np.isfinite(np.array(outcome[1])).all()


# ----------------------------------------------------------------------------------------------------- loss, and chains


def test_the_loss_is_the_papers() -> None:
    """Each step's mean over the places that the target wrote and the head can say, fading with depth."""
    head, teacher, batch, depth = random_head(), random_teacher(), random_batch(), 3
    law = np.array(mx.softmax(teacher.logits(batch.final), axis=-1), np.float64)
    total = weights = 0.0
    for k, read in enumerate(eagle.steps(head, teacher, batch, depth)):
        said = np.array(nn.log_softmax(head.lm_head(read), axis=-1), np.float64)
        costs = [
            -(law[text, i + 1 + k] * said[text, i]).sum()
            for text in range(len(said))
            for i in range(said.shape[1])
            if batch.mine[text, i + 2 + k] and batch.ids[text, i + 2 + k] in SPOKEN
        ]
        assert 0 < len(costs) < said.shape[0] * said.shape[1]
        total += FADE**k * float(np.mean(costs))
        weights += FADE**k
    assert eagle.loss(head, teacher, batch, depth).item() == pytest.approx(total / weights, rel=1e-5)


def test_texts_of_others_alone_cost_nothing() -> None:
    head, teacher, batch = random_head(), random_teacher(), random_batch()
    nothing = Batch(batch.ids, np.zeros_like(batch.mine), batch.states, batch.final)
    assert eagle.loss(head, teacher, nothing, 3).item() == 0
    assert eagle.holds(head, teacher, nothing, 3)[1] == 0


def test_holds_is_what_a_hand_counts() -> None:
    head, teacher, batch, depth = random_head(), random_teacher(), random_batch(texts=20, length=40), 3
    said = [np.array(mx.argmax(head.lm_head(r), axis=-1)) for r in eagle.steps(head, teacher, batch, depth)]
    kept, chains = [0] * depth, 0
    for text in range(20):
        for i in range(40 - depth - 1):
            if not batch.mine[text, i + 2]:
                continue
            chains += 1
            for k in range(depth):
                if not batch.mine[text, i + 2 + k] or SPOKEN[said[k][text, i]] != batch.ids[text, i + 2 + k]:
                    break
                kept[k] += 1
    found, count = eagle.holds(head, teacher, batch, depth)
    assert (found.tolist(), count) == (kept, chains)
    assert 0 < kept[1] < kept[0] < chains


# ------------------------------------------------------------------------------------------------------- the first head


def test_a_teacher_is_its_target(small: Small) -> None:
    spoken = np.array([1, 5, 7, 300], np.int32)
    teacher = eagle.teacher(small.anatomy, spoken, 320)
    assert eagle.len_spoken(teacher) == 4
    assert teacher.place[[1, 5, 7, 300, 0, 319]].tolist() == [0, 1, 2, 3, -1, -1]
    ids = mx.array([[3, 4, 5]])
    logits = small.model(ids)[..., mx.array(spoken)]
    hidden = small.anatomy.body(ids)
    np.testing.assert_allclose(np.array(teacher.logits(hidden)), np.array(logits), atol=1e-4)
    assert mx.array_equal(teacher.embed(ids), small.anatomy.embedding(ids))


@pytest.mark.parametrize("bits", [None, 8])
def test_a_fresh_head_starts_as_the_targets_last_layer(bits: int | None) -> None:
    model = tiny_model(seed=2, layers=6)
    plain = dict(tree_flatten(model.parameters()))
    if bits:
        nn.quantize(model, group_size=64, bits=bits)
    anatomy = dissect(model)
    assert anatomy is not None
    spoken = np.arange(10, 60, dtype=np.int32)
    head = eagle.fresh(anatomy, spoken, config(layers=6))
    assert head.shape.taps == (1, 2, 2)
    assert (head.shape.vocabulary, head.shape.kv_heads, head.shape.head_dim) == (50, 2, 16)
    near = 0.02 if bits else 0.0
    layer = "model.layers.5."
    for name in ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "self_attn.o_proj"):
        ours: Any = dict(tree_flatten(head.layers[0].parameters()))[f"{name}.weight"]
        np.testing.assert_allclose(np.array(ours), np.array(plain[f"{layer}{name}.weight"]), atol=near)
        assert ours.dtype == mx.float32
    q, theirs = head.layers[0].self_attn.q_proj.weight, plain[f"{layer}self_attn.q_proj.weight"]
    np.testing.assert_allclose(np.array(q[:, 64:]), np.array(theirs), atol=near)
    np.testing.assert_allclose(np.array(q[:, :64]), 0.1 * np.array(theirs), atol=near)
    rows = np.array(plain["model.embed_tokens.weight"])[10:60]
    np.testing.assert_allclose(np.array(head.lm_head.weight), rows, atol=2 * near)
    # What it fuses is the highest of the three states, nearly.
    states = [mx.random.normal((1, 4, 64)) for _ in range(3)]
    np.testing.assert_allclose(np.array(head.fuse(states)), np.array(states[2]), atol=0.6)


def test_a_target_of_other_sizes_gets_a_head_too() -> None:
    """What does not fit is left as it is; the head's sizes are the settings'."""
    model = tiny_model(seed=2, layers=6)
    anatomy = dissect(model)
    assert anatomy is not None
    sizes = {"hidden_size": 64, "num_attention_heads": 8, "head_dim": 12, "rope_theta": 5e5, "rms_norm_eps": 1e-6}
    head = eagle.fresh(anatomy, np.arange(40, dtype=np.int32), sizes)
    assert (head.shape.kv_heads, head.shape.intermediate, head.shape.rope_theta) == (8, 256, 5e5)
    said, _ = head(mx.zeros((1, 2, 64)), mx.ones((1, 2, 64)), [KVCache()])
    assert np.isfinite(np.array(said)).all()


def test_a_head_learns(small: Small) -> None:
    """A few steps on texts that count by threes: the loss falls, and more chains hold."""
    ids = (np.arange(4)[:, None] * 50 + 3 * np.arange(20)[None]).astype(np.int32) % 200 + 20
    states = mx.random.normal((4, 20, 64), key=mx.random.key(1))
    final = 3 * small.anatomy.embedding(mx.array(np.roll(ids, -1, axis=1)))  # such a state makes the next token likely
    batch = Batch(ids, np.ones_like(ids, bool), [states, states, final], final)
    teacher = eagle.teacher(small.anatomy, np.arange(320, dtype=np.int32), 320)
    mx.random.seed(0)
    head = eagle.fresh(small.anatomy, np.arange(320, dtype=np.int32), small.config)
    graded = nn.value_and_grad(head, lambda b: eagle.loss(head, teacher, b, 2))
    optimizer = optim.AdamW(learning_rate=3e-3, weight_decay=0.0)
    before, _ = eagle.holds(head, teacher, batch, 2)
    costs = []
    for _ in range(15):
        cost, gradients = graded(batch)
        optimizer.update(head, gradients)
        mx.eval(cost, head.parameters(), optimizer.state)
        costs.append(cost.item())
    after, chains = eagle.holds(head, teacher, batch, 2)
    assert all(math.isfinite(c) for c in costs)
    assert costs[-1] < 0.5 * costs[0]
    assert chains == 4 * 17
    assert (after > before).all()
