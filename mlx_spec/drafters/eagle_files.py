"""EAGLE heads on disk: what the field publishes, told apart, checked and read; and what we train, written.

Three producers write the same tensors and mean different layers by the same numbers:
- SafeAILab (the authors): no list of layers in the file; the rule of `default_taps`.
- SpecForge and SGLang: `eagle_config.eagle_aux_hidden_state_layer_ids`, the layers whose output is read.
- speculators and vLLM: `eagle_aux_hidden_state_layer_ids` at the top, the number of layers before, so one more.
A wrong guess fails nowhere; it only costs acceptance. `d2t` holds for each of the head's tokens the target's id
less its own.

The first EAGLE is another network and has files of its own kind: see eagle1_files.py.
A `pytorch_model.bin` is a program until it is proven to be tensors: see tensors_of_bin.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from ..events import Problem
from ..files import replacing
from ..weight_file import write_tensors
from .eagle_head import EagleHead, Shape, default_taps
from .tensors_of_bin import names_of_bin, tensors_of_bin

Array = np.ndarray[Any, Any]
IGNORED = ("rotary_emb.inv_freq", "t2d", "d2t", "lm_head.bias")  # ends of names; the mappings are read apart
GROUP = 64  # weights that share a scale
OTHER = "Choose a drafter that was made for this model."
AGAIN = "Fetch it again."
PADDING = 1024  # tokens more or fewer that are no other vocabulary, only another padding


@dataclass(frozen=True, slots=True)
class Loaded:
    """A head and the target's ids (Vd,) of the tokens that it can say, None where they are the same."""

    head: EagleHead
    ids: Array | None
    layout: str  # "safeailab", "specforge" or "speculators"


def write(
    folder: Path, head: EagleHead, ids: Array | None, vocabulary: int, about: dict[str, Any], bits: int | None = 8
) -> None:
    """Write `head` as EAGLE-3 is published (SpecForge's names), with its linear weights in `bits` bits as mlx-lm
    writes them, or as they are. `about` goes into the config. Raises OSError."""
    shape = head.shape
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "target_hidden_size": shape.target_hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        "vocab_size": vocabulary,
        "draft_vocab_size": shape.vocabulary,
        "rms_norm_eps": shape.eps,
        "rope_theta": shape.rope_theta,
        "rope_scaling": shape.rope_scaling,
        "max_position_embeddings": shape.positions,
        "norm_before_residual": shape.norm_before_residual,
        "norm_before_fc": shape.norm_before_fc,
        "fc_norm": shape.norm_each,
        "norm_output": shape.norm_output,
        "attention_bias": shape.bias,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(shape.taps), "use_aux_hidden_state": True},
        **about,
    }
    tensors: dict[str, mx.array] = {}
    for name, value in dict(tree_flatten(head.parameters())).items():
        tensors[_public(name)] = value
    more = {}
    if ids is not None:
        known = np.zeros(vocabulary, bool)
        known[ids] = True
        more = {"d2t": mx.array(ids.astype(np.int64) - np.arange(len(ids))), "t2d": mx.array(known)}
    publish(folder, config, tensors, more, bits)


def publish(
    folder: Path, config: dict[str, Any], tensors: dict[str, mx.array], more: dict[str, mx.array], bits: int | None
) -> None:
    """Write a head: its linear weights in `bits` bits and the rest in 16, or all of them as they are; and `more`, which
    are no weights. Raises OSError."""
    if bits:
        config = {**config, "quantization": {"group_size": GROUP, "bits": bits}}
        tensors = dict(tensors)
        for name, value in list(tensors.items()):
            if value.ndim == 2 and value.shape[-1] % GROUP == 0:
                stem = name.removesuffix(".weight")
                weight, scales, biases = mx.quantize(value, group_size=GROUP, bits=bits)
                tensors |= {name: weight, f"{stem}.scales": scales, f"{stem}.biases": biases}
        tensors = {n: v.astype(mx.float16) if v.dtype == mx.float32 else v for n, v in tensors.items()}
    write_tensors(folder / "model.safetensors", tensors | more, {"format": "mlx"})
    with replacing(folder / "config.json") as part:
        part.write_text(json.dumps(config, indent=1), "utf-8")


def _public(name: str) -> str:
    return name.replace("layers.0.", "midlayer.", 1) if name.startswith("layers.0.") else name


def read(folder: Path, *, layers: int, hidden: int, vocabulary: int) -> Loaded:
    """The head in `folder`, for a target of so many layers, features and tokens. Raises `Problem` with the reason if
    it is none, is damaged, or was made for another target."""
    config, layout = _config(folder)
    tensors = tensors_of(folder)
    names = {own: tensors[name] for name, own in own_names(tensors).items()}
    if "fc.weight" not in names:
        raise Problem(f"The drafter in {folder} is no EAGLE head: it has no fc.weight.", OTHER)
    with senseless(folder):
        taps, layout = _taps(config, layout, layers)
        shape = _shape(config, taps, names, folder, hidden)
    if not all(-1 <= i < layers for i in taps):
        raise Problem(
            f"The drafter in {folder} reads the layers {', '.join(str(i) for i in taps)}, and this model has {layers}.",
            OTHER,
        )
    check_vocabulary(config, vocabulary, folder)
    own = own_embedding(names, vocabulary, folder)
    if not own and shape.hidden != hidden:
        raise Problem(
            f"The drafter in {folder} has {shape.hidden} features and no embedding of its own, and this model's has "
            f"{hidden}.",
            OTHER,
        )
    with senseless(folder):
        head = EagleHead(shape, own)
    fill(head, names, config, folder)
    return Loaded(head, _ids(tensors, shape, vocabulary, folder), layout)


def fill(head: nn.Module, names: Mapping[str, mx.array], config: Mapping[str, Any], folder: Path) -> None:
    """Give `head` the tensors `names`, quantized as `config` says. Raises `Problem` if one is missing or of another
    shape."""
    quantization = config.get("quantization")
    if quantization:
        with senseless(folder):
            nn.quantize(
                head,
                int(quantization["group_size"]),
                int(quantization["bits"]),
                class_predicate=lambda path, m: f"{path}.scales" in names,
            )
    expected = dict(tree_flatten(head.parameters()))
    missing = sorted(set(expected) - set(names))
    if missing:
        raise Problem(f"The drafter in {folder} is incomplete: {missing[0]} is missing.", AGAIN)
    for name, value in expected.items():
        if names[name].shape != value.shape:
            raise Problem(
                f"The drafter in {folder} does not fit: {name} is {list(names[name].shape)} and should be "
                f"{list(value.shape)}.",
                OTHER,
            )
    head.update(tree_unflatten([(n, names[n]) for n in expected]))
    mx.eval(head.parameters())
    head.eval()


@contextmanager
def senseless(folder: Path) -> Iterator[None]:
    """Settings of which no head can be made are a `Problem`."""
    try:
        yield
    except KeyError as e:
        raise Problem(f"The drafter in {folder} is incomplete: {e.args[0]} is missing.", AGAIN) from e
    except (TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError) as e:
        raise Problem(f"The drafter's settings in {folder / 'config.json'} make no sense: {e}.", AGAIN) from e


def check_vocabulary(config: Mapping[str, Any], vocabulary: int, folder: Path) -> None:
    """Raises `Problem` if the settings tell of another vocabulary than one of so many tokens."""
    with senseless(folder):
        theirs = int(config.get("vocab_size") or vocabulary)
    if abs(theirs - vocabulary) > PADDING:
        raise Problem(
            f"The drafter in {folder} was made for a model with {theirs:,} tokens, and this one has {vocabulary:,}.",
            OTHER,
        )


def own_embedding(names: Mapping[str, mx.array], vocabulary: int, folder: Path) -> int:
    """The rows of the head's own embedding, 0 where it has none. Raises `Problem` if it knows another vocabulary."""
    own = names.get("embed_tokens.weight")
    if own is None:
        return 0
    if abs(own.shape[0] - vocabulary) > PADDING:
        raise Problem(
            f"The drafter in {folder} reads {own.shape[0]:,} tokens, and this model has {vocabulary:,}.", OTHER
        )
    return int(own.shape[0])


def settings(folder: Path) -> dict[str, Any]:
    """The config.json of a head. Raises `Problem` if there is none, or none that can be read."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
        if not isinstance(config, dict):
            raise ValueError("it is no object")
    except (OSError, ValueError) as e:
        raise Problem(f"The drafter's settings in {path} cannot be read: {e}.", AGAIN) from e
    return config


def _config(folder: Path) -> tuple[dict[str, Any], str]:
    config = settings(folder)
    inner = config.get("transformer_layer_config")
    if isinstance(inner, dict) or "speculators_config" in config:
        return {**(inner or {}), **{k: v for k, v in config.items() if v is not None}}, "speculators"
    return config, ""


def _taps(config: dict[str, Any], layout: str, layers: int) -> tuple[tuple[int, ...], str]:
    """The layers whose output is read, by the producer's own way of counting; -1 is the embedding."""
    inner = config.get("eagle_config")
    listed = inner.get("eagle_aux_hidden_state_layer_ids") if isinstance(inner, dict) else None
    if listed:
        return tuple(int(i) for i in listed), layout or "specforge"
    listed = config.get("eagle_aux_hidden_state_layer_ids")
    if listed:
        return tuple(int(i) - 1 for i in listed), "speculators"
    return default_taps(layers), layout or "safeailab"


def own_names(names: Collection[str]) -> dict[str, str]:
    """What the tensors of a head are called here, for each that is one of its weights."""
    return {n: _own(n) for n in names if not n.endswith(IGNORED) and "verifier_" not in n}


def _own(name: str) -> str:
    name = name.removeprefix("model.").removeprefix("draft_model.")
    return name.replace("midlayer.", "layers.0.", 1)


def sizes(config: Mapping[str, Any], names: Mapping[str, mx.array]) -> dict[str, Any]:
    """What settings and tensors say of every EAGLE head: fields of `Shape`. Raises as `senseless` expects."""
    size, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    kv_heads = int(config.get("num_key_value_heads") or heads)
    if min(size, heads, kv_heads) < 1 or heads % kv_heads:
        raise ValueError(f"{size} features, {heads} heads of queries and {kv_heads} of keys")
    return {
        "hidden": size,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": int(config.get("head_dim") or size // heads),
        "intermediate": int(config.get("intermediate_size") or 4 * size),
        "layers": 1 + max((int(n.split(".")[1]) for n in names if n.startswith("layers.")), default=0),
        "eps": float(config.get("rms_norm_eps") or 1e-5),
        "rope_theta": float(config.get("rope_theta") or 10000.0),
        "rope_scaling": config.get("rope_scaling"),
        "positions": int(config.get("max_position_embeddings") or 2048),
        "bias": "layers.0.self_attn.q_proj.bias" in names,
    }


def _shape(
    config: dict[str, Any], taps: tuple[int, ...], names: dict[str, mx.array], folder: Path, hidden: int
) -> Shape:
    common = sizes(config, names)
    size, norm = common["hidden"], names["norm.weight"].shape[0]
    if norm != size:
        raise Problem(f"The drafter in {folder} contradicts itself: {norm} features, not {size}.", AGAIN)
    theirs = int(config.get("target_hidden_size") or size)
    if theirs != hidden:
        raise Problem(
            f"The drafter in {folder} was made for a model with {theirs} features, and this one has {hidden}.", OTHER
        )
    return Shape(
        vocabulary=names["lm_head.weight"].shape[0],
        target_hidden=theirs,
        taps=taps,
        norm_before_residual=bool(config.get("norm_before_residual")),
        norm_before_fc=bool(config.get("norm_before_fc")) or "input_norm.weight" in names,
        norm_each="fc_norm.0.weight" in names,
        norm_output=bool(config.get("norm_output")),
        **common,
    )


def _ids(tensors: dict[str, mx.array], shape: Shape, vocabulary: int, folder: Path) -> Array | None:
    offsets = tensors.get("d2t")
    if offsets is None:
        if shape.vocabulary > vocabulary:
            raise Problem(f"The drafter in {folder} says tokens that this model does not have.", OTHER)
        return None
    ids = np.array(offsets).astype(np.int64).reshape(-1) + np.arange(offsets.size)
    if len(ids) != shape.vocabulary or ids.min() < 0 or ids.max() >= vocabulary or len(set(ids.tolist())) != len(ids):
        raise Problem(
            f"The drafter in {folder} maps its tokens (d2t) to ones that this model does not have.",
            "It is damaged, or was made for another model.",
        )
    return ids


def tensors_of(folder: Path) -> dict[str, mx.array]:
    """All tensors of a head, from safetensors or a torch file. Raises `Problem`."""
    found: dict[str, mx.array] = {}
    with _weights(folder) as (files, programs):
        for file in files:
            loaded: Any = mx.load(str(file))
            found |= loaded
        for file in programs:
            found |= tensors_of_bin(file)
    if not found:
        raise Problem(f"There are no weights in {folder}.", "Fetch the drafter again.")
    return found


def names_of(folder: Path) -> list[str]:
    """The names of all tensors of a head, of which none is read. Raises `Problem`."""
    with _weights(folder) as (files, programs):
        found = [str(n) for file in files for n in mx.load(str(file))]
        return found + [n for file in programs for n in names_of_bin(file)]


@contextmanager
def _weights(folder: Path) -> Iterator[tuple[list[Path], list[Path]]]:
    """The files of safetensors in `folder`, or else those of torch; what cannot be read of them is a `Problem`."""
    files = sorted(folder.glob("*.safetensors"))
    try:
        yield files, [] if files else sorted([*folder.glob("*.bin"), *folder.glob("medusa*.pt")])
    except (OSError, RuntimeError, ValueError) as e:
        raise Problem(f"The drafter's weights in {folder} cannot be read: {e}.", AGAIN) from e
