"""EAGLE heads as each of their makers publishes them: read as they are meant, or refused in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache

from mlx_spec import heads
from mlx_spec.anatomy import Anatomy, dissect
from mlx_spec.drafters import eagle1_files, eagle_files
from mlx_spec.drafters.eagle import Eagle
from mlx_spec.drafters.eagle1 import Eagle1
from mlx_spec.drafters.eagle_head import EagleHead, Shape
from mlx_spec.drafters.feature import Head
from mlx_spec.events import Problem
from mlx_spec.target import Target

from ..tiny import tiny_llama, tiny_model
from . import published, reference_eagle
from .published import SAID, VOCABULARY, WIDTH, Array

LAYERS = 8
FROM_CONFIG = (0, 3, 6)
RULE = (1, 3, 4)  # of the authors, for eight layers


@pytest.fixture(scope="module")
def anatomy() -> Iterator[Anatomy]:
    found = dissect(tiny_model(seed=2, layers=LAYERS))
    assert found is not None
    yield found
    mx.clear_cache()


def ids_in(key: str, *more: int, **settings: Any) -> dict[str, Any]:
    """Settings with a list of layers, by the name and at the place that a producer gives it."""
    if key == "specforge":
        return {"eagle_config": {"eagle_aux_hidden_state_layer_ids": list(FROM_CONFIG)}, **settings}
    inner = {**published.config(rope_theta=500000.0), **settings.pop("inner", {})}
    return {
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "transformer_layer_config": inner,
        "speculators_config": {"algorithm": "eagle3", "proposal_methods": [{"speculative_tokens": 5}]},
        "draft_vocab_size": SAID, "eagle_aux_hidden_state_layer_ids": [i + 1 for i in FROM_CONFIG], **settings,
    }  # fmt: skip


@dataclass(frozen=True)
class Layout:
    tensors: dict[str, Array]
    config: dict[str, Any]
    taps: tuple[int, ...]
    maker: str
    torch: bool = False
    more: dict[str, Array] = field(default_factory=dict)  # tensors that are there and mean nothing
    named: Callable[[dict[str, Array]], dict[str, Array]] = dict
    kind: str = "eagle3"


def inside(tensors: dict[str, Array]) -> dict[str, Array]:
    return {f"model.{n}" if n not in ("d2t", "t2d") else n: v for n, v in tensors.items()}


VERIFIER = {"verifier_norm.weight": np.ones(WIDTH, "f4"), "verifier_lm_head.weight": np.ones((SAID, WIDTH), "f4")}
INV_FREQ = {"midlayer.self_attn.rotary_emb.inv_freq": np.ones(8, "f4")}
SPECFORGE = published.config(**ids_in("specforge"), draft_vocab_size=SAID)
LAYOUTS = {
    "SafeAILab": Layout(
        published.eagle3(), published.config(draft_vocab_size=SAID), RULE, "safeailab",
        torch=True, more=INV_FREQ, named=published.midlayer,
    ),
    "SpecForge": Layout(published.eagle3(), SPECFORGE, FROM_CONFIG, "specforge", named=published.midlayer),
    "SpecForge, every token": Layout(
        published.eagle3(mapped=False), SPECFORGE, FROM_CONFIG, "specforge", named=published.midlayer
    ),
    "speculators": Layout(
        published.eagle3(own=True), ids_in("speculators", norm_before_residual=True), FROM_CONFIG, "speculators",
        more=VERIFIER,
    ),
    "vLLM": Layout(
        published.eagle3(), published.config(eagle_aux_hidden_state_layer_ids=[1, 4, 7]), FROM_CONFIG, "speculators",
        named=inside,
    ),
    "EAGLE-3.1": Layout(
        published.eagle3(norm_each=True), {**SPECFORGE, "fc_norm": True, "norm_output": True}, FROM_CONFIG,
        "specforge", named=published.midlayer,
    ),
    "normed before fc": Layout(
        published.eagle3(norm_whole=True), ids_in("speculators", norm_before_fc=True), FROM_CONFIG, "speculators"
    ),
    "P-EAGLE": Layout(
        published.eagle3(layers=4, bias=True), {**SPECFORGE, "num_hidden_layers": 4, "attention_bias": True},
        FROM_CONFIG, "specforge",
    ),
    "narrow": Layout(
        published.eagle3(d=32, own=True), {**SPECFORGE, "hidden_size": 32, "target_hidden_size": WIDTH}, FROM_CONFIG,
        "specforge", named=published.midlayer,
    ),
    "EAGLE-1": Layout(published.eagle1(own=True), published.config(), (LAYERS,), "", torch=True, kind="eagle"),
    "EAGLE-1, the target's embedding": Layout(
        published.eagle1(bias=False), published.config(bias=False), (LAYERS,), "", named=inside, kind="eagle"
    ),
    "EAGLE-1, two layers, normed": Layout(
        published.eagle1(layers=2, normed=True), published.config(num_hidden_layers=2), (LAYERS,), "", kind="eagle"
    ),
}  # fmt: skip


def write(folder: Path, layout: Layout) -> Path:
    return published.save(folder, {**layout.named(layout.tensors), **layout.more}, layout.config, layout.torch)


def bound(folder: Path, anatomy: Anatomy) -> tuple[Head, str]:
    """The head in `folder` at the target, and who is thought to have made it."""
    sizes = {"layers": LAYERS, "hidden": WIDTH, "vocabulary": VOCABULARY}
    if heads.kind(folder) == "eagle":
        return Eagle1(eagle1_files.read(folder, **sizes), anatomy, VOCABULARY), ""
    loaded = eagle_files.read(folder, **sizes)
    return Eagle(loaded, anatomy, VOCABULARY), loaded.layout


def drafted(head: Head, tokens: list[int], states: list[Array], steps: int) -> list[Array]:
    """As reference_eagle.drafted, with caches."""
    caches = [KVCache() for _ in range(head.depth)]
    hidden = head.fuse([mx.array(s[None].astype(np.float32)) for s in states])
    rows, fed = head(head.embed(mx.array([tokens], mx.uint32)), hidden, caches)
    found = [np.array(head.say(rows[0]))]
    for _ in range(steps):
        token = mx.array([[int(np.argmax(found[-1][-1]))]], mx.uint32)
        rows, fed = head(head.embed(token), fed[:, -1:], caches)
        found.append(np.array(head.say(rows[0])))
    return found


# ------------------------------------------------------------------------------------------------ what is read is meant


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_published_head_says_what_the_paper_says(tmp_path: Path, anatomy: Anatomy, name: str) -> None:
    """Its layers, its tokens, and its logits over a text and two steps beyond it, against the plain statement."""
    layout = LAYOUTS[name]
    folder = write(tmp_path, layout)
    assert heads.kind(folder) == layout.kind
    head, maker = bound(folder, anatomy)
    assert (head.taps, maker) == (layout.taps, layout.maker)
    t = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in layout.tensors.items()}
    c = {**published.config(), **layout.config.get("transformer_layer_config", {}), **layout.config}
    body: Any = anatomy.embedding
    theirs = np.array(body.weight).astype(np.float64)
    rng = np.random.default_rng(4)
    tokens = [int(i) for i in rng.integers(3, VOCABULARY, 7)]
    states = [rng.normal(size=(7, WIDTH)) * 2 for _ in layout.taps]
    if layout.kind == "eagle":
        forward, hidden = reference_eagle.eagle1(t, c, theirs), states[0]
    else:
        forward, hidden = reference_eagle.eagle3(t, c), reference_eagle.eagle3_fuse(t, c, states)
    expected = reference_eagle.drafted(forward, t.get("embed_tokens.weight", theirs), tokens, hidden, 2)
    spoken = published.spoken() if "d2t" in t else np.arange(VOCABULARY)
    for ours, logits in zip(drafted(head, tokens, states, 2), expected, strict=True):
        assert np.std(logits) > 0.3
        np.testing.assert_allclose(ours[:, spoken], logits, atol=1e-4 * np.abs(logits).max(), rtol=1e-4)
        assert np.isneginf(np.delete(ours, spoken, axis=1)).all()


HABITS: dict[str, dict[str, Any]] = {
    "EAGLE-3": {},
    "EAGLE-3.1": {"norm_each": True, "norm_output": True},
    "others": {"norm_before_fc": True, "norm_before_residual": True, "bias": True, "layers": 3, "taps": (-1, 2, 7)},
}


@pytest.mark.parametrize("bits", [None, 8])
@pytest.mark.parametrize("habits", HABITS)
def test_what_is_written_is_read(tmp_path: Path, anatomy: Anatomy, habits: str, bits: int | None) -> None:
    sizes = {"hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate": 128, "vocabulary": SAID}
    mx.random.seed(2)
    head = EagleHead(Shape(**{**sizes, "target_hidden": WIDTH, "taps": RULE, **HABITS[habits]}))
    eagle_files.write(tmp_path, head, published.spoken(), VOCABULARY, {"outrider": {"mark": [1.0]}}, bits)
    assert heads.kind(tmp_path) == "eagle3"
    loaded = eagle_files.read(tmp_path, layers=LAYERS, hidden=WIDTH, vocabulary=VOCABULARY)
    assert loaded.head.shape == head.shape
    assert np.array_equal(loaded.ids, published.spoken())
    assert hasattr(loaded.head.lm_head, "bits") == (bits is not None)
    rng = np.random.default_rng(4)
    tokens, states = [5, 9, 200, 31], [rng.normal(size=(4, WIDTH)) for _ in range(3)]
    written = drafted(Eagle(eagle_files.Loaded(head, loaded.ids, ""), anatomy, VOCABULARY), tokens, states, 0)[0]
    read = drafted(Eagle(loaded, anatomy, VOCABULARY), tokens, states, 0)[0]
    said = published.spoken()
    np.testing.assert_allclose(read[:, said], written[:, said], atol=0.03 if bits else 0, rtol=0)


def test_a_quantized_head_of_the_first_kind_is_read(tmp_path: Path, anatomy: Anatomy) -> None:
    tensors = {n: mx.array(v) for n, v in published.eagle1(own=True).items()}
    packed = dict(tensors)
    for name in [n for n, v in tensors.items() if v.ndim == 2 and v.shape[-1] % 64 == 0]:
        stem = name.removesuffix(".weight")
        packed[name], packed[f"{stem}.scales"], packed[f"{stem}.biases"] = mx.quantize(tensors[name], 64, 8)
    config = published.config()
    published.save(tmp_path / "whole", {n: np.array(v) for n, v in tensors.items()}, config)
    published.save(tmp_path / "packed", {}, {**config, "quantization": {"group_size": 64, "bits": 8}})
    mx.save_safetensors(str(tmp_path / "packed" / "model.safetensors"), packed)
    rng = np.random.default_rng(4)
    tokens, states = [5, 9, 200, 31], [rng.normal(size=(4, WIDTH))]
    whole = drafted(bound(tmp_path / "whole", anatomy)[0], tokens, states, 1)[0]
    near = drafted(bound(tmp_path / "packed", anatomy)[0], tokens, states, 1)[0]
    np.testing.assert_allclose(near, whole, atol=0.03 * np.abs(whole).max())
    assert not np.array_equal(near, whole)


def test_tokens_beyond_the_heads_own_embedding_are_read_as_its_last(tmp_path: Path, anatomy: Anatomy) -> None:
    """A target may have rows of padding more than the head; nothing is read from beyond its memory."""
    tensors = published.eagle3(own=True)
    tensors["embed_tokens.weight"] = tensors["embed_tokens.weight"][:-20]
    folder = published.save(tmp_path, tensors, {**SPECFORGE, "vocab_size": VOCABULARY - 20})
    head, _ = bound(folder, anatomy)
    embedded = head.embed(mx.array([3, VOCABULARY - 21, VOCABULARY - 1]))
    np.testing.assert_array_equal(np.array(embedded), tensors["embed_tokens.weight"][[3, -1, -1]])


# ----------------------------------------------------------------------------------------- what does not fit is refused


def refusal(folder: Path, kind: str = "eagle3", **sizes: int) -> str:
    of = {"layers": LAYERS, "hidden": WIDTH, "vocabulary": VOCABULARY, **sizes}
    with pytest.raises(Problem) as refused:
        (eagle1_files if kind == "eagle" else eagle_files).read(folder, **of)
    assert refused.value.remedy
    assert str(folder) in refused.value.message
    return refused.value.message


WHOLE = {
    "eagle3": (published.eagle3(layers=2, bias=True, norm_each=True, own=True), SPECFORGE),
    "eagle": (published.eagle1(layers=2, own=True), published.config(num_hidden_layers=2)),
}
WEIGHTS = [(kind, n) for kind, (tensors, _) in WHOLE.items() for n in tensors if n not in ("d2t", "t2d")]
MAY_BE_MISSING = {
    "embed_tokens.weight", "fc.bias", "fc_norm.0.weight", "layers.0.self_attn.q_proj.bias",
}  # fmt: skip  # a head without them is a head, of another habit


@pytest.mark.parametrize(("kind", "name"), [w for w in WEIGHTS if w[1] not in MAY_BE_MISSING])
def test_a_missing_tensor_is_named(tmp_path: Path, kind: str, name: str) -> None:
    tensors, config = WHOLE[kind]
    message = refusal(published.save(tmp_path, {n: v for n, v in tensors.items() if n != name}, config), kind)
    if name == "fc.weight":
        assert message.endswith("is no EAGLE head: it has no fc.weight.")
    else:
        assert message.endswith(f"is incomplete: {name} is missing.")


@pytest.mark.parametrize(("kind", "name"), WEIGHTS)
def test_a_tensor_of_another_shape_is_named(tmp_path: Path, kind: str, name: str) -> None:
    tensors, config = WHOLE[kind]
    value = tensors[name]
    wrong = np.concatenate([value, value[..., :2]], axis=-1)
    message = refusal(published.save(tmp_path, {**tensors, name: wrong}, config), kind)
    if name == "norm.weight":
        assert "contradicts itself: 66 features, not 64" in message
    else:
        assert message.endswith(f"does not fit: {name} is {list(wrong.shape)} and should be {list(value.shape)}.")


@pytest.mark.parametrize("kind", ["eagle3", "eagle"])
def test_another_model_is_refused(tmp_path: Path, kind: str) -> None:
    tensors, config = WHOLE[kind]
    folder = published.save(tmp_path, tensors, config)
    assert "with 64 features, and this one has 128" in refusal(folder, kind, hidden=128)
    assert "with 320 tokens, and this one has 49,152" in refusal(folder, kind, vocabulary=49152)
    folder = published.save(tmp_path, tensors, {**config, "vocab_size": 128256})
    assert "with 128,256 tokens, and this one has 320" in refusal(folder, kind)
    folder = published.save(tmp_path, tensors, {k: v for k, v in config.items() if k != "vocab_size"})
    assert "reads 320 tokens, and this model has 2,000" in refusal(folder, kind, vocabulary=2000)


def test_a_narrow_head_needs_an_embedding_of_its_own(tmp_path: Path) -> None:
    tensors, layout = dict(LAYOUTS["narrow"].tensors), LAYOUTS["narrow"]
    del tensors["embed_tokens.weight"]
    message = refusal(published.save(tmp_path, tensors, layout.config))
    assert "has 32 features and no embedding of its own, and this model's has 64" in message


def test_layers_that_the_model_does_not_have_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, LAYOUTS["SpecForge"])
    assert "reads the layers 0, 3, 6, and this model has 6" in refusal(folder, layers=6)
    folder = published.save(tmp_path, published.eagle3(), ids_in("speculators", eagle_aux_hidden_state_layer_ids=[-1]))
    assert "reads the layers -2, and" in refusal(folder)
    two = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 3]}}
    folder = published.save(tmp_path, published.eagle3(), published.config(**two))
    assert "fc.weight is [64, 192] and should be [64, 128]" in refusal(folder)


def test_a_map_of_tokens_that_leads_outside_is_refused(tmp_path: Path) -> None:
    right = published.eagle3()["d2t"]
    more, less, twice = right.copy(), right.copy(), right.copy()
    more[-1] = VOCABULARY - SAID + 1
    less[0] = -1
    twice[1] = published.spoken()[0] - 1
    for wrong in (more, less, twice, right[:-1], np.append(right, 0)):
        folder = published.save(tmp_path, {**published.eagle3(), "d2t": wrong}, SPECFORGE)
        assert "maps its tokens (d2t) to ones that this model does not have" in refusal(folder)
    folder = published.save(tmp_path, published.eagle3(mapped=False), {**SPECFORGE, "vocab_size": 300})
    assert "says tokens that this model does not have" in refusal(folder, vocabulary=300)


BROKEN = {
    "{": "cannot be read",
    "[1, 2]": "cannot be read: it is no object",
    '{"hidden_size": 64}': "incomplete: num_attention_heads is missing",
    "hidden_size": (["64"], "make no sense"),
    "num_attention_heads": (0, "make no sense"),
    "num_key_value_heads": (3, "make no sense: 64 features, 4 heads of queries and 3 of keys"),
    "rms_norm_eps": ("small", "make no sense"),
    "vocab_size": ("many", "make no sense"),
    "rope_scaling": ({"rope_type": "of tomorrow"}, "make no sense: Unsupported RoPE type of tomorrow"),
    "quantization": ({"group_size": 64}, "incomplete: bits is missing"),
}


@pytest.mark.parametrize("kind", ["eagle3", "eagle"])
@pytest.mark.parametrize("broken", BROKEN)
def test_broken_settings_are_refused(tmp_path: Path, kind: str, broken: str) -> None:
    tensors, config = WHOLE[kind]
    change = BROKEN[broken]
    if isinstance(change, str):
        assert change in refusal(published.save(tmp_path, tensors, broken), kind)
    else:
        assert change[1] in refusal(published.save(tmp_path, tensors, {**config, broken: change[0]}), kind)


def test_a_list_of_layers_that_is_none_is_refused(tmp_path: Path) -> None:
    for listed in (["low", "high"], 5, [None]):
        config = {**SPECFORGE, "eagle_config": {"eagle_aux_hidden_state_layer_ids": listed}}
        assert "make no sense" in refusal(published.save(tmp_path, published.eagle3(), config))


@pytest.mark.parametrize("kind", ["eagle3", "eagle"])
def test_an_empty_or_damaged_folder_is_refused(tmp_path: Path, kind: str) -> None:
    tensors, config = WHOLE[kind]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "config.json cannot be read" in refusal(empty, kind)
    (empty / "config.json").write_text(json.dumps(config))
    assert refusal(empty, kind) == f"There are no weights in {empty}."
    with pytest.raises(Problem, match=r"no fc\.weight|no weights"):
        heads.load(empty, *target())
    for torch in (False, True):
        folder = published.save(tmp_path / "cut", tensors, config, torch)
        (file,) = [f for f in folder.iterdir() if f.suffix != ".json"]
        for size in (0, 7, 100, file.stat().st_size - 400):
            file.write_bytes(file.read_bytes()[:size])
            assert "cannot be read" in refusal(folder, kind)
            with pytest.raises(Problem, match="cannot be read"):
                heads.kind(folder)
            published.save(folder, tensors, config, torch)


def target() -> tuple[Target, Anatomy]:
    model = tiny_model(seed=2, layers=LAYERS)
    found = dissect(model)
    assert found is not None
    return Target(model), found


@pytest.mark.parametrize("kind", ["eagle3", "eagle"])
@pytest.mark.parametrize("module", ["posix", "os"])
def test_weights_that_would_run_something_are_refused_and_do_not_run(tmp_path: Path, kind: str, module: str) -> None:
    """At every place where a file is looked into: the whole, its names, and a head among others that is not asked
    for by name."""
    folder = published.save(tmp_path / "heads" / "evil", {}, WHOLE[kind][1], torch=True)
    proof = tmp_path / "ran"
    program = published.calling(module, "system", f"touch {proof}")
    published.program_file(folder / "pytorch_model.bin", program)
    assert f"would run {module}.system" in refusal(folder, kind)
    for look in (heads.kind, lambda f: heads.load(f, *target())):
        with pytest.raises(Problem, match=rf"would run {module}\.system"):
            look(folder)
    mark = {"outrider": {"mark": heads.mark(target()[1])}}
    (folder / "config.json").write_text(json.dumps({**WHOLE[kind][1], **mark}))
    # It is this model's, so it is found, and the refusal told.
    assert list(heads.find([tmp_path / "heads"], target()[1]).values()) == [folder]
    assert not proof.exists()


# --------------------------------------------------------------------------------------------------- what kind it is of


def test_kinds_are_told_by_what_they_are_made_of(tmp_path: Path) -> None:
    """Settings say little: the first EAGLE's are a Llama's. A damaged head is still the one that it was."""
    config = published.config()
    for name, layout in LAYOUTS.items():
        assert heads.kind(published.save(tmp_path / "a", layout.named(layout.tensors), config)) == layout.kind, name
    no_output = {n: v for n, v in published.eagle3().items() if n != "lm_head.weight"}
    for tensors in (no_output, published.midlayer(no_output)):
        folder = published.save(tmp_path / "a", tensors, config)
        assert heads.kind(folder) == "eagle3"
        assert "lm_head.weight is missing" in refusal(folder)
    folder = published.save(tmp_path / "a", published.eagle1(), {**config, "medusa_num_heads": 2})
    assert heads.kind(folder) == "medusa"


@pytest.mark.parametrize("name", ["SafeAILab", "speculators", "EAGLE-1"])
def test_a_folder_becomes_a_drafter(tmp_path: Path, name: str) -> None:
    """Under the name of its kind, with the states that it reads kept by the target, and others' not lost."""
    aim, parts = target()
    heads.want(aim, parts, (5,))
    drafter = heads.load(write(tmp_path, LAYOUTS[name]), aim, parts)
    assert drafter.name == LAYOUTS[name].kind
    assert aim.hidden is not None
    assert set(aim.hidden.wanted) == {5, *LAYOUTS[name].taps}
    assert 0 < drafter.cost_hint < 2


def test_a_head_from_elsewhere_that_guesses_nothing_is_doubted(tmp_path: Path) -> None:
    from mlx_spec.engine import load_engine

    folder = write(tmp_path / "head", LAYOUTS["EAGLE-1"])
    engine = load_engine(tiny_llama(tmp_path / "target", layers=LAYERS), head=folder)
    assert "eagle" in engine.info.drafters
    assert any("it was made for another model" in n for n in engine.notices())
