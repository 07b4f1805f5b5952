"""MTP heads: the maths is the makers', the text stays plain decoding's, rows belong to their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import KVCache, make_prompt_cache

from mlx_spec import heads
from mlx_spec.anatomy import Anatomy, Taps, dissect
from mlx_spec.drafters import mtp
from mlx_spec.drafters.base import Context, Offer
from mlx_spec.drafters.feature import FeatureDrafter
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import DrafterSettings, Message, Round, SamplingSettings
from mlx_spec.sampling import History
from mlx_spec.target import Target

from .. import zoo
from . import published_mtp as published
from .published_mtp import QWEN, TARGETS, VOCABULARY, WIDTH, Array

PROMPT = [Message("user", "one two three four five")]
IDS = [5, 9, 200, 7, 31, 32, 33, 150, 4, 18]
EPS = 1e-5


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    yield
    mx.clear_cache()


def bound(folder: Path, name: str) -> tuple[Target, Anatomy, FeatureDrafter]:
    target = Target(zoo.build(name, **published.config(name)))
    anatomy = dissect(target.model)
    assert anatomy is not None
    return target, anatomy, heads.build_mtp(published.head(folder, name), target, anatomy)


# ----------------------------------------------------------------------------------------------------------- the maths


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms(x: Array, weight: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def swiglu(x: Array, gate: Array, up: Array, down: Array) -> Array:
    g = x @ gate.T
    return (g * sigmoid(g) * (x @ up.T)) @ down.T


def turned(x: Array) -> Array:
    """Rows (n, heads, 16) with the first half of their features turned by their place, by pairs four apart."""
    angle = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(4) / 4)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :4], x[..., 4:8]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., 8:]], axis=-1)


def experts(t: dict[str, Array], x: Array, start: str) -> Array:
    """The two best of four, weighed against each other, and one that all rows have."""
    out = swiglu(x, *(t[f"{start}shared_expert.{p}_proj.weight"] for p in ("gate", "up", "down")))
    out = out * sigmoid(x @ t[f"{start}shared_expert_gate.weight"].T)
    chances = softmax(x @ t[f"{start}gate.weight"].T)
    for row, p in enumerate(chances):
        best = np.argsort(p)[-2:]
        for e in best:
            if f"{start}experts.gate_up_proj" in t:
                both = t[f"{start}experts.gate_up_proj"][e]
                parts = (both[:32], both[32:], t[f"{start}experts.down_proj"][e])
            else:
                parts = tuple(t[f"{start}experts.{e}.{p}_proj.weight"] for p in ("gate", "up", "down"))
            out[row] += p[e] / p[best].sum() * swiglu(x[row], *parts)
    return out


def qwen(t: dict[str, Array], embedded: Array, states: Array) -> Array:
    """What the output layer reads: rows (n, D) of the whole text, with the makers' own tensors, norms less 1."""

    def norm(x: Array, name: str) -> Array:
        return rms(x, 1 + t[f"{name}.weight"])

    n = len(embedded)
    x = np.concatenate([norm(embedded, "pre_fc_norm_embedding"), norm(states, "pre_fc_norm_hidden")], -1)
    x = x @ t["fc.weight"].T
    u = norm(x, "layers.0.input_layernorm")
    q, k, v = (u @ t[f"layers.0.self_attn.{p}_proj.weight"].T for p in "qkv")
    q, gate = np.split(q.reshape(n, 4, 32), 2, axis=-1)
    q = turned(norm(q, "layers.0.self_attn.q_norm"))
    k = turned(norm(k.reshape(n, 2, 16), "layers.0.self_attn.k_norm"))
    scores = np.einsum("ihd,jhd->hij", q, np.repeat(k, 2, axis=1)) / 4
    scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    seen = np.einsum("hij,jhd->ihd", softmax(scores), np.repeat(v.reshape(n, 2, 16), 2, axis=1))
    x = x + (seen * sigmoid(gate)).reshape(n, 64) @ t["layers.0.self_attn.o_proj.weight"].T
    w, start = norm(x, "layers.0.post_attention_layernorm"), "layers.0.mlp."
    dense = f"{start}gate_proj.weight" in t
    parts = (t[f"{start}{p}_proj.weight"] for p in ("gate", "up", "down")) if dense else ()
    return norm(x + (swiglu(w, *parts) if dense else experts(t, w, start)), "norm")


@pytest.mark.parametrize("name", QWEN)
def test_a_qwens_layer_is_the_makers(tmp_path: Path, name: str) -> None:
    _, _, drafter = bound(tmp_path, name)
    rng = np.random.default_rng(1)
    embedded, states = (rng.normal(size=(9, WIDTH)).astype(np.float32) for _ in range(2))
    rows, fed = drafter.head(mx.array(embedded)[None], mx.array(states)[None], [KVCache()])
    np.testing.assert_allclose(np.array(rows[0]), qwen(published.arrays(name), embedded, states), atol=1e-4, rtol=1e-4)
    assert mx.array_equal(rows, fed)


@pytest.mark.parametrize("name", [n for n in TARGETS if n not in QWEN])
def test_the_other_family_joins_and_feeds_back_as_the_makers_do(tmp_path: Path, name: str) -> None:
    _, _, drafter = bound(tmp_path, name)
    t, rng, layer = published.arrays(name), np.random.default_rng(1), drafter.head.network.layer  # type: ignore[attr-defined]
    embedded, states = (rng.normal(size=(9, WIDTH)).astype(np.float32) for _ in range(2))
    rows, fed = drafter.head(mx.array(embedded)[None], mx.array(states)[None], cache := [KVCache()])
    first = np.where(np.arange(9)[:, None] > 0, embedded, 0)  # the first row reads no token
    x = np.concatenate([rms(first, t["enorm.weight"]), rms(states, t["hnorm.weight"])], -1) @ t["eh_proj.weight"].T
    joined = mx.array(x.astype(np.float32))[None]
    after = layer(joined, create_attention_mask(joined, KVCache(), return_array=name != "glm4_moe"), KVCache())
    np.testing.assert_allclose(np.array(fed), np.array(after), atol=1e-4, rtol=1e-4)
    expected = rms(np.array(after), t["shared_head.norm.weight"])
    np.testing.assert_allclose(np.array(rows), expected, atol=1e-4, rtol=1e-4)
    # A later row reads its token, and what is fed back goes through the norm of states.
    one, _ = drafter.head(mx.array(embedded)[None, :1], fed[:, -1:], cache)
    other, _ = drafter.head(mx.zeros((1, 1, WIDTH)), fed[:, -1:], cache)
    assert not mx.allclose(one, other, atol=1e-2)


@pytest.mark.parametrize("name", [n for n in TARGETS if n not in QWEN])
def test_its_layer_computes_as_the_targets_own_do(tmp_path: Path, name: str) -> None:
    """The makers' tensors given to a layer of the target by mlx-lm's own reading of a whole model are the same."""
    target, anatomy, drafter = bound(tmp_path, name)
    model: Any = target.model
    start = "model.layers.1."  # one that has experts
    whole = {
        start + n: v for n, v in published.raw(name).items() if n.startswith(("self_attn", "mlp", "input", "post"))
    }
    model.load_weights(list(model.sanitize(whole).items()), strict=False)
    x = mx.random.normal((1, 5, WIDTH), key=mx.random.key(3))
    mask = create_attention_mask(x, KVCache(), return_array=name != "glm4_moe")
    ours = drafter.head.network.layer(x, mask, KVCache())  # type: ignore[attr-defined]
    assert mx.allclose(ours, anatomy.layers[1](x, mask, KVCache()), atol=1e-5)


@pytest.mark.parametrize("name", ["qwen3_5", "qwen3_next"])
def test_drafts_are_those_of_the_makers_maths(tmp_path: Path, name: str) -> None:
    """Each row joins the state of a place with the token after it; what comes out stands for the next state."""
    target, anatomy, drafter = bound(tmp_path, name)
    t = published.arrays(name)
    target.run(mx.array(IDS[:-1], mx.uint32), IDS[:-1])
    states = np.array(anatomy.body(mx.array([IDS[:-1]]), cache=make_prompt_cache(target.model)))[0]
    tokens = list(IDS)
    for _ in range(3):
        rows = qwen(t, np.array(anatomy.embedding(mx.array(tokens[1:]))), states)
        tokens.append(int(mx.argmax(anatomy.head(mx.array(rows[-1:].astype(np.float32)))).item()))
        states = np.concatenate([states, rows[-1:]])
    draft = drafter.propose(context(IDS), Offer(3), 3)
    assert draft.tokens.tolist() == tokens[-3:]
    # And its first guesses over a text at once, by which it is told whether it is this target's, are the same.
    whole = mx.array(np.concatenate([states[:-3], states[:1]]).astype(np.float32))  # the last is not read
    assert drafter.guesses(IDS, [whole]).tolist()[-1] == tokens[-3]


def context(tokens: Sequence[int]) -> Context:
    settings = SamplingSettings(temperature=0)
    return Context(History(list(tokens), VOCABULARY, settings), settings, 0, True)


# ------------------------------------------------------------------------------------------------------------ the text


class Oracle:
    """A head that knows the text, and is wrong at every fourth place."""

    def __init__(self, head: Any, text: Sequence[int]) -> None:
        self.head, self.text = head, list(text)
        self.taps, self.depth = head.taps, head.depth
        self.fuse, self.embed = head.fuse, head.embed

    def __call__(self, embedded: mx.array, hidden: mx.array, caches: Sequence[Any]) -> tuple[mx.array, mx.array]:
        rows: tuple[mx.array, mx.array] = self.head(embedded, hidden, caches)
        self.place = caches[0].offset - 1
        return rows

    def say(self, rows: mx.array) -> mx.array:
        logits: mx.array = self.head.say(rows)
        if self.place % 4 and self.place + 2 < len(self.text):
            logits[:, self.text[self.place + 2]] += 1000
        return logits


@pytest.fixture(scope="module", params=TARGETS)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A target that finds its head among its own files."""
    name, folder = request.param, tmp_path_factory.mktemp("own")
    published.target(folder, name)
    prefix = "mtp." if name in QWEN else "model.layers.4."
    whole = {prefix + n: v for n, v in published.raw(name).items()}
    published.save(folder, whole, {"format": "pt"}, "mtp")
    made = load_engine(folder)
    assert made.info.drafters[-1] == "mtp"
    assert made.notices() == []
    return made


@pytest.fixture
def drafter(engine: Engine) -> Iterator[FeatureDrafter]:
    found = engine.drafters["mtp"]
    assert isinstance(found, FeatureDrafter)
    head = found.head
    engine.reset()
    yield found
    found.head = head
    engine.reset()


MTP = DrafterSettings(("mtp",), adaptive=False, max_draft=3)


def write(engine: Engine, sampling: SamplingSettings, settings: DrafterSettings, stop: int = 0) -> list[Round]:
    rounds: list[Round] = []
    for event in engine.generate(PROMPT, sampling, settings, stop=lambda: bool(stop) and len(rounds) >= stop):
        if isinstance(event, Round):
            rounds.append(event)
    return rounds


def plain(engine: Engine, messages: Sequence[Message], sampling: SamplingSettings) -> list[int]:
    events = Engine(engine.target.model, engine.tokenizer).generate(messages, sampling, DrafterSettings(()))
    return [t for e in events if isinstance(e, Round) for t in e.tokens]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_text_is_plain_decodings(engine: Engine, drafter: FeatureDrafter, temperature: float) -> None:
    sampling = SamplingSettings(max_tokens=40, seed=4, temperature=temperature, repetition_penalty=1.1)
    text = plain(engine, PROMPT, sampling)
    drafter.head = Oracle(drafter.head, engine.encode(PROMPT) + text)
    rounds = write(engine, sampling, MTP)
    assert [t for r in rounds for t in r.tokens] == text
    kept = [len(r.tokens) for r in rounds if r.drafter == "mtp"]
    assert max(kept) == 4  # all three drafts held, and the target's own token
    assert min(kept[:-1]) < 4
    assert len(rounds) < 25
    check_rows(engine, drafter)


def check_rows(engine: Engine, drafter: FeatureDrafter) -> None:
    """The head's cache holds what reading the whole text at once gives, and the states are those of a fresh pass."""
    places, known, head = drafter._places, drafter._known, drafter.head
    n = len(places)
    assert places == list(range(n))
    assert n > 20
    hidden, anatomy = engine.target.hidden, engine.anatomy
    assert hidden is not None
    assert anatomy is not None
    states, fresh = hidden.rows(0, n, head.taps), KVCache()
    head(head.embed(mx.array([known[1 : n + 1]])), head.fuse([s[None] for s in states]), [fresh])
    kept = drafter._caches[0]
    for ours, theirs in ((kept.keys, fresh.keys), (kept.values, fresh.values)):
        np.testing.assert_allclose(np.array(ours[..., :n, :]), np.array(theirs[..., :n, :]), atol=1e-4)
    taps = Taps(anatomy, head.taps)
    engine.target.model(mx.array([known[:n]]), cache=make_prompt_cache(engine.target.model))
    read = taps.take()
    taps.remove()
    assert read is not None
    np.testing.assert_allclose(np.array(states[0]), np.array(read[0][0]), atol=2e-3, rtol=1e-3)


def test_without_an_oracle_the_text_is_the_same(engine: Engine, drafter: FeatureDrafter) -> None:
    sampling = SamplingSettings(max_tokens=20, seed=4, temperature=0.9)
    rounds = write(engine, sampling, DrafterSettings(("mtp",), max_draft=4))
    assert [t for r in rounds for t in r.tokens] == plain(engine, PROMPT, sampling)
    assert isinstance(drafter.head, mtp.MTP)


def test_it_goes_on_after_a_stop_and_an_edit(engine: Engine, drafter: FeatureDrafter) -> None:
    sampling = SamplingSettings(max_tokens=14, seed=4)
    text = plain(engine, PROMPT, sampling)
    drafter.head = Oracle(drafter.head, engine.encode(PROMPT) + text)
    stopped = [t for r in write(engine, sampling, MTP, stop=2) for t in r.tokens]
    assert stopped == text[: len(stopped)]
    assert len(stopped) < len(text)
    head = drafter.head.head
    drafter.head = head
    edited = [Message("user", "one two nine"), Message("assistant", "ten"), Message("user", "and then")]
    for messages in ([*PROMPT, Message("assistant", "six"), Message("user", "and then")], edited):
        events = engine.generate(messages, sampling, MTP)
        drafted = [t for e in events if isinstance(e, Round) for t in e.tokens]
        assert drafted == plain(engine, messages, sampling)
        assert drafter._places == list(range(len(drafter._places)))
    check_rows(engine, drafter)


def test_beside_a_16_bit_target_only_what_chooses_experts_stays_in_32_bits(tmp_path: Path) -> None:
    """mlx has no products of experts in bfloat16 on a CPU, so only the head without any is run."""
    for name in ("qwen3_5", "glm4_moe"):
        _, anatomy, drafter = bound(tmp_path / name, name)
        for part in (anatomy.embedding, anatomy.projection):
            part.set_dtype(mx.bfloat16)
        network = drafter.head.network  # type: ignore[attr-defined]
        head = mtp.MTP(network, anatomy, VOCABULARY)
        assert network.join.weight.dtype == mx.bfloat16
        if name == "glm4_moe":
            assert network.layer.mlp.gate.e_score_correction_bias.dtype == mx.float32
            continue
        rows, _ = head(head.embed(mx.array([IDS[1:]])), head.fuse([mx.zeros((1, 9, WIDTH))]), [KVCache()])
        assert rows.dtype == mx.bfloat16
        assert head.say(rows[0]).shape == (9, VOCABULARY)
        assert head.say(rows[0]).dtype == mx.float32
