"""A loaded target with its drafters: conversations in, events out.

    engine = load_engine(Path("folder"))
    for event in engine.generate([Message("user", "Hello")]):
        ...

The engine keeps its prompt cache between calls, so a follow-up reads only what is new. It belongs to the
thread that made it, as mlx's streams do. It knows no process, window or download.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from . import apple, tree
from .anatomy import Anatomy, dissect, weight_bytes
from .controller import Controller
from .decoder import Reply, decode
from .detokenize import ANCHOR, Pieces, TextStream
from .drafters.base import Drafter
from .drafters.draft_model import DraftModel
from .drafters.history import PastReplies
from .drafters.layer_skip import LayerSkip, able
from .drafters.lookup import Lookup
from .drafters.suffix import Suffix
from .events import (
    DrafterSettings,
    Finished,
    Message,
    ModelInfo,
    Problem,
    PromptProgress,
    Round,
    SamplingSettings,
)
from .files import replacing
from .precision import has_gpu, widen
from .processors import LogitsProcessor, Processors
from .replies import Replies, tokenizer_hash
from .target import Target

DEFAULT_CONTEXT = 8192  # where a model does not say
KV_START = 5000  # tokens before keys and values are quantized, as in mlx-lm


def load_model(folder: Path, dtype: str | None = None) -> tuple[nn.Module, Any, dict[str, Any]]:
    """Load an mlx-lm folder: (model, tokenizer, config). Raises `Problem` if mlx-lm cannot run it."""
    from mlx_lm import utils

    if dtype not in (None, "stored", "float32"):
        raise Problem(f'The weight type "{dtype}" is unknown.', 'Choose "stored" or "float32".')
    apple.install()
    try:
        model, config = utils.load_model(folder, lazy=True)
        tokenizer = utils.load_tokenizer(folder, eos_token_ids=config.get("eos_token_id"))
        if dtype == "float32" or (dtype is None and not has_gpu() and "quantization" in config):
            widen(model)
        mx.eval(model.parameters())
    except Problem:
        raise
    except ValueError as e:
        raise Problem(
            f"The model in {folder} cannot be loaded: {_first_line(e)}",
            "Choose another model, or fetch it again.",
        ) from e
    except (OSError, KeyError, RuntimeError, TypeError) as e:
        raise Problem(
            f"The model in {folder} is damaged or incomplete: {_first_line(e)}", "Fetch or import it again."
        ) from e
    model.eval()
    return model, tokenizer, config


def _first_line(e: BaseException) -> str:
    return (str(e).strip().splitlines() or [type(e).__name__])[0][:200]


def context_length(config: dict[str, Any]) -> int:
    """What the model was made for, in tokens."""
    text = config.get("text_config", config)
    return int(text.get("max_position_embeddings") or DEFAULT_CONTEXT)


def parameter_count(model: nn.Module) -> int:
    """Weights, counting packed ones."""
    total = 0
    for _, module in model.named_modules():
        for name, value in module.items():
            if not isinstance(value, mx.array) or name in ("scales", "biases"):
                continue
            packed = name == "weight" and hasattr(module, "bits")
            total += value.size * 32 // module.bits if packed else value.size
    return total


def _width_guess(model: nn.Module) -> Callable[[int], float] | None:
    """What an Apple GPU makes of wide passes with quantized weights; None where nothing is known."""
    gpu, largest = apple.this_gpu()
    widths = [m.scales.shape[-1] * m.group_size for m in model.modules() if isinstance(m, nn.QuantizedLinear)]
    if not gpu or not widths:
        return None
    return partial(apple.pass_cost, gpu=gpu, largest=largest, inner=sorted(widths)[len(widths) // 2])


def _measured_as(target: Path, draft: Path | None, dtype: str | None) -> str:
    """Names what costs were measured of: models, weights, machine, mlx."""
    parts = [str(target), str(draft), str(dtype), platform.machine(), platform.processor(), version("mlx")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def load_engine(
    target: Path,
    draft: Path | None = None,
    *,
    context: int | None = None,
    dtype: str | None = None,
    name: str = "",
    draft_name: str = "",
    replies: Path | None = None,
    learned: Path | None = None,
    layers: Path | None = None,
    head: Path | None = None,
    heads: Sequence[Path] = (),
    kv_bits: int | None = None,
    quantized_kv_start: int = KV_START,
) -> Engine:
    """Load a target and maybe a draft model from mlx-lm folders. Raises `Problem` with the reason.

    `kv_bits` (4 or 8) keeps the target's keys and values in so many bits, from `quantized_kv_start` tokens on.

    `replies` is a folder where past replies are kept by tokenizer; None drafts from none and keeps none.
    `learned` is a folder where the controller's measurements are kept by model and version of mlx, `layers` one where
    `layer_search` keeps which layers a model's own drafts can do without.
    `head` is a folder with a head that drafts for this target (EAGLE); without one, `heads` are folders in which one
    that was made for it is looked for.
    """
    model, tokenizer, config = load_model(target, dtype)
    draft_model = None
    if draft is not None:
        draft_model, _, _ = load_model(draft, dtype)
    most = context_length(config)
    if context is not None and context < 2:
        raise Problem(f"The context length is set to {context}.", "Set it to at least 2 tokens.")
    return Engine(
        model,
        tokenizer,
        draft_model,
        folder=target,
        learned=learned / f"{_measured_as(target, draft, dtype)}.json" if learned else None,
        layers=layers / f"{_measured_as(target, None, dtype)}.json" if layers else None,
        head=head,
        heads=heads,
        context=min(context or most, most),
        replies=Replies(replies / f"{tokenizer_hash(target)}.jsonl") if replies else None,
        kv_bits=kv_bits,
        quantized_kv_start=quantized_kv_start,
        name=name or target.name,
        draft_name=draft_name or (draft.name if draft else ""),
        architecture=str(config.get("model_type", "")),
    )


class Engine:
    """A target, its drafters and what both remember of the conversation.

    `model`, `tokenizer` and `draft_model` are what `mlx_lm.load` returns.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        draft_model: nn.Module | None = None,
        *,
        folder: Path | None = None,
        context: int = DEFAULT_CONTEXT,
        replies: Replies | None = None,
        learned: Path | None = None,
        layers: Path | None = None,
        head: Path | None = None,
        heads: Sequence[Path] = (),
        kv_bits: int | None = None,
        quantized_kv_start: int = KV_START,
        name: str = "",
        draft_name: str = "",
        architecture: str = "",
    ) -> None:
        self.tokenizer = tokenizer
        self.draft_model = draft_model
        self.context = context
        self.folder = folder
        self.target = Target(model, kv_bits=kv_bits, kv_start=quantized_kv_start)
        self.controller = Controller(_width_guess(model))
        self._learned = learned
        self.layers = layers
        self._notices: list[str] = []
        if learned is not None:
            self._restore(learned)
        self.drafters: dict[str, Drafter] = {"suffix": Suffix(), "lookup": Lookup()}
        self.replies = replies
        if replies is not None:
            self.drafters["history"] = PastReplies(replies)
        refused = {"model": "no draft model is chosen"}
        size = weight_bytes(model)
        if draft_model is not None:
            try:
                self.drafters["model"] = DraftModel(draft_model, weight_bytes(draft_model) / size)
                del refused["model"]
            except Problem as e:
                raise Problem(f"The draft model cannot be used: {e.message}", e.remedy) from e
        reason = self.use_layers()
        if reason:
            refused["layer_skip"] = reason
        refused |= self.use_heads(head, heads)
        if any(d.stops for d in self.drafters.values()):
            self.target.trees = tree.able(self.target)
        parameters = parameter_count(model)
        self.info = ModelInfo(
            model=name,
            draft=draft_name or None,
            architecture=architecture or str(getattr(model, "model_type", "")),
            parameters=parameters,
            bits=8 * size / parameters,
            context=context,
            weight_bytes=size + (weight_bytes(draft_model) if draft_model else 0),
            drafters=tuple(self.drafters),
            refused=tuple(refused.items()),
        )

    @cached_property
    def anatomy(self) -> Anatomy | None:
        """The target's parts, where they are known."""
        return dissect(self.target.model)

    def use_heads(self, head: Path | None, folders: Sequence[Path] = ()) -> dict[str, str]:
        """Let `head` draft from now on, or for each kind the one in `folders` that was made for the target, or is among
        its own files; returns for each kind that cannot why not. Raises `Problem` if `head` was asked for and cannot be
        used."""
        from . import heads

        refused = dict(heads.NONE_YET)
        own, gone = heads.own(self.folder, self.target) if head is None else ({}, {})
        refused |= gone
        if head is None and not own and not any(f.is_dir() for f in folders):
            return refused
        if self.anatomy is None:
            if head is not None:
                raise Problem(
                    f"The drafter in {head} cannot be used: the parts of this model are not known.", "Leave it out."
                )
            return refused | dict.fromkeys([*heads.NONE_YET, *own], "the model's parts are not known")
        found = {heads.kind(head): head} if head else own | heads.find(folders, self.anatomy)
        for kind, folder in found.items():
            try:
                drafter = heads.load(folder, self.target, self.anatomy, kind)
            except Problem as e:
                if head is not None:
                    raise
                self._notices.append(f"{e.message} Drafting goes on without it.")
                refused[kind] = e.message.removesuffix(".")
                continue
            self.drafters[kind] = drafter
            refused.pop(kind, None)
            if head is not None and heads.made_for(head, self.anatomy) is None:
                self._doubt(drafter, head)
        return refused

    def _doubt(self, drafter: Drafter, folder: Path) -> None:
        """Tell if the guesses of a head from elsewhere are not this model's."""
        from . import heads

        share = heads.agreement(drafter, self.target, self.tokenizer, self.anatomy)
        if share is not None and share < heads.LEAST_AGREEMENT:
            self._notices.append(
                f"Of the first guesses of the drafter in {folder} only {share:.0%} are what the model would write: it "
                "was made for another model, or its files are not what they say."
            )

    def use_layers(self) -> str:
        """Let the target draft with some of its layers, if those were searched; else why it does not."""
        from . import layer_search

        found = layer_search.saved(self.layers) if self.layers else None
        if found is None:
            return "which layers it can do without was not searched yet (mlx-spec layers)"
        if not found.worth:
            return f"leaving layers out gains nothing with this model ({found.speed:.2f} times plain at best)"
        anatomy = self.anatomy
        reason = able(self.target, anatomy)
        if not reason and anatomy is not None and len(anatomy.layers) == found.layers:
            self.drafters["layer_skip"] = LayerSkip(self.target, anatomy, found.kept, found.cost)
        return reason

    def _restore(self, learned: Path) -> None:
        """Take up what was measured before; what cannot be read is set aside and measured anew."""
        try:
            self.controller.restore(json.loads(learned.read_text("utf-8")))
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as e:
            self._notices.append(
                f"What was measured of this model could not be read ({type(e).__name__}) and is measured anew; "
                f"the file is kept as {learned.stem}.damaged."
            )
            with contextlib.suppress(OSError):
                learned.replace(learned.with_suffix(".damaged"))

    def notices(self) -> list[str]:
        """What a person should be told, each once."""
        told, self._notices = self._notices, []
        if self.replies is not None:
            told += self.replies.notices
            self.replies.notices = []
        return told

    def encode(self, prompt: str | Sequence[Message] | Sequence[int]) -> list[int]:
        """Token ids of a text as it is, of a conversation by the model's chat template, or of themselves."""
        if isinstance(prompt, str):
            return [int(t) for t in self.tokenizer.encode(clean(prompt))]
        if prompt and isinstance(prompt[0], int):
            return [t for t in prompt if isinstance(t, int)]
        messages = [{"role": m.role, "content": clean(m.content)} for m in prompt if isinstance(m, Message)]
        if not messages:
            return []
        if not getattr(self.tokenizer, "has_chat_template", False):
            text = "\n\n".join(m["content"] for m in messages)
            return [int(t) for t in self.tokenizer.encode(text)]
        # A reply that is to be continued stands as it was written, after what the template puts before every reply:
        # templates lay out a reply anew (and drop what was thought), and then the model would read another text.
        begun = messages.pop()["content"] if len(messages) > 1 and messages[-1]["role"] == "assistant" else ""
        unfinished = messages[-1]["role"] == "assistant"
        try:
            ids = self.tokenizer.apply_chat_template(
                messages, add_generation_prompt=not unfinished, continue_final_message=unfinished
            )
        except Exception as e:  # templates are programs of other people's: anything may come out of them
            raise Problem(
                f"The model's chat template does not take this conversation: {_first_line(e)}",
                "Remove the system prompt, or start a new chat.",
            ) from e
        if begun:
            ids = [*ids, *self.tokenizer.encode(begun, add_special_tokens=False)]
        return [int(t) for t in ids]

    def count(self, text: str) -> int:
        """How many tokens a text has as it is, without the marks that a tokenizer puts around a whole prompt."""
        return len(self.tokenizer.encode(clean(text), add_special_tokens=False))

    def generate(
        self,
        prompt: str | Sequence[Message] | Sequence[int],
        sampling: SamplingSettings | None = None,
        drafters: DrafterSettings | Callable[[], DrafterSettings] | None = None,
        *,
        request: int = 0,
        stop: Callable[[], bool] | None = None,
        logits_processors: Sequence[LogitsProcessor] = (),
    ) -> Iterator[PromptProgress | Round | Finished]:
        """Write a reply. `drafters` may be a function: it is asked before every round.

        By default every drafter that can run is asked. `logits_processors` are mlx-lm's, `(tokens, logits) ->
        logits`, with states of their own if they like (see processors.py). Raises `Problem` if a setting cannot be
        honoured.
        """
        started = time.perf_counter()
        sampling = sampling or SamplingSettings()
        drafters = drafters or DrafterSettings(names=tuple(self.drafters))
        settings = drafters if callable(drafters) else lambda: drafters
        ids = self.encode(prompt)
        last = prompt[-1] if prompt else None
        begun = isinstance(last, Message) and last.role == "assistant"
        reply = Reply(
            request=request,
            prompt=ids,
            sampling=sampling,
            seed=secrets.randbits(32) if sampling.seed is None else sampling.seed,
            context=self.context,
            end_ids=frozenset(int(i) for i in self.tokenizer.eos_token_ids),
            text=TextStream(self.tokenizer, sampling.stop, ids[-ANCHOR:] if begun else ()),
            pieces=Pieces(self.tokenizer),
            started=started,
            processors=Processors(logits_processors),
        )
        return decode(self.target, self.drafters, self.controller, reply, settings, stop or (lambda: False))

    def keep_learned(self) -> None:
        """Write down what the controller measured, for the next run. A disk that cannot be written costs only
        that."""
        if self._learned is not None:
            with contextlib.suppress(OSError), replacing(self._learned) as part:
                part.write_text(json.dumps(self.controller.state()), "utf-8")

    def reset(self) -> None:
        """Forget the kept conversation and give its memory back. What the controller learned stays."""
        self.target.reset()
        for drafter in self.drafters.values():
            drafter.reset()
        mx.clear_cache()


def clean(text: str) -> str:
    """Text that every tokenizer takes: lone surrogates become U+FFFD, NUL is dropped."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "")
