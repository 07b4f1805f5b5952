"""MTP heads on disk: found by their tensors, read as whoever wrote them meant them, or refused with the reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache

from mlx_spec import heads
from mlx_spec.anatomy import Anatomy, dissect
from mlx_spec.drafters import mtp, mtp_files
from mlx_spec.engine import load_engine
from mlx_spec.events import Problem
from mlx_spec.target import Target

from .. import zoo
from ..tiny import tiny_llama
from . import published_mtp as published
from .published_mtp import QWEN, TARGETS, VOCABULARY, WIDTH

FACTS = {"format": "mlx"}


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    yield
    mx.clear_cache()


def loaded(name: str) -> tuple[Target, Anatomy]:
    target = Target(zoo.build(name, **published.config(name)))
    anatomy = dissect(target.model)
    assert anatomy is not None
    return target, anatomy


def logits(folder: Path, name: str) -> np.ndarray:
    """What the head in `folder` says in five rows."""
    target, anatomy = loaded(name)
    head = heads.build_mtp(folder, target, anatomy).head
    states = mx.random.normal((1, 5, WIDTH), key=mx.random.key(2))
    rows, _ = head(head.embed(mx.array([[5, 9, 200, 7, 31]])), states, [KVCache()])
    return np.array(head.say(rows[0]))


def sidecar(folder: Path, tensors: dict[str, mx.array], about: dict[str, str] | None = None, **more: object) -> Path:
    """A head alone, converted to MLX."""
    published.save(folder, tensors, FACTS if about is None else about)
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3_5_mtp", "block_size": 3, **more}))
    return folder


# ------------------------------------------------------------------------------------------------------- who wrote them


@pytest.mark.parametrize("name", QWEN)
def test_the_makers_tensors_and_a_conversion_are_one_head(tmp_path: Path, name: str) -> None:
    raw = logits(published.head(tmp_path / "raw", name), name)
    converted = published.converted(name)
    for i, prefix in enumerate(("", "mtp.", "language_model.mtp.", "model.")):
        folder = sidecar(tmp_path / str(i), {prefix + n: v for n, v in converted.items()})
        np.testing.assert_allclose(logits(folder, name), raw, atol=1e-4, rtol=1e-4)
    # Where the file says nothing the settings of a folder with a head alone do.
    np.testing.assert_allclose(logits(sidecar(tmp_path / "mute", converted, {}), name), raw, atol=1e-4, rtol=1e-4)
    # Or names that only MLX has; without either it is the makers'.
    mine = converted if name != "qwen3_5" else published.raw(name)
    mine = {f"mtp.{n}": v for n, v in mine.items()}
    beside = published.save(published.target(tmp_path / "own", name), mine, {}, "mtp")
    np.testing.assert_allclose(logits(beside, name), raw, atol=1e-4, rtol=1e-4)


def test_the_makers_file_beside_a_converted_model_is_theirs(tmp_path: Path) -> None:
    """What counts is who wrote the file that a tensor is in. Values cannot tell: these weights are nowhere near 1."""
    name, tensors = "qwen3_5", published.raw("qwen3_5")
    tensors["pre_fc_norm_hidden.weight"] = mx.full((WIDTH,), 0.27)
    raw = logits(published.head(tmp_path / "raw", name, tensors), name)
    both = published.target(tmp_path / "both", name)
    published.save(both, {f"mtp.{n}": v for n, v in tensors.items()}, {"format": "pt"}, "model-mtp")
    assert np.array_equal(logits(both, name), raw)
    published.save(both, {f"mtp.{n}": v for n, v in tensors.items()}, FACTS, "model-mtp")
    assert not np.allclose(logits(both, name), raw, atol=0.1)


@pytest.mark.parametrize("name", ["qwen3_5", "qwen3_5_moe"])
@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_heads_are_read_as_they_are(tmp_path: Path, name: str, bits: int) -> None:
    quantized = published.converted(name, bits)
    folder = sidecar(tmp_path / "few", quantized, quantization={"group_size": 32, "bits": bits})
    target, anatomy = loaded(name)
    network = mtp_files.read(folder, target.model, anatomy, VOCABULARY)
    assert network.join.bits == bits
    assert network.layer.self_attn.q_proj.bits == bits
    wide = dict(published.converted(name))
    for stem in [n.removesuffix(".scales") for n in quantized if n.endswith(".scales")]:
        parts = (quantized[f"{stem}.{p}"] for p in ("weight", "scales", "biases"))
        wide[f"{stem}.weight"] = mx.dequantize(*parts, group_size=32, bits=bits)
    same = logits(sidecar(tmp_path / "wide", wide), name)
    np.testing.assert_allclose(logits(folder, name), same, atol=2e-3, rtol=2e-3)


def test_other_ways_to_pack_are_told_by_the_tensors(tmp_path: Path) -> None:
    tensors = published.converted("qwen3_5")
    packed, scales = mx.quantize(tensors["fc.weight"], mode="mxfp4")
    whole = {**tensors, "fc.weight": packed, "fc.scales": scales}
    target, anatomy = loaded("qwen3_5")
    network = mtp_files.read(sidecar(tmp_path, whole), target.model, anatomy, VOCABULARY)
    assert (network.join.mode, network.join.bits, network.join.group_size) == ("mxfp4", 4, 32)


@pytest.mark.parametrize("name", ["qwen3_5_moe", "deepseek_v3"])
def test_8_bit_floats_with_a_scale_for_each_block_are_widened(tmp_path: Path, name: str) -> None:
    block, few, wide = 32, {}, {}
    for tensor, value in published.raw(name).items():
        few[tensor] = wide[tensor] = value
        if value.ndim > 1 and not tensor.endswith(("gate.weight", "shared_expert_gate.weight")):
            shape = tuple(-(-n // block) for n in value.shape[-2:])
            scale = 0.5 + mx.random.uniform(shape=(*value.shape[:-2], *shape), key=mx.random.key(1))
            each = mx.repeat(mx.repeat(scale, block, -2), block, -1)[..., : value.shape[-2], : value.shape[-1]]
            few[tensor], few[f"{tensor}_scale_inv"] = mx.to_fp8(value / each), scale
            back = mx.from_fp8(few[tensor], dtype=mx.float32) * each
            wide[tensor] = back.astype(mx.bfloat16).astype(mx.float32)
    facts = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [block, block]}}
    ours = logits(published.head(tmp_path / "few", name, few, **facts), name)
    np.testing.assert_allclose(ours, logits(published.head(tmp_path / "wide", name, wide), name), atol=1e-4, rtol=1e-4)
    # Without their scales they are nothing, and with those of other blocks, too.
    alone = {n: v for n, v in few.items() if not n.endswith("_scale_inv")}
    assert "8-bit floats" in refusal(published.head(tmp_path / "alone", name, alone), name)
    assert "each block of 128 x 128" in refusal(published.head(tmp_path / "other", name, few), name)


@pytest.mark.parametrize("name", ["glm4_moe_lite", "qwen3_5"])
def test_copies_of_the_targets_embedding_and_output_layer_are_not_kept(tmp_path: Path, name: str) -> None:
    target, anatomy = loaded(name)
    start = "" if name == "qwen3_5" else "shared_head.head"
    theirs = {
        "embed_tokens.weight": anatomy.embedding.weight + 1e-3,  # as stored in fewer bits
        f"{start or 'lm_head'}.weight": anatomy.projection.weight + 1e-3,
    }
    folder = published.head(tmp_path / "copies", name, {**published.raw(name), **theirs})
    network = mtp_files.read(folder, target.model, anatomy, VOCABULARY)
    assert "embed_tokens" not in network
    assert "lm_head" not in network
    rng = np.random.default_rng(3)
    others = {n: mx.array(rng.normal(size=v.shape).astype(np.float32)) for n, v in theirs.items()}
    folder = published.head(tmp_path / "own", name, {**published.raw(name), **others})
    head = mtp.MTP(mtp_files.read(folder, target.model, anatomy, VOCABULARY), anatomy, VOCABULARY)
    assert mx.allclose(head.embed(mx.array([7])), others["embed_tokens.weight"][7])
    x = mx.random.normal((2, WIDTH), key=mx.random.key(4))
    assert mx.allclose(head.say(x), x @ list(others.values())[1].T, atol=1e-4)


def test_a_split_off_glm_head_is_read(tmp_path: Path) -> None:
    name, tensors = "glm4_moe_lite", published.raw("glm4_moe_lite")
    tops = {"enorm.weight", "hnorm.weight", "eh_proj.weight"}
    split = {f"model.{n}" if n in tops else f"model.mtp_block.{n}": v for n, v in tensors.items()}
    split["model.shared_head_norm.weight"] = split.pop("model.mtp_block.shared_head.norm.weight")
    folder = sidecar(tmp_path / "split", split, model_type="glm4_moe_lite_mtp")
    assert heads.kind(folder) == "mtp"
    raw = logits(published.head(tmp_path / "raw", name), name)
    np.testing.assert_allclose(logits(folder, name), raw, atol=1e-5)


# -------------------------------------------------------------------------------------------------------------- finding


@pytest.mark.parametrize("name", ["qwen3_5", "qwen3_5_moe", "glm4_moe", "glm4_moe_lite"])
def test_a_model_that_still_has_its_head_drafts_with_it(tmp_path: Path, name: str) -> None:
    """It is in the last shard; mlx-lm leaves it out when it reads the model."""
    folder = published.target(tmp_path, name)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    prefix = "mtp." if name in QWEN else "model.layers.4."
    tensors = {prefix + n: v for n, v in published.raw(name).items()}
    published.save(folder, tensors, {"format": "pt"}, "model-00002-of-00002")
    names = dict.fromkeys(tensors, "model-00002-of-00002.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    engine = load_engine(folder)
    assert engine.info.drafters[-1] == "mtp"
    assert "mtp" not in dict(engine.info.refused)
    assert engine.notices() == []
    assert mtp_files.has(folder)


def test_the_makers_own_folder_of_a_qwen3_next_drafts(tmp_path: Path) -> None:
    """Trunk and head in one shard, as they are published: mlx-lm takes the one, and the other is the same head."""
    folder = published.target(tmp_path / "target", "qwen3_next")
    whole = {f"mtp.{n}": v for n, v in published.raw("qwen3_next").items()}
    for name, value in mx.load(str(folder / "model.safetensors")).items():
        start, _, part = name.partition("switch_mlp.")
        if part:
            whole |= {f"{start}experts.{e}.{part}": value[e] for e in range(published.EXPERTS)}
        elif "conv1d" in name:
            whole[name] = value.moveaxis(1, 2)
        else:
            less = "norm" in name.split(".")[-2] and "linear_attn" not in name
            whole[name] = value - 1 if less else value
    published.save(folder, whole, {"format": "pt"})
    engine = load_engine(folder)
    assert engine.info.drafters[-1] == "mtp"
    x = mx.array([[5, 9, 200]])
    assert mx.allclose(engine.target.model(x), loaded("qwen3_next")[0].model(x), atol=1e-4)
    apart = published.head(tmp_path / "head", "qwen3_next")
    np.testing.assert_allclose(logits(folder, "qwen3_next"), logits(apart, "qwen3_next"), atol=1e-5)


def test_where_the_conversion_dropped_it_only_the_list_says_so(tmp_path: Path) -> None:
    folder = published.target(tmp_path / "target", "qwen3_5")
    engine = load_engine(folder)
    assert "mtp" not in engine.info.drafters
    assert "MTP tensors are missing" in dict(engine.info.refused)["mtp"]
    assert engine.notices() == []
    with pytest.raises(Problem, match=r"tensors \(mtp\.\*\) are missing: the conversion dropped them") as refused:
        load_engine(folder, head=folder)
    assert "original model" in refused.value.remedy


def test_a_damaged_one_is_told(tmp_path: Path) -> None:
    folder = published.target(tmp_path, "qwen3_5")
    tensors = {f"mtp.{n}": v for n, v in published.raw("qwen3_5").items()}
    del tensors["mtp.fc.weight"]
    published.save(folder, tensors, {"format": "pt"}, "mtp")
    engine = load_engine(folder)
    assert "fc.weight is missing" in dict(engine.info.refused)["mtp"]
    assert "Drafting goes on without it" in engine.notices()[0]


def test_other_models_have_none(tmp_path: Path) -> None:
    """Of architectures whose heads are not known the tensors are left alone; a model without any says nothing."""
    folder = tiny_llama(tmp_path / "plain")
    assert "MTP tensors" not in dict(load_engine(folder).info.refused).get("mtp", "")
    published.save(folder, {"mtp.fc.weight": mx.zeros((4, 4))}, {"format": "pt"}, "mtp")
    engine = load_engine(folder)
    assert "not known" in dict(engine.info.refused)["mtp"]
    assert engine.notices() == []
    with pytest.raises(Problem, match="of a llama model are not known"):
        load_engine(folder, head=published.head(tmp_path / "head", "qwen3_5"))


@pytest.mark.parametrize("name", TARGETS)
def test_a_folder_is_told_by_its_tensors(tmp_path: Path, name: str) -> None:
    folder = published.head(tmp_path, name)
    assert heads.kind(folder) == "mtp"
    settings = json.loads((folder / "config.json").read_text())
    del settings["num_nextn_predict_layers"]  # not all makers tell of it
    (folder / "config.json").write_text(json.dumps(settings))
    assert heads.kind(folder) == "mtp"
    assert not mtp_files.told_by({"num_nextn_predict_layers": 1}, ["fc.weight", "midlayer.hidden_norm.weight"])


# ------------------------------------------------------------------------------------------------------------- refusals


def refusal(folder: Path, name: str) -> str:
    target, anatomy = loaded(name)
    with pytest.raises(Problem) as refused:
        mtp_files.read(folder, target.model, anatomy, VOCABULARY)
    assert refused.value.remedy
    assert str(folder) in refused.value.message
    return refused.value.message


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("qwen3_next", "layers.0.mlp.experts.2.up_proj.weight"),
        ("qwen3_5", "pre_fc_norm_hidden.weight"),
        ("qwen3_5_moe", "layers.0.mlp.shared_expert_gate.weight"),
        ("glm4_moe", "enorm.weight"),
        ("glm4_moe", "mlp.gate.e_score_correction_bias"),
        ("deepseek_v3", "self_attn.q_a_proj.weight"),
        ("deepseek_v3", "mlp.experts.3.down_proj.weight"),
        ("glm4_moe_lite", "shared_head.norm.weight"),
    ],
)
def test_missing_and_misshapen_tensors_are_named(tmp_path: Path, name: str, tensor: str) -> None:
    whole = published.raw(name)
    less = {n: v for n, v in whole.items() if n != tensor}
    assert f"incomplete: {tensor} is missing" in refusal(published.head(tmp_path / "less", name, less), name)
    if ".experts." not in tensor:
        shape = list(whole[tensor].shape)
        odd = {**whole, tensor: mx.zeros([2 * n for n in shape])}
        said = refusal(published.head(tmp_path / "odd", name, odd), name)
        assert f"{tensor} is {[2 * n for n in shape]} and should be {shape}" in said


def test_what_is_not_this_models_is_refused(tmp_path: Path) -> None:
    name, whole = "qwen3_5", published.raw("qwen3_5")
    more = {**whole, "layers.0.self_attn.sinks": mx.zeros((4,))}
    assert "not known: layers.0.self_attn.sinks" in refusal(published.head(tmp_path / "more", name, more), name)
    other = dict(whole)  # packed in a way that is not read
    other["layers.0.mlp.up_proj.qweight"] = other.pop("layers.0.mlp.up_proj.weight")
    assert "not known: layers.0.mlp.up_proj.qweight" in refusal(published.head(tmp_path / "packed", name, other), name)
    assert "has experts" in refusal(published.head(tmp_path / "moe", "qwen3_5_moe"), name)
    assert "no MTP head for this model" in refusal(sidecar(tmp_path / "glm", {"x": mx.zeros((1,))}), name)
    pre = published.head(tmp_path / "pre", name, mtp_hidden_state_mode="pre_norm")
    assert '"pre_norm" states' in refusal(pre, name)
    # Layers behind the first are not needed.
    extra = {**whole, "layers.1.input_layernorm.weight": mx.zeros((WIDTH,))}
    assert logits(published.head(tmp_path / "extra", name, extra), name).shape == (5, VOCABULARY)


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    folder = published.head(tmp_path, "qwen3_5")
    index = {"weight_map": {"mtp.fc.weight": "model-00007-of-00009.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "its file model-00007-of-00009.safetensors is missing" in refusal(folder, "qwen3_5")
    (folder / "model.safetensors.index.json").write_text("{")
    assert "cannot be read" in refusal(folder, "qwen3_5")
    (folder / "model.safetensors").write_bytes(b"no tensors at all")
    assert "cannot be read" in refusal(folder, "qwen3_5")
    assert not mtp_files.has(folder)
    (folder / "config.json").unlink()
    assert "config.json" in refusal(folder, "qwen3_5")
