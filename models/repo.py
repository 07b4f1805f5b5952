"""One repository of the hub, exactly: its files with their hashes, what a download of it would be, and whether it fits.

Two requests: the list of files and the config. What is fetched is a `Plan`, which `models.fetch` carries out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlx_spec.events import Problem

from . import hub, loadable
from .memory import MemoryNeed, available, need_of
from .search import Found, gguf_label, read_entry

# Of a folder: what mlx-lm reads, and nothing that could run.
FOLDER_FILES = re.compile(r"[^/]+\.(json|jinja|model|txt|tiktoken)|model[^/]*\.safetensors")
USUAL_CONTEXT = 8192  # tokens, where neither the model nor the person sets less
TIGHT = 0.85  # of what is free: beyond, other programs will feel it
PLAIN_PATH = re.compile(r"[^/\\\x00]+(/[^/\\\x00]+)*")


@dataclass(frozen=True, slots=True)
class RepoFile:
    """`sha256` is that of large files, `blob` git's mark of small ones; either tells whether what came is whole."""

    path: str
    bytes: int
    sha256: str
    blob: str

    @property
    def mark(self) -> str:
        """The name under which the hub's cache keeps it."""
        return self.sha256 or self.blob


@dataclass(frozen=True, slots=True)
class Plan:
    """What a download fetches: these files of this commit. `file` is the GGUF file that it is for, "" for a folder."""

    repo: str
    commit: str
    files: tuple[RepoFile, ...]
    file: str = ""

    @property
    def bytes(self) -> int:
        return sum(f.bytes for f in self.files)

    @property
    def source(self) -> str:
        """What `locate` takes for it."""
        return f"{self.repo}/{self.file}" if self.file else self.repo


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to have the model: a folder, or one of several GGUF files. `weights` are bytes in memory, which for GGUF
    kinds that are unpacked at the import are more than in the file. `note` says that."""

    plan: Plan
    label: str
    weights: int
    why_not: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Repo:
    """`config` is empty where the repository has none that can be read."""

    found: Found
    variants: tuple[Variant, ...]
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def usable(self) -> tuple[Variant, ...]:
        return tuple(v for v in self.variants if not v.why_not)


def details(repo: str) -> Repo:
    """All that is to be known of `repo` before it is fetched. Raises `Problem` where the hub does not tell."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        raise Problem(f'"{repo}" is no hub id.', "A hub id is owner/name, such as mlx-community/Qwen3-4B-4bit.")
    answer = hub.ask(f"/api/models/{repo}", {"blobs": True}, repo)
    found = read_entry(answer)
    if found is None or not isinstance(answer.get("sha"), str):
        raise hub.garbage(f"what {repo} holds")
    files = read_files(answer)
    if found.form == "gguf":
        return Repo(found, gguf_variants(found, answer, files), {})
    config: Mapping[str, Any] = {}
    if any(f.path == "config.json" for f in files):
        read = hub.ask_file(repo, "config.json", answer["sha"])
        if not isinstance(read, dict):
            raise hub.garbage(f"the config.json of {repo}")
        config = read
    return Repo(found, (folder_variant(found, answer["sha"], files, config),), config)


def read_files(answer: Mapping[str, Any]) -> tuple[RepoFile, ...]:
    """The files of a repository that name their size and a hash; others cannot be checked and are left out."""
    files = []
    for entry in answer.get("siblings") or ():
        try:
            path, size, large = str(entry["rfilename"]), int(entry["size"]), entry.get("lfs") or {}
            sha, blob = str(large.get("sha256") or ""), str(entry.get("blobId") or "")
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        sound = re.fullmatch(r"[0-9a-f]{64}", sha) or (not sha and re.fullmatch(r"[0-9a-f]{40}", blob))
        if sound and size >= 0 and PLAIN_PATH.fullmatch(path) and ".." not in path.split("/"):
            files.append(RepoFile(path, size, sha, blob))
    return tuple(files)


def folder_variant(found: Found, commit: str, files: tuple[RepoFile, ...], config: Mapping[str, Any]) -> Variant:
    """The model as a folder."""
    wanted = tuple(f for f in files if FOLDER_FILES.fullmatch(f.path))
    weights = sum(f.bytes for f in wanted if f.path.endswith(".safetensors"))
    names = {f.path for f in wanted}
    if found.why_not:
        why = found.why_not
    elif not config:
        why = "It has no config.json, so it is no model that MLX loads."
    elif not weights:
        why = "It has no weights that MLX reads (model*.safetensors)."
    elif why := loadable.why_not(config):
        pass
    elif not names & {"tokenizer.json", "tokenizer.model", "vocab.json", "tiktoken.model"}:
        why = "It has no tokenizer."
    return Variant(Plan(found.repo, commit, wanted), found.quantization, weights, why)


def gguf_variants(found: Found, answer: Mapping[str, Any], files: tuple[RepoFile, ...]) -> tuple[Variant, ...]:
    """Each GGUF file, smallest first."""
    about = answer.get("gguf")
    numbers = about.get("total") if isinstance(about, dict) else None
    variants = []
    for file in sorted((f for f in files if f.path.endswith(".gguf")), key=lambda f: f.bytes):
        label = gguf_label(file.path.rsplit("/", 1)[-1]) or "GGUF"
        why = found.why_not
        if re.search(r"-\d{5}-of-\d{5}\.gguf$", file.path):
            why = why or "It is one of several parts of a model, which cannot be put together yet."
        elif "mmproj" in file.path.lower():
            why = why or "It is the part of a model that sees, no model by itself."
        weights, note = in_memory(file.bytes, label, numbers if isinstance(numbers, int) else None)
        variants.append(Variant(Plan(found.repo, answer["sha"], (file,), file.path), label, weights, why, note))
    return tuple(variants)


def in_memory(size: int, label: str, numbers: int | None = None) -> tuple[int, str]:
    """Bytes that a GGUF file of this kind takes once imported (estimated), and a sentence where that is more.

    Q4_0, Q4_1 and Q8_0 keep their codes and get one more float16 for each 32 weights; other kinds become float16.
    """
    if label in ("Q4_0", "Q4_1", "Q8_0"):
        return int(size * {"Q4_0": 20 / 18, "Q4_1": 1.0, "Q8_0": 36 / 34}[label]), ""
    if label in ("F16", "BF16", "F32"):
        return size, ""
    bits = re.search(r"Q(\d)", label)
    wide = 2 * numbers if numbers else int(size * 16 / (int(bits[1]) + 0.75 if bits else 4.75))
    if wide <= size:
        return size, ""
    return wide, f"{label} is unpacked to 16 bits at the import; Q4_0, Q4_1 and Q8_0 stay small."


# ----------------------------------------------------------------------------------------------------- fit


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a model fits into what is free now. `verdict` is "fits", "tight", "too large" or "unknown"."""

    verdict: str
    need: MemoryNeed | None
    free: int
    context: int
    longest: int = 0  # tokens of context that would fit; 0: none, or not known
    estimated: bool = False  # the caches are a guess

    @property
    def words(self) -> str:
        """The verdict with its figures, a sentence or two."""
        if self.need is None:
            return "Its sizes are not known, so whether it fits is not, either."
        need = self.need
        parts = [f"{_gb(need.weights)} weights"]
        if need.draft_weights:
            parts.append(f"{_gb(need.draft_weights + need.draft_kv)} draft model")
        parts.append(f"{_gb(need.kv)} for {self.context:,} tokens of context")
        start = {"fits": "Fits here", "tight": "Fits, but tightly", "too large": "Does not fit here"}[self.verdict]
        total = f"about {_gb(need.total)}" if self.estimated else _gb(need.total)
        text = f"{start}: {total} of {_gb(self.free)} free ({', '.join(parts)})."
        if self.verdict == "too large" and self.longest >= 512:
            text += f" It would with at most {self.longest:,} tokens of context."
        return text


def _gb(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"


def fit(
    config: Mapping[str, Any], weights: int | None, draft_weights: int = 0,
    draft_config: Mapping[str, Any] | None = None, context: int | None = None, free: int | None = None,
) -> Fit:  # fmt: skip
    """Whether weights of so many bytes, the draft model and both caches fit into `free` bytes (None: ask the machine).

    `context` None is the model's own, at most USUAL_CONTEXT. Without a config the caches are taken as an eighth of the
    weights, which is what models of this kind take there.
    """
    there = available() if free is None else free
    length = min(context or USUAL_CONTEXT, _most(config) or USUAL_CONTEXT) if context is None else context
    if not weights:
        return Fit("unknown", None, there, length)
    try:
        if config:
            need = need_of(dict(config), weights, dict(draft_config or {}), draft_weights, length)
        else:
            need = MemoryNeed(weights, draft_weights, weights // 8 * length // USUAL_CONTEXT, 0, 1 << 28)
    except (TypeError, ValueError, AttributeError, ArithmeticError):  # a config of other types than it should have
        return Fit("unknown", None, there, length)
    caches = need.kv + need.draft_kv
    room = there - (need.total - caches)
    longest = min(int(room * length / caches), _most(config) or 1 << 30) if caches > 0 and room > 0 else 0
    verdict = "too large" if need.total > there else "tight" if need.total > TIGHT * there else "fits"
    return Fit(verdict, need, there, length, longest, not config)


def _most(config: Mapping[str, Any]) -> int:
    """Tokens of context that the model was made for; 0 where it does not say."""
    text = config.get("text_config", config)
    most = text.get("max_position_embeddings") if isinstance(text, Mapping) else None
    return most if isinstance(most, int) and most > 0 else 0


def best_variant(repo: Repo, free: int | None = None) -> Variant | None:
    """The variant to offer: the largest that fits well, with room for its context; else the smallest; None: none can be
    used."""
    usable = repo.usable
    if not usable:
        return None
    there = available() if free is None else free
    good = [v for v in usable if fit(repo.config, v.weights, free=there).verdict == "fits"]
    # Between equal sizes in memory the file that keeps more of the model's own precision is the larger one.
    return max(good, key=lambda v: (v.plan.bytes, -v.weights)) if good else min(usable, key=lambda v: v.weights)


def folder_plan(repo: str) -> Plan:
    """The plan for a whole repository, or `Problem` why it cannot be used."""
    known = details(repo)
    if len(known.usable) != 1 or known.usable[0].plan.file:
        reasons = [v.why_not for v in known.variants if v.why_not] or ["It holds nothing that can be used."]
        why = "It holds GGUF files: name one of them." if known.usable else reasons[0]
        names = ", ".join(v.plan.source for v in known.usable[:3])
        raise Problem(f"{repo} cannot be used as it is. {why}", f"For example {names}." if names else "Choose another.")
    return known.usable[0].plan


def file_plan(repo: str, file: str) -> Plan:
    """The plan for one GGUF file of a repository, or `Problem` why it cannot be used."""
    for variant in details(repo).variants:
        if variant.plan.file == file:
            if variant.why_not:
                raise Problem(f"{file} of {repo} cannot be used. {variant.why_not}", "Choose another file.")
            return variant.plan
    raise Problem(f"{repo} has no file {file}.", "Look at the names of its files on the hub.")
