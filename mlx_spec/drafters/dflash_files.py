"""DFlash drafters on disk: what is published, told apart, checked and read.

Whether a file is a DFlash, a DSpark or a DFlash 2 is said by its tensors, not by its settings. What the tensors cannot
say differs by producer, and a wrong guess fails nowhere; it only costs acceptance:
- the layers whose output is read: `target_layer_ids`, or (speculators and vLLM) `aux_hidden_state_layer_ids`, the
  number of layers before, so one more; where neither is there, the authors' rule (`default_taps`);
- the row that says the first draft: the first mask's, but in DSpark by DeepSpec and SpecForge the newest token's own
  (`sample_from_anchor` or `shift_label` says so, or the name of the network);
- whether a row sees the masks behind it: yes, but in sliding layers not, unless `is_causal`, `causal` or
  `sliding_window_non_causal` say otherwise.

Settings may be at the top, in `dflash_config`, or (speculators) in `transformer_layer_config`. A tensor that is not
known here means a network that is not, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from ..events import Problem
from .dflash_net import DFlashNet, Shape, default_taps
from .eagle_files import (
    AGAIN,
    OTHER,
    Array,
    check_vocabulary,
    fill,
    own_embedding,
    senseless,
    settings,
    tensors_of,
)

IGNORED = ("rotary_emb.inv_freq", "t2d", "d2t")  # ends of names; the mapping is read apart
TABLES = ("predecessor_codebook", "successor_codebook", "markov_w1")  # stored with and without `.weight`
TABLE = "candidate_selector.predecessor_codebook"
OTHERS = ("qwen3_5", "qwen35", "qwen3_next", "gemma")  # kinds whose norms have one added to their weights, and more
KINDS = ("dflash", "dspark", "dflash2")
GEMMA4 = 262144  # tokens; the authors' drafters for it do not say which token is their mask
GEMMA4_MASK = 4
MARKOVS = {"vanilla": (), "gated": ("gate_proj",), "rnn": ("joint_proj",)}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A network and the target's ids (Vd,) of the tokens that it can say, None where they are the same."""

    net: DFlashNet
    ids: Array | None


def told_by(config: Mapping[str, Any]) -> bool:
    """Whether the settings of a head are a DFlash drafter's."""
    named = config.get("architectures")
    return (
        isinstance(config.get("dflash_config"), dict)
        or isinstance(config.get("dspark_config"), dict)
        or config.get("speculators_model_type") in KINDS
        or any("dflash" in str(n).lower() or "dspark" in str(n).lower() for n in (named or ()))
    )


def read(folder: Path, *, layers: int, hidden: int, vocabulary: int) -> Loaded:
    """The drafter in `folder`, for a target of so many layers, features and tokens. Raises `Problem` with the reason if
    it is none, is damaged, or was made for another target."""
    config = _flat(settings(folder))
    tensors = tensors_of(folder)
    names = {_own(n): v for n, v in tensors.items() if not n.endswith(IGNORED) and "verifier_" not in n}
    if "fc.weight" not in names or "hidden_norm.weight" not in names:
        missing = "fc.weight" if "fc.weight" not in names else "hidden_norm.weight"
        raise Problem(f"The drafter in {folder} is no DFlash drafter: it has no {missing}.", OTHER)
    if other := _other_layers(config):
        raise Problem(f"The drafter in {folder} has layers of the kind {other}, which are not known here.", OTHER)
    check_vocabulary(config, vocabulary, folder)
    embedding = own_embedding(names, vocabulary, folder)
    with senseless(folder):
        _check_layers(config, layers, folder)
        shape = _shape(config, names, layers, hidden, embedding, folder)
    _check(shape, hidden, vocabulary, layers, folder)
    with senseless(folder):
        net = DFlashNet(shape)
    fill(net, names, config, folder)
    unknown = sorted(set(names) - set(dict(tree_flatten(net.parameters()))))
    if unknown:
        raise Problem(
            f"The drafter in {folder} has a part that is not known here: {unknown[0]}.",
            "Choose a DFlash, DFlash 2 or DSpark drafter of the published kinds.",
        )
    return Loaded(net, _ids(tensors, shape, vocabulary, folder))


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """All settings at one level; the drafter's own come before those of its layers."""
    found: dict[str, Any] = {}
    for part in (
        config.get("transformer_layer_config"),
        config,
        config.get("dspark_config"),
        config.get("dflash_config"),
    ):
        if isinstance(part, dict):
            found |= {k: v for k, v in part.items() if v is not None}
    rope = found.get("rope_parameters")
    if isinstance(rope, dict):
        found.setdefault("rope_scaling", rope)
        found |= {k: rope[k] for k in ("rope_theta", "partial_rotary_factor") if k in rope}
    return found


def _own(name: str) -> str:
    name = name.removeprefix("model.")
    return f"{name}.weight" if name.endswith(TABLES) else name


def _other_layers(config: Mapping[str, Any]) -> str:
    """What the layers are called if they are not Qwen 3's. Those of a `DFlashDraftModel` are, whatever its target."""
    named = [str(n) for n in config.get("architectures", ())]
    if any(n.startswith("DFlash") for n in named):
        return ""
    kinds = [*named, str(config.get("model_type", ""))]
    return next((k for k in kinds if k.lower().startswith(OTHERS)), "")


def _check_layers(config: Mapping[str, Any], layers: int, folder: Path) -> None:
    theirs = int(config.get("num_target_layers") or layers)
    if theirs != layers:
        raise Problem(
            f"The drafter in {folder} was made for a model with {theirs} layers, and this one has {layers}.", OTHER
        )


def _shape(
    config: Mapping[str, Any], names: Mapping[str, mx.array], layers: int, hidden: int, embedding: int, folder: Path
) -> Shape:
    size, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    kv_heads = int(config.get("num_key_value_heads") or heads)
    depth = int(config["num_hidden_layers"])
    if min(size, heads, kv_heads, depth) < 1 or heads % kv_heads:
        raise ValueError(f"{depth} layers, {size} features, {heads} heads of queries and {kv_heads} of keys")
    head_dim = int(config.get("head_dim") or size // heads)
    block = int(config["block_size"])
    first = 0 if _from_newest(config) else 1
    if block - first < 1:
        raise ValueError(f"a block of {block}")
    windows = _windows(config, depth)
    partial = float(config.get("partial_rotary_factor") or 1)
    if any(isinstance(v, dict) for v in (config.get("rope_scaling") or {}).values()):
        raise ValueError("layers that rotate in different ways")
    kind, sizes = _markov(config, names, folder)
    confidence = "confidence_head.proj.weight" in names
    width = _width(config, names, "confidence_head.proj") if confidence else 0
    cap, multiplier = config.get("final_logit_softcapping"), config.get("output_multiplier")
    scale = config.get("input_embedding_scale")
    head = names.get("lm_head.weight")
    return Shape(
        hidden=size,
        target_hidden=int(config.get("target_hidden_size") or hidden),
        layers=depth,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=int(config["intermediate_size"]),
        taps=_taps(config, layers, depth),
        block=block,
        mask=_mask(config),
        first=first,
        windows=windows,
        causal=_causal(config, windows),
        eps=float(config.get("rms_norm_eps") or 1e-6),
        rope_theta=float(config.get("rope_theta") or 10000.0),
        rope_scaling=config.get("rope_scaling"),
        rope_dims=None if partial == 1 else int(head_dim * partial),
        rope_pairs=config.get("rope_is_neox_style") is False,
        positions=int(config.get("max_position_embeddings") or 2048),
        bias="layers.0.self_attn.q_proj.bias" in names,
        bias_out="layers.0.self_attn.o_proj.bias" in names,
        conv=_conv(config, names, size),
        selector=_selector(config, names),
        markov=kind,
        markov_sizes=sizes,
        confidence=width,
        embedding=embedding,
        said=0 if head is None else int(head.shape[0]),
        scale=None if scale is None else float(scale),
        multiplier=None if multiplier is None else float(multiplier),
        cap=None if cap is None else float(cap),
    )


def _from_newest(config: Mapping[str, Any]) -> bool:
    """Whether the newest token's own row says the first draft."""
    for key in ("sample_from_anchor", "shift_label"):
        if key in config:
            return bool(config[key])
    if "speculators_model_type" in config or "speculators_config" in config:
        return False
    named = [*config.get("architectures", ()), config.get("projector_type", "")]
    return "dspark_config" in config or any("dspark" in str(n).lower() for n in named)


def _taps(config: Mapping[str, Any], layers: int, depth: int) -> tuple[int, ...]:
    """The layers whose output is read, by the producer's own way of counting."""
    if listed := config.get("target_layer_ids"):
        return tuple(int(i) for i in listed)
    if listed := config.get("aux_hidden_state_layer_ids"):
        return tuple(int(i) - 1 for i in listed)
    return default_taps(layers, depth)


def _mask(config: Mapping[str, Any]) -> int:
    if "mask_token_id" not in config and int(config.get("vocab_size", 0)) == GEMMA4:
        return GEMMA4_MASK
    return int(config["mask_token_id"])


def _windows(config: Mapping[str, Any], depth: int) -> tuple[int | None, ...]:
    kinds = [str(k) for k in config.get("layer_types") or ["full_attention"] * depth]
    if len(kinds) < depth or set(kinds) - {"full_attention", "sliding_attention"}:
        raise ValueError(f"{depth} layers, of the kinds {', '.join(kinds)}")
    found: list[int | None] = []
    for kind in kinds[:depth]:
        window = None if kind == "full_attention" else int(config["sliding_window"])
        if window is not None and window < 2:
            raise ValueError(f"layers that see {window} places")
        found.append(window)
    return tuple(found)


def _causal(config: Mapping[str, Any], windows: tuple[int | None, ...]) -> tuple[bool, ...]:
    if "is_causal" in config:
        return tuple(bool(config["is_causal"]) for _ in windows)
    sliding = bool(config.get("causal", not config.get("sliding_window_non_causal", False)))
    return tuple(w is not None and sliding for w in windows)


def _conv(config: Mapping[str, Any], names: Mapping[str, mx.array], size: int) -> tuple[int, int] | None:
    if "layers.0.attention_conv.base_kernel" not in names and not config.get("conv_kernel_size"):
        return None
    taps, group = int(config["conv_kernel_size"]), int(config["conv_group_size"])
    if taps < 1 or group < 1 or size % group:
        raise ValueError(f"{size} features in groups of {group}")
    return taps, group


def _selector(config: Mapping[str, Any], names: Mapping[str, mx.array]) -> tuple[int, int, int] | None:
    table = names.get(f"{TABLE}.weight")
    if table is None and not config.get("selector_rank"):
        return None
    tokens = int(config["vocab_size"]) if table is None else int(table.shape[0])
    rank = int(config["selector_rank"]) if table is None else _width(config, names, TABLE)
    return tokens, rank, max(int(config.get("selector_top_k") or 16), 1)


def _markov(config: Mapping[str, Any], names: Mapping[str, mx.array], folder: Path) -> tuple[str, tuple[int, int, int]]:
    before, said = names.get("markov_head.markov_w1.weight"), names.get("markov_head.markov_w2.weight")
    if before is None and said is None and not config.get("markov_rank"):
        return "", (0, 0, 0)
    for name, found in (("markov_w1", before), ("markov_w2", said)):
        if found is None:
            raise Problem(f"The drafter in {folder} is incomplete: markov_head.{name} is missing.", AGAIN)
    assert before is not None
    assert said is not None
    kind = str(config.get("markov_head_type") or "vanilla").lower()
    if kind not in MARKOVS:
        raise Problem(
            f'The drafter in {folder} has a Markov head of the kind "{kind}", which is not known here.',
            f"Those that are: {', '.join(MARKOVS)}.",
        )
    return kind, (int(before.shape[0]), int(said.shape[0]), _width(config, names, "markov_head.markov_w1"))


def _width(config: Mapping[str, Any], names: Mapping[str, mx.array], name: str) -> int:
    """How many features a layer reads, or an embedding gives, whether its weights are packed or not."""
    if f"{name}.scales" in names:
        return int(names[f"{name}.scales"].shape[-1]) * int(config["quantization"]["group_size"])
    return int(names[f"{name}.weight"].shape[-1])


def _check(shape: Shape, hidden: int, vocabulary: int, layers: int, folder: Path) -> None:
    """Raises `Problem` if a network of this shape does not go with such a target."""
    for theirs in (shape.target_hidden, *([] if shape.embedding and shape.said else [shape.hidden])):
        if theirs != hidden:
            raise Problem(
                f"The drafter in {folder} was made for a model with {theirs:,} features, and this one has {hidden:,}.",
                OTHER,
            )
    if not shape.taps or not all(0 <= i < layers for i in shape.taps):
        raise Problem(
            f"The drafter in {folder} reads the layers {', '.join(str(i) for i in shape.taps)}, and this model has "
            f"{layers}.",
            OTHER,
        )
    if shape.confidence not in (0, shape.hidden, shape.hidden + shape.markov_sizes[2]):
        raise Problem(
            f"The drafter in {folder} contradicts itself: its confidence head reads {shape.confidence} features of "
            f"rows that have {shape.hidden}.",
            AGAIN,
        )
    if not 0 <= shape.mask < (shape.embedding or vocabulary):
        raise Problem(
            f"The mask of the drafter in {folder} is the token {shape.mask:,}, which this model does not have.", OTHER
        )


def _ids(tensors: Mapping[str, mx.array], shape: Shape, vocabulary: int, folder: Path) -> Array | None:
    """The target's ids of what is said, and whether all that say something say as many."""
    offsets = next((v for n, v in tensors.items() if n.removeprefix("model.") == "d2t"), None)
    ids = None
    if offsets is not None:
        ids = np.array(offsets).astype(np.int64).reshape(-1) + np.arange(offsets.size)
        if not len(ids) or ids.min() < 0 or ids.max() >= vocabulary or len(set(ids.tolist())) != len(ids):
            raise Problem(
                f"The drafter in {folder} maps its tokens (d2t) to ones that this model does not have.",
                "It is damaged, or was made for another model.",
            )
    said = {n for n in (shape.said, shape.markov_sizes[1]) if n} | ({len(ids)} if ids is not None else set())
    if not shape.said and ids is None:
        said.add(vocabulary)
    if len(said) > 1:
        raise Problem(
            f"The drafter in {folder} contradicts itself: its parts say {' and '.join(f'{n:,}' for n in sorted(said))} "
            "tokens.",
            OTHER,
        )
    return ids
