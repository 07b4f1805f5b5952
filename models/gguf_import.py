"""A GGUF file turned into the folder that mlx-lm loads.

4- and 8-bit blocks of 32 weights with one scale (and one minimum) are exactly mlx's affine quantization with
groups of 32, so Q4_0, Q4_1 and Q8_0 keep their codes to the bit. Every other kind is dequantized by the gguf
package and kept as float16 (float32 and bfloat16 stay what they are). Llama's rotary order, which GGUF
permutes, is put back. The folder appears under its name only when it is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlx_spec.events import Problem

from . import paths
from .gguf_tokenizer import end_ids, write_tokenizer

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

    from .download import Progress

FORMAT = 1  # of the imported folder; a change re-imports
SHARD = 2 << 30  # bytes
GROUP = 32  # weights a block, in GGUF and in mlx
ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INSIDE = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
IGNORED = ("rope_freqs.weight",)


def folder_of(file: Path, digest: str = "") -> Path:
    """The folder that `file` is imported to: its stem and a mark of its content (or its size and time)."""
    if not digest:
        seen = file.stat()
        digest = hashlib.sha256(f"{file.resolve()} {seen.st_size} {seen.st_mtime_ns}".encode()).hexdigest()
    return paths.models_dir() / f"{file.stem}-{digest[:8]}"


def imported(file: Path, digest: str = "") -> Path | None:
    """The folder, if the file was imported before by this format."""
    if not digest and not file.exists():
        return None
    folder = folder_of(file, digest)
    try:
        mark = json.loads((folder / "outrider.json").read_text())
    except (OSError, ValueError):
        return None
    return folder if mark.get("format") == FORMAT else None


def import_gguf(file: Path, progress: Progress, digest: str = "") -> Path:
    """Import `file` (once) and return its folder.

    Raises `Problem` if it is no GGUF file, is cut off, or holds an architecture that is not known.
    """
    if ready := imported(file, digest):
        return ready
    reader = read(file)
    meta = {k: f.contents() for k, f in reader.fields.items()}
    config = model_config(meta, file)
    final = folder_of(file, digest)
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".importing-", dir=final.parent))
    except OSError as e:
        raise Problem(f"{final.parent} cannot be written: {e.strerror}.", "Choose another data folder.") from e
    try:
        quantization = write_weights(reader, config, work, progress, file)
        if quantization:
            config["quantization"] = quantization
        if not any(t.name == "output.weight" for t in reader.tensors):
            config["tie_word_embeddings"] = True
        ends = end_ids(meta)
        config["eos_token_id"] = ends
        write_tokenizer(meta, work)
        (work / "config.json").write_text(json.dumps(config, indent=1))
        (work / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
        mark = {"format": FORMAT, "source": file.name, "name": meta.get("general.name", file.stem)}
        (work / "outrider.json").write_text(json.dumps(mark))
        if final.exists():
            shutil.rmtree(final)
        os.replace(work, final)
    except OSError as e:
        if e.errno == 28:
            raise Problem(f"The disk is too full to import {file.name}.", "Make room and try again.") from e
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return final


def read(file: Path) -> GGUFReader:
    """Open a GGUF file, which maps it. Raises `Problem` if it is none or is cut off."""
    import gguf

    again = "Download it again, or choose another file."
    try:
        with file.open("rb") as f:
            if f.read(4) != b"GGUF":
                raise Problem(f"{file} is no GGUF file.", "Choose a GGUF file, a model folder or a hub id.")
        reader = gguf.GGUFReader(file)
        last = max((t.data_offset + t.n_bytes for t in reader.tensors), default=0)
        if last > file.stat().st_size:
            raise Problem(f"{file} is cut off: {last:,} bytes are expected.", again)
        return reader
    except Problem:
        raise
    except OSError as e:
        raise Problem(f"{file} cannot be read: {e.strerror}.", again) from e
    except Exception as e:  # a damaged file breaks the reader in many ways
        raise Problem(f"{file} is cut off or damaged.", again) from e


def model_config(meta: dict[str, Any], file: Path) -> dict[str, Any]:
    """config.json out of the metadata."""
    kind = str(meta.get("general.architecture"))
    if kind not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise Problem(
            f'{file.name} holds the architecture "{kind}", which cannot be imported yet.',
            f"Importable are {known}; for others use a folder or hub id that mlx-lm loads.",
        )

    def get(name: str, default: Any = None) -> Any:
        value = meta.get(f"{kind}.{name}", default)
        if value is None:
            raise Problem(f"{file.name} does not say its {name}.", "Choose another file.")
        return value

    heads = int(get("attention.head_count"))
    config: dict[str, Any] = {
        "model_type": ARCHITECTURES[kind],
        "hidden_size": int(get("embedding_length")),
        "num_hidden_layers": int(get("block_count")),
        "intermediate_size": int(get("feed_forward_length")),
        "num_attention_heads": heads,
        "num_key_value_heads": int(get("attention.head_count_kv", heads)),
        "rms_norm_eps": float(get("attention.layer_norm_rms_epsilon")),
        "max_position_embeddings": int(get("context_length")),
        "rope_theta": float(get("rope.freq_base", 10000.0)),
        "vocab_size": len(meta.get("tokenizer.ggml.tokens") or ()),
        "tie_word_embeddings": False,
    }
    width = meta.get(f"{kind}.attention.key_length")
    config["head_dim"] = int(width) if width else config["hidden_size"] // heads
    scaling = meta.get(f"{kind}.rope.scaling.type")
    if scaling in ("linear", "yarn"):
        config["rope_scaling"] = {
            "rope_type": scaling,
            "factor": float(get("rope.scaling.factor")),
            "original_max_position_embeddings": int(get("rope.scaling.original_context_length", 0)),
        }
    return config


def target_name(name: str) -> str | None:
    """mlx-lm's name of a GGUF tensor; None for those that are not needed."""
    stem, _, ending = name.rpartition(".")
    if name in IGNORED:
        return None
    if stem in OUTSIDE:
        return f"{OUTSIDE[stem]}.{ending}"
    parts = stem.split(".")
    if len(parts) == 3 and parts[0] == "blk" and parts[2] in INSIDE:
        return f"model.layers.{parts[1]}.{INSIDE[parts[2]]}.{ending}"
    raise Problem(f"The GGUF file holds a tensor that is not known: {name}.", "Use the model's original folder.")


def unpermute(rows: np.ndarray, heads: int) -> np.ndarray:
    """Undo GGUF's order of rotary pairs in the rows of Llama's query and key projections."""
    n = rows.shape[0]
    return rows.reshape(heads, n // heads // 2, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def blocks(data: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Codes (rows, columns), scales and minima (rows, columns / 32), bits, of a Q4_0, Q4_1 or Q8_0 tensor."""
    size = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}[kind]
    raw = np.ascontiguousarray(data).view(np.uint8).reshape(data.shape[0], -1, size)
    scale = np.ascontiguousarray(raw[..., :2]).view(np.float16)[..., 0]
    if kind == "Q8_0":
        codes = (np.ascontiguousarray(raw[..., 2:]).view(np.int8).astype(np.int16) + 128).astype(np.uint8)
        return codes.reshape(len(raw), -1), scale, -128 * scale.astype(np.float32), 8
    start = 4 if kind == "Q4_1" else 2
    low, high = raw[..., start:] & 15, raw[..., start:] >> 4  # the first and the second half of a block
    codes = np.concatenate([low, high], axis=-1).reshape(len(raw), -1)
    if kind == "Q4_1":
        minimum = np.ascontiguousarray(raw[..., 2:4]).view(np.float16)[..., 0].astype(np.float32)
    else:
        minimum = -8 * scale.astype(np.float32)
    return codes, scale, minimum, 4


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """mlx's layout: the first code in the lowest bits of each uint32."""
    if bits == 8:
        return np.ascontiguousarray(codes).view(np.uint32)
    pairs = codes[:, 0::2] | (codes[:, 1::2] << 4)
    return np.ascontiguousarray(pairs).view(np.uint32)


def convert(tensor: ReaderTensor, name: str, config: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The mlx arrays of one tensor, and the bits of its codes (0: not quantized)."""
    import mlx.core as mx
    from gguf.quants import dequantize

    heads = 0
    if config["model_type"] == "llama" and name.endswith(("q_proj.weight", "k_proj.weight", "q_proj.bias")):
        heads = config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
    kind = tensor.tensor_type.name
    if kind in ("Q4_0", "Q4_1", "Q8_0") and len(tensor.shape) == 2:
        codes, scale, minimum, bits = blocks(tensor.data, kind)
        # -8 * scale and -128 * scale are exact in float16 unless they overflow.
        least = minimum.astype(np.float16)
        parts = {"weight": pack(codes, bits), "scales": scale, "biases": least}
        if np.isfinite(least).all():
            if heads:
                parts = {k: unpermute(v, heads) for k, v in parts.items()}
            stem = name.removesuffix(".weight")
            return {f"{stem}.{k}": mx.array(np.ascontiguousarray(v)) for k, v in parts.items()}, bits
    weights = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
    if heads:
        weights = unpermute(weights, heads)
    wide = mx.array(np.ascontiguousarray(weights))
    if kind == "BF16":
        return {name: wide.astype(mx.bfloat16)}, 0
    # Norms come as float32 in every file; beside narrow weights they would widen the whole computation.
    return {name: wide if kind == "F32" and weights.ndim > 1 else wide.astype(mx.float16)}, 0


def write_weights(
    reader: GGUFReader, config: dict[str, Any], folder: Path, progress: Progress, file: Path
) -> dict[str, Any]:
    """Write the shards; returns mlx-lm's `quantization` entry, empty if nothing is quantized."""
    quantized: dict[str, int] = {}
    files: list[Path] = []
    names: dict[str, str] = {}
    done, total = 0, sum(int(t.n_bytes) for t in reader.tensors)

    def shards() -> Iterator[dict[str, Any]]:
        nonlocal done
        shard: dict[str, Any] = {}
        size = 0
        for tensor in reader.tensors:
            name = target_name(tensor.name)
            if name is None:
                continue
            arrays, bits = convert(tensor, name, config)
            if bits:
                quantized[name.removesuffix(".weight")] = bits
            more = sum(int(a.nbytes) for a in arrays.values())
            if shard and size + more > SHARD:
                yield shard
                shard, size = {}, 0
            shard |= arrays
            size += more
            done += int(tensor.n_bytes)
            progress("import", file.name, done, total)
        if shard:
            yield shard

    import mlx.core as mx

    for i, shard in enumerate(shards()):
        path = folder / f"model-{i + 1:05d}.safetensors"
        mx.save_safetensors(str(path), shard, metadata={"format": "mlx"})
        files.append(path)
        names |= dict.fromkeys(shard, path.name)
    if len(files) == 1:
        os.replace(files[0], folder / "model.safetensors")
    else:
        index = {"metadata": {}, "weight_map": names}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    if not quantized:
        return {}
    bits = max(set(quantized.values()), key=list(quantized.values()).count)
    entry: dict[str, Any] = {"group_size": GROUP, "bits": bits}
    entry |= {k: {"group_size": GROUP, "bits": b} for k, b in quantized.items() if b != bits}
    return entry
