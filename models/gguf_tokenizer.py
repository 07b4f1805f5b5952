"""A tokenizer out of a GGUF file's metadata, written the way mlx-lm and transformers read it.

Byte-level BPE ("gpt2" in GGUF) with the pre-tokenizers that the popular models name, and SentencePiece BPE
("llama"). It knows metadata and tokenizer files; no tensors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mlx_spec.events import Problem

UNKNOWN, CONTROL, USER_DEFINED, BYTE = 2, 3, 4, 6

# How text is cut before merges, by the name in tokenizer.ggml.pre. The patterns are those of the models' own
# tokenizers; digits: whether each digit stands alone.
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {
    "qwen2": _CONTRACTIONS + _WORDS + r"\p{N}" + _REST,
    "llama-bpe": _CONTRACTIONS + _WORDS + r"\p{N}{1,3}" + _REST,
    "llama3": _CONTRACTIONS + _WORDS + r"\p{N}{1,3}" + _REST,
}
SINGLE_DIGITS = {"smollm", "starcoder", "refact", "codeshell"}
PLAIN = {"default", "gpt-2", "gpt2", ""}


def write_tokenizer(meta: dict[str, Any], folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json. Raises `Problem` for a kind that is not known."""
    kind = meta.get("tokenizer.ggml.model")
    tokens = meta.get("tokenizer.ggml.tokens")
    if not tokens:
        raise Problem("The GGUF file has no tokenizer.", "Choose another file.")
    if kind == "gpt2":
        tokenizer = byte_level(meta)
    elif kind == "llama":
        tokenizer = sentencepiece(meta)
    else:
        raise Problem(f'The GGUF file\'s tokenizer kind "{kind}" is not known.', "Choose another file.")
    tokenizer.save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": int(meta.get(f"{meta.get('general.architecture')}.context_length", 1 << 20)),
    }
    for name in ("bos", "eos", "unknown", "padding"):
        number = meta.get(f"tokenizer.ggml.{name}_token_id")
        if number is not None and 0 <= number < len(tokens):
            config[{"unknown": "unk", "padding": "pad"}.get(name, name) + "_token"] = tokens[number]
    if template := meta.get("tokenizer.chat_template"):
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1), "utf-8")


def end_ids(meta: dict[str, Any]) -> list[int]:
    """Ids that end a turn: the file's own, and the usual end-of-turn tokens if they are control tokens."""
    tokens, types = meta["tokenizer.ggml.tokens"], meta.get("tokenizer.ggml.token_type") or []
    ids = {meta.get("tokenizer.ggml.eos_token_id"), meta.get("tokenizer.ggml.eot_token_id")} - {None}
    ends = {"<|im_end|>", "<|eot_id|>", "<|end|>", "<|endoftext|>", "<end_of_turn>", "</s>", "<|eom_id|>"}
    ids |= {i for i, (t, k) in enumerate(zip(tokens, types, strict=False)) if t in ends and k == CONTROL}
    return sorted(int(i) for i in ids if i is not None)


def added_tokens(meta: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Control tokens and user-defined tokens, in order of their ids."""
    from tokenizers import AddedToken

    control, own = [], []
    kinds = meta.get("tokenizer.ggml.token_type") or []
    for token, kind in zip(meta["tokenizer.ggml.tokens"], kinds, strict=False):
        if kind == CONTROL:
            control.append(AddedToken(token, normalized=False, special=True))
        elif kind == USER_DEFINED:
            own.append(AddedToken(token, normalized=False, special=False))
    return control, own


def byte_level(meta: dict[str, Any]) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    pre = str(meta.get("tokenizer.ggml.pre", "default"))
    vocab = {t: i for i, t in enumerate(meta["tokenizer.ggml.tokens"])}
    merges = [tuple(m.split(" ", 1)) for m in meta.get("tokenizer.ggml.merges", [])]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    prefix = bool(meta.get("tokenizer.ggml.add_space_prefix", False))
    if pre in SPLITS:
        split = pre_tokenizers.Split(Regex(SPLITS[pre]), "isolated")
        whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, whole])
    elif pre in SINGLE_DIGITS:
        digits = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=prefix)])
    elif pre in PLAIN:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    else:
        raise Problem(
            f'The GGUF file cuts text by the rule "{pre}", which is not known here.',
            "Use the model's original folder or hub id instead.",
        )
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    control, own = added_tokens(meta)
    tokenizer.add_special_tokens(control)
    tokenizer.add_tokens(own)
    add_start(tokenizer, meta, processors, default=False)
    return tokenizer


def sentencepiece(meta: dict[str, Any]) -> Any:
    """SentencePiece BPE has scores and no merges: two pieces merge into a third, the best score first."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors

    tokens, scores = meta["tokenizer.ggml.tokens"], meta.get("tokenizer.ggml.scores") or []
    vocab = {t: i for i, t in enumerate(tokens)}
    ranked: list[tuple[float, int, tuple[str, str]]] = []
    for token, score in zip(tokens, scores, strict=False):
        pairs = [(token[:i], token[i:]) for i in range(1, len(token))]
        for n, (a, b) in enumerate(sorted((p for p in pairs if p[0] in vocab and p[1] in vocab),
                                          key=lambda p: (vocab[p[0]], vocab[p[1]]))):  # fmt: skip
            ranked.append((-float(score), n, (a, b)))
    ranked.sort(key=lambda r: r[:2])
    unknown = int(meta.get("tokenizer.ggml.unknown_token_id", 0))
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocab,
            merges=[r[2] for r in ranked],
            unk_token=tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    prefix = bool(meta.get("tokenizer.ggml.add_space_prefix", True))
    steps = [normalizers.Prepend("▁")] if prefix else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    strip = [decoders.Strip(content=" ", left=1)] if prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    control, own = added_tokens(meta)
    tokenizer.add_special_tokens(control)
    tokenizer.add_tokens(own)
    add_start(tokenizer, meta, processors, default=True)
    return tokenizer


def add_start(tokenizer: Any, meta: dict[str, Any], processors: Any, default: bool) -> None:
    """Put the start token in front where the file asks for it."""
    number = meta.get("tokenizer.ggml.bos_token_id")
    if meta.get("tokenizer.ggml.add_bos_token", default) and number is not None:
        start = meta["tokenizer.ggml.tokens"][number]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{start} $A", pair=f"{start} $A $B", special_tokens=[(start, number)]
        )
