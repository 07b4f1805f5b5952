"""Gemma 4's assistants: the maths is Google's, they look at the target's own keys, the text stays plain decoding's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from mlx_spec import heads
from mlx_spec.anatomy import dissect
from mlx_spec.drafters import assistant_files
from mlx_spec.drafters.assistant import Assistant, AssistantDrafter
from mlx_spec.drafters.base import Context, Offer
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import DrafterSettings, Message, Problem, Round, SamplingSettings
from mlx_spec.sampling import History
from mlx_spec.target import Target

from .. import zoo
from ..tiny import tiny_llama

Array = np.ndarray[Any, Any]
VOCABULARY, WIDTH, OWN, WINDOW, EPS = 320, 64, 32, 16, 1e-5
KINDS = ["sliding_attention", "full_attention"]
PROMPT = [Message("user", "one two three four five")]
IDS = [5 + 7 * i % 300 for i in range(40)]
GREEDY = SamplingSettings(temperature=0)


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    yield
    mx.clear_cache()


def config(shared: int = 0) -> dict[str, Any]:
    """A target whose last `shared` layers read the keys of those before."""
    return {
        **zoo.config("gemma4_text"), "vocab_size": VOCABULARY, "vocab_size_per_layer_input": VOCABULARY,
        "global_head_dim": 32, "layer_types": KINDS * 2, "num_kv_shared_layers": shared, "eos_token_id": 2,
        "final_logit_softcapping": 30.0,
    }  # fmt: skip


def facts(groups: int, **more: Any) -> dict[str, Any]:
    text = {
        "model_type": "gemma4_text", "hidden_size": OWN, "num_hidden_layers": 2, "intermediate_size": 48,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 32,
        "layer_types": KINDS, "vocab_size": VOCABULARY, "rms_norm_eps": EPS, "sliding_window": WINDOW,
        "rope_parameters": zoo.SWA_ROPE, "max_position_embeddings": 512, "num_kv_shared_layers": 0,
    }  # fmt: skip
    return {
        "model_type": "gemma4_assistant", "backbone_hidden_size": WIDTH, "text_config": text,
        "tie_word_embeddings": True, "use_ordered_embeddings": bool(groups), "num_centroids": groups or 2048,
        "centroid_intermediate_top_k": 4, **more,
    }  # fmt: skip


def arrays(groups: int) -> dict[str, Array]:
    """The tensors, named and shaped as they are published."""
    rng = np.random.default_rng(9)
    shapes: dict[str, tuple[int, ...]] = {
        "pre_projection.weight": (OWN, 2 * WIDTH), "post_projection.weight": (WIDTH, OWN),
        "model.embed_tokens.weight": (VOCABULARY, OWN), "model.norm.weight": (OWN,),
    }  # fmt: skip
    for i, dim in enumerate((16, 32)):
        start = f"model.layers.{i}."
        for norm in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            shapes[f"{start}{norm}_layernorm.weight"] = (OWN,)
        shapes |= {
            f"{start}self_attn.q_proj.weight": (4 * dim, OWN), f"{start}self_attn.o_proj.weight": (OWN, 4 * dim),
            f"{start}self_attn.q_norm.weight": (dim,), f"{start}mlp.gate_proj.weight": (48, OWN),
            f"{start}mlp.up_proj.weight": (48, OWN), f"{start}mlp.down_proj.weight": (OWN, 48),
            f"{start}layer_scalar": (1,),
        }  # fmt: skip
    if groups:
        shapes["masked_embedding.centroids.weight"] = (groups, OWN)
    made = {}
    for name, shape in shapes.items():
        value = rng.normal(size=shape) * (1.5 / shape[-1] ** 0.5 if len(shape) > 1 else 0.3)
        made[name] = (value if len(shape) > 1 else 1 + value).astype(np.float32)
    if groups:
        made["masked_embedding.token_ordering"] = rng.permutation(VOCABULARY)
    return made


def write(folder: Path, groups: int = 0, tensors: Mapping[str, Any] | None = None, **more: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    whole = {n: mx.array(v) for n, v in (tensors or arrays(groups)).items()}
    mx.save_safetensors(str(folder / "model.safetensors"), whole, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(facts(groups, **more)))
    return folder


def bound(folder: Path, groups: int = 0, shared: int = 0, **more: Any) -> tuple[Target, AssistantDrafter]:
    target = Target(zoo.build("gemma4_text", **config(shared)), **more)
    anatomy = dissect(target.model)
    assert anatomy is not None
    drafter = heads.build_mtp(write(folder, groups), target, anatomy)
    assert isinstance(drafter, AssistantDrafter)
    return target, drafter


# ----------------------------------------------------------------------------------------------------------- the maths


def rms(x: Array, weight: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def step(
    t: dict[str, Array], embedded: Array, hidden: Array, seen: Mapping[str, Any], place: int
) -> tuple[Array, Array]:
    """One row (D,): what the head says of all tokens (V,), and what is fed back (D,)."""
    x = np.concatenate([embedded, hidden]) @ t["pre_projection.weight"].T
    for i, (kind, dim) in enumerate(zip(KINDS, (16, 32), strict=True)):

        def of(name: str, i: int = i) -> Array:
            return t[f"model.layers.{i}.{name}"]

        q = (rms(x, of("input_layernorm.weight")) @ of("self_attn.q_proj.weight").T).reshape(4, dim)
        q = rms(q, of("self_attn.q_norm.weight"))
        angle = place * 10000.0 ** (-np.arange(dim // 2) / (dim // 2))
        a, b = q[:, : dim // 2], q[:, dim // 2 :]
        q = np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)
        keys, values = (np.repeat(np.array(v)[0], 2, axis=0) for v in seen[kind])
        scores = np.einsum("hd,hjd->hj", q, keys)  # not scaled
        chances = np.exp(scores - scores.max(-1, keepdims=True))
        chances /= chances.sum(-1, keepdims=True)
        out = np.einsum("hj,hjd->hd", chances, values).reshape(-1) @ of("self_attn.o_proj.weight").T
        x = x + rms(out, of("post_attention_layernorm.weight"))
        u = rms(x, of("pre_feedforward_layernorm.weight"))
        g = u @ of("mlp.gate_proj.weight").T
        gelu = 0.5 * g * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3)))
        out = (gelu * (u @ of("mlp.up_proj.weight").T)) @ of("mlp.down_proj.weight").T
        x = (x + rms(out, of("post_feedforward_layernorm.weight"))) * of("layer_scalar")
    y = rms(x, t["model.norm.weight"])
    logits = y @ t["model.embed_tokens.weight"].T
    if "masked_embedding.centroids.weight" in t:
        order = t["masked_embedding.token_ordering"].reshape(len(t["masked_embedding.centroids.weight"]), -1)
        best = order[np.argsort(t["masked_embedding.centroids.weight"] @ y)[-4:]].reshape(-1)
        logits = np.where(np.isin(np.arange(VOCABULARY), best), logits, -np.inf)
    return logits, y @ t["post_projection.weight"].T


@pytest.mark.parametrize("groups", [0, 32])
@pytest.mark.parametrize("shared", [0, 2])
def test_drafts_are_those_of_the_makers_maths(tmp_path: Path, groups: int, shared: int) -> None:
    """The newest token beside the state that chose it; all steps at its place; the target's last keys of each kind."""
    target, drafter = bound(tmp_path, groups, shared)
    t, model = arrays(groups), target.model
    target.run(mx.array(IDS[:-1], mx.uint32), IDS[:-1])
    layers = (0, 1) if shared else (2, 3)
    seen = {kind: target.caches.layers[i] for kind, i in zip(KINDS, layers, strict=True)}
    n = len(IDS) - 1
    kept = {kind: [v[..., :n, :] for v in (cache.keys, cache.values)] for kind, cache in seen.items()}
    kept["sliding_attention"] = [v[..., -(WINDOW - 1) :, :] for v in kept["sliding_attention"]]
    hidden = np.array(model.model(mx.array([IDS[:-1]])))[0, -1]
    tokens: list[int] = []
    for _ in range(4):
        token = tokens[-1] if tokens else IDS[-1]
        embedded = np.array(model.model.embed_tokens(mx.array([token])))[0] * 8  # the root of D
        logits, hidden = step(t, embedded, hidden, kept, n)
        tokens.append(int(np.argmax(logits)))
    history = History(IDS, VOCABULARY, GREEDY)
    assert drafter.offer(history, 4) == Offer(4)
    assert drafter.propose(Context(history, GREEDY, 0, True), Offer(4), 4).tokens.tolist() == tokens
    # Where the target has not run all before the newest token there is nothing to draft from.
    assert drafter.offer(History([*IDS, 5], VOCABULARY, GREEDY), 4) is None
    target.caches.keep(n - 2)  # as when rows have to be run again
    assert drafter.offer(history, 4) is None


@pytest.mark.parametrize("groups", [0, 32])
def test_rows_are_the_makers(tmp_path: Path, groups: int) -> None:
    target, drafter = bound(tmp_path, groups)
    target.run(mx.array(IDS, mx.uint32), IDS)
    rng = np.random.default_rng(2)
    embedded, hidden = (rng.normal(size=WIDTH).astype(np.float32) for _ in range(2))
    row, fed = drafter.network(mx.array(embedded)[None], mx.array(hidden)[None], drafter.seen(), len(IDS))
    logits, back = step(arrays(groups), embedded, hidden, drafter.seen(), len(IDS))
    np.testing.assert_allclose(np.array(fed[0]), back, atol=1e-4, rtol=1e-4)
    np.testing.assert_allclose(np.array(drafter.network.say(row)[0]), logits, atol=1e-4, rtol=1e-4)
    assert np.isfinite(logits).sum() == (VOCABULARY if not groups else 4 * VOCABULARY // groups)


def test_keys_in_few_bits_are_looked_at_too(tmp_path: Path) -> None:
    wide, drafter = bound(tmp_path / "wide")
    few, other = bound(tmp_path / "few", kv_bits=8)
    for target in (wide, few):
        target.run(mx.array(IDS[:-1], mx.uint32), IDS[:-1])
        target.run(mx.array(IDS[-1:], mx.uint32), IDS[-1:])
    ours, theirs = other.seen()["full_attention"], drafter.seen()["full_attention"]
    assert not mx.array_equal(ours[0], theirs[0])
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.array(a), np.array(b), atol=0.05)


# ------------------------------------------------------------------------------------------------------------ the text


class Oracle:
    """An assistant that knows the text, and is wrong at every fourth place."""

    def __init__(self, network: Assistant, text: Sequence[int]) -> None:
        self.network, self.text, self.place, self.step = network, list(text), -1, 0

    def __call__(self, embedded: mx.array, hidden: mx.array, seen: Any, place: int) -> tuple[mx.array, mx.array]:
        self.step = self.step + 1 if place == self.place and self.step < 3 else 1
        self.place = place
        return self.network(embedded, hidden, seen, place)

    def say(self, row: mx.array) -> mx.array:
        logits, at = self.network.say(row), self.place + self.step
        if at % 4 and at < len(self.text):
            logits[:, self.text[at]] = 1000
        return logits


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("gemma")
    tiny_llama(folder / "target")
    model = zoo.build("gemma4_text", **config(2))
    mx.save_safetensors(
        str(folder / "target" / "model.safetensors"), dict(tree_flatten(model.parameters())), {"format": "mlx"}
    )
    (folder / "target" / "config.json").write_text(json.dumps(config(2)))
    return load_engine(folder / "target", head=write(folder / "head", 32))


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("known", [False, True])
def test_the_text_is_plain_decodings(engine: Engine, temperature: float, known: bool) -> None:
    """Past the window, with drafts that hold and drafts that do not; what is seen then is what a fresh reading has."""
    drafter = engine.drafters["mtp"]
    assert isinstance(drafter, AssistantDrafter)
    engine.reset()
    sampling = SamplingSettings(max_tokens=40, seed=4, temperature=temperature, repetition_penalty=1.1)
    plain = Engine(engine.target.model, engine.tokenizer).generate(PROMPT, sampling, DrafterSettings(()))
    text = [t for e in plain if isinstance(e, Round) for t in e.tokens]
    network = drafter.network
    if known:
        drafter.network = Oracle(network, engine.encode(PROMPT) + text)  # type: ignore[assignment]
    settings = DrafterSettings(("mtp",), adaptive=False, max_draft=3)
    rounds = [e for e in engine.generate(PROMPT, sampling, settings) if isinstance(e, Round)]
    drafter.network = network
    assert [t for r in rounds for t in r.tokens] == text
    drafted = [r for r in rounds if r.drafter == "mtp"]
    assert drafted
    if known:
        assert max(len(r.tokens) for r in drafted) == 4
        assert len(rounds) < 25
    fresh = Target(engine.target.model)
    ids = engine.target.tokens[: engine.target.caches.length]
    fresh.run(mx.array(ids, mx.uint32), ids)
    assert len(ids) > 2 * WINDOW
    ours, drafter._target = drafter.seen(), fresh
    theirs, drafter._target = drafter.seen(), engine.target
    for kind in KINDS:
        assert ours[kind][0].shape[2] == (WINDOW - 1 if kind == "sliding_attention" else len(ids))
        for a, b in zip(ours[kind], theirs[kind], strict=True):
            np.testing.assert_allclose(np.array(a), np.array(b), atol=2e-3)


# ----------------------------------------------------------------------------------------------------------- the files


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    model = zoo.build("gemma4_text", **config())
    anatomy = dissect(model)
    assert anatomy is not None

    def refusal(name: str, groups: int = 0, tensors: Mapping[str, Any] | None = None, **more: Any) -> str:
        with pytest.raises(Problem) as refused:
            assistant_files.read(write(tmp_path / name, groups, tensors, **more), model, anatomy, VOCABULARY)
        assert refused.value.remedy
        return refused.value.message

    whole, text = arrays(32), facts(0)["text_config"]
    less = {n: v for n, v in whole.items() if n != "masked_embedding.token_ordering"}
    assert "incomplete: masked_embedding.token_ordering is missing" in refusal("less", 32, less)
    odd = {**whole, "model.norm.weight": np.zeros(7, np.float32)}
    assert "model.norm.weight is [7] and should be [32]" in refusal("odd", 32, odd)
    more = {**whole, "model.layers.0.self_attn.k_proj.weight": np.zeros((32, 32), np.float32)}
    assert "not known: model.layers.0.self_attn.k_proj.weight" in refusal("more", 32, more)
    assert "with 128 features and 320 tokens, and this one has 64" in refusal("wide", backbone_hidden_size=128)
    assert "full_attention does not fit" in refusal("head", text_config={**text, "global_head_dim": 16})
    assert "cannot be read" in refusal("bare", text_config=None)
    llama = Target(zoo.build("llama"))
    parts = dissect(llama.model)
    assert parts is not None
    with pytest.raises(Problem, match="made for a Gemma 4"):
        heads.build_mtp(write(tmp_path / "llama"), llama, parts)


def test_it_is_told_by_its_settings(tmp_path: Path) -> None:
    folder = write(tmp_path, model_type="gemma4_unified_assistant")
    assert heads.kind(folder) == "mtp"
    tied = {**arrays(0), "lm_head.weight": arrays(0)["model.embed_tokens.weight"]}
    model = zoo.build("gemma4", text_config=config(), vocab_size=VOCABULARY)  # as a model that sees images wraps it
    anatomy = dissect(model)
    assert anatomy is not None
    assert "centroids" not in assistant_files.read(write(tmp_path, 0, tied), model, anatomy, VOCABULARY)
