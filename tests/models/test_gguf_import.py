"""GGUF files of our own making, imported and compared with what the gguf package reads from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
import pytest
from gguf.quants import dequantize, quantize

from mlx_spec.events import Problem
from models import locate
from models.gguf_import import blocks, import_gguf, pack, unpermute
from tests.mlx_spec.tiny import TEMPLATE, TEXT, tokenizer_json

KIND = gguf.GGMLQuantizationType
HIDDEN, HEADS, KV, WIDE, LAYERS = 64, 4, 2, 128, 2


def nothing(*_: Any) -> None: ...


def permute(rows: np.ndarray, heads: int) -> np.ndarray:
    """What converters to GGUF do to Llama's query and key rows."""
    return rows.reshape(heads, 2, len(rows) // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write_gguf(path: Path, arch: str = "llama", kind: Any = KIND.F32, seed: int = 0) -> dict[str, np.ndarray]:
    """A tiny model; returns its weights by mlx-lm's names, as read back after quantization."""
    rng = np.random.default_rng(seed)
    vocab = json.loads(tokenizer_json())
    tokens = sorted(vocab["model"]["vocab"], key=vocab["model"]["vocab"].get)
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name("tiny")
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(WIDE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if t.startswith("<|") else 1 for t in tokens])
    writer.add_token_merges([" ".join(m) if isinstance(m, list) else m for m in vocab["model"]["merges"]])
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    truth: dict[str, np.ndarray] = {}

    def add(name: str, ours: str, *shape: int, heads: int = 0) -> None:
        w = rng.normal(0, 0.5, shape).astype(np.float32)
        narrow = kind if len(shape) == 2 else KIND.F32
        data = quantize(permute(w, heads) if heads else w, narrow)
        read = dequantize(data, narrow)
        truth[ours] = unpermute(read, heads) if heads else read
        writer.add_tensor(name, data, raw_dtype=narrow)

    add("token_embd.weight", "model.embed_tokens.weight", len(tokens), HIDDEN)
    add("output_norm.weight", "model.norm.weight", HIDDEN)
    rotary = arch == "llama"
    for i in range(LAYERS):
        g, m, kv = f"blk.{i}", f"model.layers.{i}", HIDDEN // HEADS * KV
        add(f"{g}.attn_norm.weight", f"{m}.input_layernorm.weight", HIDDEN)
        add(f"{g}.ffn_norm.weight", f"{m}.post_attention_layernorm.weight", HIDDEN)
        add(f"{g}.attn_q.weight", f"{m}.self_attn.q_proj.weight", HIDDEN, HIDDEN, heads=HEADS * rotary)
        add(f"{g}.attn_k.weight", f"{m}.self_attn.k_proj.weight", kv, HIDDEN, heads=KV * rotary)
        add(f"{g}.attn_v.weight", f"{m}.self_attn.v_proj.weight", kv, HIDDEN)
        add(f"{g}.attn_output.weight", f"{m}.self_attn.o_proj.weight", HIDDEN, HIDDEN)
        if arch == "qwen2":
            for name, size in (("q", HIDDEN), ("k", kv), ("v", kv)):
                add(f"{g}.attn_{name}.bias", f"{m}.self_attn.{name}_proj.bias", size)
        add(f"{g}.ffn_gate.weight", f"{m}.mlp.gate_proj.weight", WIDE, HIDDEN)
        add(f"{g}.ffn_up.weight", f"{m}.mlp.up_proj.weight", WIDE, HIDDEN)
        add(f"{g}.ffn_down.weight", f"{m}.mlp.down_proj.weight", HIDDEN, WIDE)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return truth


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize("arch", ["llama", "qwen2"])
@pytest.mark.parametrize("kind", ["F32", "F16", "Q4_0", "Q4_1", "Q8_0", "Q5_1"])
def test_weights_survive(tmp_path: Path, arch: str, kind: str) -> None:
    from mlx.utils import tree_flatten
    from mlx_lm import utils

    from mlx_spec.precision import widen

    truth = write_gguf(tmp_path / "tiny.gguf", arch, KIND[kind])
    folder = locate(str(tmp_path / "tiny.gguf"))
    model, config = utils.load_model(folder)
    assert config["model_type"] == arch
    assert ("quantization" in config) == (kind in ("Q4_0", "Q4_1", "Q8_0"))
    widen(model)
    weights = dict(tree_flatten(model.parameters()))
    assert weights.keys() == truth.keys()
    for name, expected in truth.items():
        assert np.allclose(np.array(weights[name]), expected, atol=2e-3), name


def test_quantized_codes_are_kept_to_the_bit() -> None:
    w = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    for kind in ("Q4_0", "Q4_1", "Q8_0"):
        data = quantize(w, KIND[kind])
        codes, scale, minimum, bits = blocks(data, kind)
        wide = mx.dequantize(
            mx.array(pack(codes, bits)),
            mx.array(scale.astype(np.float32)),
            mx.array(minimum.astype(np.float32)),
            group_size=32,
            bits=bits,
        )
        assert np.allclose(np.array(wide), dequantize(data, KIND[kind]), atol=1e-6)


def test_the_imported_model_talks(tmp_path: Path) -> None:
    from mlx_spec.engine import load_engine
    from mlx_spec.events import Finished, Message, SamplingSettings

    write_gguf(tmp_path / "tiny.gguf", kind=KIND.Q8_0)
    folder = locate(str(tmp_path / "tiny.gguf"))
    assert locate(str(tmp_path / "tiny.gguf")) == folder
    engine = load_engine(folder)
    assert engine.tokenizer.eos_token_ids == {0, 2}
    assert engine.tokenizer.decode(engine.tokenizer.encode(TEXT)) == TEXT
    *_, last = engine.generate([Message("user", "Hello")], SamplingSettings(max_tokens=4))
    assert isinstance(last, Finished)
    assert last.prompt_tokens == len(
        engine.tokenizer.encode("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
    )


@pytest.mark.parametrize("cut", [2, 100, 5000, -1000])
def test_a_cut_off_file_is_refused(tmp_path: Path, home: Path, cut: int) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(Problem, match=r"tiny\.gguf") as e:
        import_gguf(path, nothing)
    assert e.value.remedy
    assert not list(home.glob("models/*"))


def test_unknown_architectures_and_files_are_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "a.gguf", "mamba")
    with pytest.raises(Problem, match="mamba"):
        locate(str(tmp_path / "a.gguf"))
    (tmp_path / "b.gguf").write_text("hello")
    with pytest.raises(Problem, match="no GGUF file"):
        locate(str(tmp_path / "b.gguf"))
    with pytest.raises(Problem, match="no model"):
        locate("neither this nor that")
