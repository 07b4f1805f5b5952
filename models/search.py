"""Searching the hub for models: what it lists, read into what a person wants to know before a download.

One request a search. What the list leaves open (the exact files, the caches' size) is asked for by `models.repo`.
An entry that cannot be read is left out; the rest stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlx_spec.events import Problem

from . import hub, loadable
from .memory import SIZES

FORMS = ("mlx", "gguf", "all")  # what to list: mlx folders, GGUF files, anything
SORTS = ("downloads", "likes", "lastModified", "trendingScore")
EXPAND = ("downloads", "likes", "tags", "gated", "safetensors", "gguf", "config", "siblings", "lastModified")
LIMIT = 40
NOT_TEXT = frozenset((
    "automatic-speech-recognition", "text-to-speech", "text-to-image", "image-to-image", "text-to-video",
    "feature-extraction", "sentence-similarity", "text-ranking", "fill-mask", "image-classification",
    "object-detection", "audio-to-audio", "text-classification", "token-classification", "text-to-audio",
))  # fmt: skip
SIZED = {"F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F4": 0.5, **SIZES}  # bytes a number, as the hub names them


@dataclass(frozen=True, slots=True)
class Found:
    """One model on the hub. `form` is "mlx" (a folder in mlx's quantization), "weights" (a folder of others), "gguf"
    or "other". `bytes` of its weights are None where the list does not say. `why_not` says why it cannot be used here,
    "" where nothing is known to speak against it."""

    repo: str
    form: str
    bytes: int | None
    licence: str
    quantization: str
    downloads: int
    likes: int
    updated: str  # a date, YYYY-MM-DD, or ""
    gated: bool
    why_not: str = ""


def search(words: str, form: str = "mlx", limit: int = LIMIT, sort: str = "downloads") -> list[Found]:
    """What the hub lists for `words`, at most `limit`, most downloaded first. Raises `Problem`."""
    parameters: dict[str, Any] = {"search": words.strip(), "limit": limit, "sort": sort, "expand": list(EXPAND)}
    if form != "all":
        parameters["filter"] = form
    answer = hub.ask("/api/models", parameters, "a list of models")
    if not isinstance(answer, list):
        raise hub.garbage("a list of models")
    found = [one for entry in answer[:limit] if (one := read_entry(entry)) is not None]
    if answer and not found:
        raise hub.garbage("a list of models")
    return found


def read_entry(entry: Any) -> Found | None:
    """One entry of the hub's list; None for one that is none."""
    try:
        repo = entry["id"]
        if not isinstance(repo, str) or not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
            return None
        tags = [t for t in entry.get("tags") or () if isinstance(t, str)]
        config = entry.get("config") if isinstance(entry.get("config"), dict) else {}
        names = [str(s["rfilename"]) for s in entry.get("siblings") or ()]
        form = form_of(names, tags, config)
        return Found(
            repo=repo,
            form=form,
            bytes=_weights(entry.get("safetensors")) if form in ("mlx", "weights") else None,
            licence=licence_of(tags),
            quantization=quantization_of(repo, form, config),
            downloads=int(entry.get("downloads") or 0),
            likes=int(entry.get("likes") or 0),
            updated=str(entry.get("lastModified") or "")[:10],
            gated=bool(entry.get("gated")),
            why_not=_why_not(form, tags, config, entry),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def form_of(names: list[str], tags: list[str], config: Mapping[str, Any]) -> str:
    """What kind of files a repository holds, by their names where those are known, else by its tags."""
    if any(n.endswith(".gguf") for n in names) or (not names and "gguf" in tags):
        return "gguf"
    weights = any(re.fullmatch(r"model.*\.safetensors", n) for n in names) if names else "safetensors" in tags
    if not weights:
        return "other"
    return "mlx" if "mlx" in tags or "quantization" in config else "weights"


def licence_of(tags: list[str]) -> str:
    """The licence as the hub tags it; "" where it does not say."""
    return next((t.removeprefix("license:") for t in tags if t.startswith("license:")), "")


def quantization_of(repo: str, form: str, config: Mapping[str, Any]) -> str:
    """How the weights are stored, in few words: out of the config, else out of the name."""
    for key in ("quantization", "quantization_config"):
        entry = config.get(key)
        if isinstance(entry, Mapping):
            method = str(entry.get("mode") or entry.get("quant_method") or "")
            bits = entry.get("bits")
            if isinstance(bits, int):
                return f"{bits}-bit" + (f" {method}" if method not in ("", "affine") else "")
            if method:
                return method
    if form == "gguf":
        return gguf_label(repo) or "GGUF"
    name = repo.lower()
    if told := re.search(r"(?<![a-z0-9])(mxfp4|mxfp8|nvfp4|fp8|awq|gptq)(?![a-z0-9])", name):
        return told[1]
    if told := re.search(r"(?<![0-9a-z])(\d)[ _-]?bits?(?![a-z0-9])|(?<![0-9a-z])q(\d)(?![0-9])", name):
        return f"{told[1] or told[2]}-bit"
    told = re.search(r"(?<![a-z0-9])(bf16|fp16|f16|fp32)(?![a-z0-9])", name)
    return told[1] if told else ("" if form == "mlx" else "16-bit")


def gguf_label(name: str) -> str:
    """The kind of blocks that a GGUF file is named after, such as Q4_K_M; "" where its name does not tell."""
    told = re.findall(r"(?<![a-z0-9])(i?q\d(?:_[a-z0-9]+)*|bf16|f16|f32|mxfp4(?:_[a-z]+)?)(?![a-z0-9])", name.lower())
    return str(told[-1]).upper() if told else ""


def _weights(entry: Any) -> int | None:
    """Bytes out of the hub's counts of numbers by their type; None where it does not count them."""
    counts = entry.get("parameters") if isinstance(entry, dict) else None
    if not isinstance(counts, dict) or not counts:
        return None
    return int(sum(int(n) * SIZED.get(str(kind).upper(), 2) for kind, n in counts.items()))


def _why_not(form: str, tags: list[str], config: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    if form == "other":
        return "It holds neither weights that MLX reads (model*.safetensors) nor a GGUF file."
    if NOT_TEXT & set(tags):
        return "It writes no text."
    if form == "gguf":
        about = entry.get("gguf")
        kind = about.get("architecture") if isinstance(about, dict) else None
        return gguf_why_not(kind) if isinstance(kind, str) else ""
    if "lora" in tags or "peft" in tags or "adapter" in tags:
        return "It is an adapter for a model, no model by itself."
    return loadable.why_not(config) if config.get("model_type") or config.get("architectures") else ""


def gguf_why_not(kind: str) -> str:
    """Why a GGUF file of this architecture cannot be imported; "" if it can."""
    from .gguf_import import ARCHITECTURES  # brings numpy, which a window need not wait for

    if kind in ARCHITECTURES:
        return ""
    return f'GGUF files of the architecture "{kind}" cannot be imported yet; look for the model in MLX\'s form.'


def check_words(words: str) -> str:
    """The words of a search, or `Problem` where there are none."""
    if not words.strip():
        raise Problem("There is nothing to search for.", "Type a word of the model's name, such as qwen3.")
    return words.strip()
