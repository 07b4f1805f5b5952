"""DFlash drafters on disk: each producer's layout is read as it is meant, and what does not fit is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

from mlx_spec import heads
from mlx_spec.anatomy import dissect
from mlx_spec.drafters import dflash_files
from mlx_spec.drafters.dflash import DFlash
from mlx_spec.drafters.dflash_files import Loaded
from mlx_spec.drafters.dflash_net import DFlashNet
from mlx_spec.engine import load_engine
from mlx_spec.events import Problem
from mlx_spec.target import Target

from ..tiny import tiny_llama, tiny_model
from . import published_dflash as published
from .published_dflash import KINDS, MASK, RANK, VOCABULARY, WIDTH

Array = np.ndarray[Any, Any]


def read(folder: Path, layers: int = 6, hidden: int = WIDTH, vocabulary: int = VOCABULARY) -> Loaded:
    return dflash_files.read(folder, layers=layers, hidden=hidden, vocabulary=vocabulary)


def same(net: DFlashNet, weights: dict[str, Array]) -> bool:
    ours = dict(tree_flatten(net.parameters()))
    theirs = {f"{n}.weight" if n.endswith("codebook") else n: w for n, w in weights.items()}
    return ours.keys() == theirs.keys() and all(np.array_equal(np.array(ours[n]), theirs[n]) for n in ours)


def weights_of(kind: str) -> dict[str, Array]:
    return published.tensors(published.shapes(kind))


# -------------------------------------------------------------------------------------------------- what is published


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefix", ["", "model."])
def test_each_kind_is_told_and_read(tmp_path: Path, kind: str, prefix: str) -> None:
    weights = weights_of(kind)
    extra = {"rotary_emb.inv_freq": np.zeros(4), "verifier_norm.weight": np.zeros(4), "t2d": np.zeros(4)}
    named = {prefix + n: w for n, w in {**weights, **extra}.items()}
    folder = published.save(tmp_path, named, published.config(kind))
    assert heads.kind(folder) == "dflash"
    loaded = read(folder)
    assert same(loaded.net, weights)
    assert loaded.ids is None
    shape = loaded.net.shape
    assert (shape.taps, shape.mask, shape.head_dim) == ((1, 4), MASK, published.HEAD_DIM)
    assert shape.most == (6 if kind == "dspark" else 5)
    assert shape.markov == ("vanilla" if kind == "dspark" else "")
    assert bool(shape.conv) == bool(shape.selector) == (kind == "dflash2")


def test_what_speculators_write_counts_layers_otherwise(tmp_path: Path) -> None:
    """The layers before, not the layers; the first mask says the first draft; the sizes are one level down."""
    own = ("architectures", "block_size", "markov_rank", "markov_head_type")
    flat = published.config("dspark")
    spoken = np.sort(np.random.default_rng(5).permutation(VOCABULARY)[:200])
    settings = {
        **{k: v for k, v in flat.items() if k in own},
        "speculators_model_type": "dspark", "speculators_config": {"algorithm": "dspark"}, "mask_token_id": MASK,
        "aux_hidden_state_layer_ids": [2, 5], "draft_vocab_size": 200, "target_hidden_size": None,
        "transformer_layer_config": {
            **{k: v for k, v in flat.items() if k not in (*own, "rope_theta", "mask_token_id", "target_layer_ids")},
            "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
        },
    }  # fmt: skip
    weights = published.tensors(published.shapes("dspark", said=200))
    loaded = read(published.save(tmp_path, {**weights, "d2t": spoken - np.arange(200)}, settings))
    shape = loaded.net.shape
    assert shape.taps == (1, 4)
    assert (shape.first, shape.most, shape.rope_theta) == (1, 5, 5000.0)
    assert np.array_equal(loaded.ids, spoken)
    settings["sample_from_anchor"] = True
    (tmp_path / "config.json").write_text(json.dumps(settings))
    assert read(tmp_path).net.shape.first == 0


@pytest.mark.parametrize(
    ("more", "first"),
    [
        ({"architectures": ["DFlashDraftModel"]}, 1),
        ({"architectures": ["DFlashDraftModel"], "dflash_config": {"shift_label": True}}, 0),
        ({"architectures": ["DFlashDraftModel"], "dflash_config": {"projector_type": "dspark"}}, 0),
        ({"architectures": ["DSparkDraftModel"]}, 0),
        ({"architectures": ["DSparkDraftModel"], "sample_from_anchor": False}, 1),
        ({"architectures": ["DSparkDraftModel"], "speculators_model_type": "dspark"}, 1),
    ],
)
def test_which_row_says_the_first_draft(tmp_path: Path, more: Any, first: int) -> None:
    folder = published.make(tmp_path, "dspark", **more)
    assert heads.kind(folder) == "dflash"
    assert read(folder).net.shape.first == first


@pytest.mark.parametrize(
    ("more", "causal"),
    [
        ({}, (True, False)),
        ({"is_causal": True}, (True, True)),
        ({"is_causal": False}, (False, False)),
        ({"sliding_window_non_causal": True}, (False, False)),
        ({"sliding_window_non_causal": False}, (True, False)),
        ({"causal": False}, (False, False)),
    ],
)
def test_which_rows_see_those_behind_them(tmp_path: Path, more: Any, causal: tuple[bool, ...]) -> None:
    shape = read(published.make(tmp_path, "dflash", **more)).net.shape
    assert shape.causal == causal
    assert shape.windows == (published.WINDOW, None)


def test_layers_and_masks_that_are_not_said(tmp_path: Path) -> None:
    weights = weights_of("dflash")
    settings = published.config("dflash", dflash_config={"mask_token_id": MASK})
    assert read(published.save(tmp_path, weights, settings)).net.shape.taps == (1, 3)
    settings = {**published.config("dflash", vocab_size=262144), "dflash_config": {"target_layer_ids": [1, 4]}}
    assert read(published.save(tmp_path, weights, settings), vocabulary=262144).net.shape.mask == 4


def test_rotation_as_the_file_says(tmp_path: Path) -> None:
    loaded = read(published.make(tmp_path, "dflash", rope_is_neox_style=False, partial_rotary_factor=0.5))
    rope = loaded.net.layers[0].self_attn.rope
    assert (rope.dims, rope.traditional) == (12, True)
    with pytest.raises(Problem, match="rotate in different ways"):
        read(published.make(tmp_path, "dflash", rope_parameters={"full_attention": {"rope_theta": 1.0}}))


@pytest.mark.parametrize("kind", KINDS)
def test_quantized_weights_are_read(tmp_path: Path, kind: str) -> None:
    """As mlx-lm writes them: the linear layers whose rows are whole groups, embeddings among them."""
    loaded = read(published.make(tmp_path / "whole", kind))
    x = mx.random.normal((1, 3, WIDTH))
    fused = loaded.net.fuse([x, x])
    fits = lambda path, m: hasattr(m, "to_quantized") and m.weight.shape[-1] % 32 == 0  # noqa: E731
    nn.quantize(loaded.net, 32, 8, class_predicate=fits)
    packed = dict(tree_flatten(loaded.net.parameters()))
    folder = published.save(
        tmp_path / "packed",
        packed,
        published.config(kind, quantization={"group_size": 32, "bits": 8, "mode": "affine"}),
    )
    again = read(folder)
    assert hasattr(again.net.fc, "bits")
    assert mx.allclose(again.net.fuse([x, x]), fused, atol=0.05)
    assert again.net.shape.confidence == (WIDTH + RANK if kind == "dspark" else 0)
    target = Target(tiny_model(seed=2, layers=6))
    anatomy = dissect(target.model)
    assert anatomy is not None
    assert isinstance(heads.load(folder, target, anatomy), DFlash)


def test_widths_of_packed_weights_are_told_by_their_groups(tmp_path: Path) -> None:
    """A confidence head and a Markov head whose rows are whole groups, too."""
    sizes = {n: tuple(32 if s == RANK else s for s in shape) for n, shape in published.shapes("dspark").items()}
    sizes["confidence_head.proj.weight"] = (1, WIDTH + 32)
    loaded = read(published.save(tmp_path, published.tensors(sizes), published.config("dspark", markov_rank=32)))
    nn.quantize(loaded.net, 32, 4, class_predicate=lambda path, m: "_head" in path and hasattr(m, "to_quantized"))
    packed = dict(tree_flatten(loaded.net.parameters()))
    settings = published.config("dspark", markov_rank=32, quantization={"group_size": 32, "bits": 4})
    shape = read(published.save(tmp_path, packed, settings)).net.shape
    assert (shape.confidence, shape.markov_sizes[2]) == (WIDTH + 32, 32)


# ----------------------------------------------------------------------------------------------------- what is refused


def refusal(folder: Path, weights: dict[str, Array], settings: dict[str, Any], **sizes: int) -> str:
    with pytest.raises(Problem) as refused:
        read(published.save(folder, weights, settings), **sizes)
    assert refused.value.remedy
    return refused.value.message


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("dflash", "layers.1.mlp.up_proj.weight"),
        ("dflash", "layers.0.self_attn.q_norm.weight"),
        ("dflash", "norm.weight"),
        ("dspark", "markov_head.markov_w2"),
        ("dspark", "confidence_head.proj.bias"),
        ("dflash2", "layers.0.attention_conv.base_kernel"),
        ("dflash2", "candidate_selector.predecessor_codebook"),
        ("dflash2", "candidate_selector.hidden_projection.weight"),
    ],
)
def test_missing_tensors_are_named(tmp_path: Path, kind: str, name: str) -> None:
    weights = {n: w for n, w in weights_of(kind).items() if not n.startswith(name)}
    assert f"incomplete: {name}" in refusal(tmp_path, weights, published.config(kind))


def test_a_network_that_is_not_known_is_refused(tmp_path: Path) -> None:
    weights, settings = weights_of("dflash"), published.config("dflash")
    more = {"layer_fusion_weights": np.zeros((2, 2))}
    assert "not known here: layer_fusion_weights" in refusal(tmp_path, {**weights, **more}, settings)
    sinks = {"layers.0.self_attn.attention_sink_bias": np.zeros(4)}
    assert "attention_sink_bias" in refusal(tmp_path, {**weights, **sinks}, settings)
    for name in ("Gemma4DSparkModel", "Qwen35DSparkModel"):
        other = published.config("dspark", architectures=[name])
        assert f"of the kind {name}" in refusal(tmp_path, weights_of("dspark"), other)
    # The authors' own class has one kind of layers for all targets.
    assert read(published.make(tmp_path, "dflash", model_type="gemma4_text")).net.shape.layers == 2
    assert "no DFlash drafter: it has no fc.weight" in refusal(tmp_path, {"norm.weight": np.zeros(4)}, settings)
    gate = {"markov_head.gate_proj.weight": np.zeros((RANK, WIDTH + RANK))}
    assert "gate_proj" in refusal(tmp_path, {**weights_of("dspark"), **gate}, published.config("dspark"))
    other = published.config("dspark", markov_head_type="fir")
    assert 'Markov head of the kind "fir"' in refusal(tmp_path, weights_of("dspark"), other)


def test_another_targets_drafter_is_refused(tmp_path: Path) -> None:
    weights, settings = weights_of("dflash"), published.config("dflash")
    assert "with 6 layers, and this one has 36" in refusal(tmp_path, weights, settings, layers=36)
    assert "with 64 features, and this one has 128" in refusal(tmp_path, weights, settings, hidden=128)
    assert "with 320 tokens, and this one has 49,152" in refusal(tmp_path, weights, settings, vocabulary=49152)
    spark = weights_of("dspark")
    assert "fc.weight is [64, 128] and should be [64, 256]" in refusal(
        tmp_path, spark, published.config("dspark"), hidden=128
    )
    few = {**settings, "num_target_layers": None}
    assert "reads the layers 1, 4, and this model has 3" in refusal(tmp_path, weights, few, layers=3)
    masked = {**settings, "dflash_config": {"mask_token_id": 400, "target_layer_ids": [1, 4]}}
    assert "mask of the drafter" in refusal(tmp_path, weights, masked)


def test_contradictions_are_refused(tmp_path: Path) -> None:
    weights, settings = weights_of("dflash"), published.config("dflash")
    wide = {**weights, "layers.0.self_attn.o_proj.weight": np.zeros((WIDTH, 8))}
    assert "o_proj.weight is [64, 8] and should be [64, 96]" in refusal(tmp_path, wide, settings)
    assert "fc.weight is [64, 128] and should be [64, 192]" in refusal(
        tmp_path, weights, {**settings, "dflash_config": {"mask_token_id": MASK, "target_layer_ids": [1, 2, 4]}}
    )
    for missing in ("block_size", "num_attention_heads", "intermediate_size", "sliding_window"):
        less = {k: v for k, v in settings.items() if k != missing}
        assert f"incomplete: {missing} is missing" in refusal(tmp_path, weights, less)
    assert "mask_token_id is missing" in refusal(tmp_path, weights, {**settings, "dflash_config": {}})
    for key, wrong in (
        ("block_size", 1), ("num_key_value_heads", 3), ("layer_types", ["full_attention"]), ("sliding_window", 1),
        ("layer_types", ["linear_attention"] * 2), ("hidden_size", "many"),
    ):  # fmt: skip
        assert "make no sense" in refusal(tmp_path, weights, {**settings, key: wrong})
    odd = published.config("dflash2")
    odd["dflash_config"]["conv_group_size"] = 15
    assert "make no sense" in refusal(tmp_path, weights_of("dflash2"), odd)
    spark = weights_of("dspark")
    less = {**spark, "markov_head.markov_w2.weight": np.zeros((200, RANK))}
    assert "say 200 and 320 tokens" in refusal(tmp_path, less, published.config("dspark"))
    spoken = {"d2t": np.full(VOCABULARY, 1)}
    assert "maps its tokens (d2t)" in refusal(tmp_path, {**spark, **spoken}, published.config("dspark"))
    sure = {**spark, "confidence_head.proj.weight": np.zeros((1, 70))}
    assert "confidence head reads 70 features" in refusal(tmp_path, sure, published.config("dspark"))
    (tmp_path / "model.safetensors").write_bytes(b"no tensors at all")
    with pytest.raises(Problem, match="cannot be read"):
        read(tmp_path)


def test_the_engine_tells_if_a_drafter_guesses_nothing_right(tmp_path: Path) -> None:
    """A wrong layer, row or model fails nowhere else."""
    folder = published.make(tmp_path / "head", "dflash")
    engine = load_engine(tiny_llama(tmp_path / "target", layers=6), head=folder)
    assert any("first guesses of the drafter" in n for n in engine.notices())
    with pytest.raises(Problem, match="with 6 layers, and this one has 2"):
        load_engine(tiny_llama(tmp_path / "other", layers=2), head=folder)
