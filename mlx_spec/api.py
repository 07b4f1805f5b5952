"""For people who know mlx-lm: the same names, the same call shapes, with drafters.

    from mlx_lm import load
    from mlx_spec import stream_generate

    model, tokenizer = load("mlx-community/Qwen2.5-Coder-1.5B-Instruct-4bit")
    for response in stream_generate(model, tokenizer, prompt, max_tokens=200):
        print(response.text, end="")

An `Engine` made once keeps its prompt cache and what its controller learned; these functions make a new one
each time unless they are given one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.nn as nn

from .engine import Engine
from .events import DrafterSettings, Finished, Message, Round, SamplingSettings
from .processors import LogitsProcessor


@dataclass(frozen=True, slots=True)
class GenerationResponse:
    """One round's worth of text, with mlx-lm's field names; `round` is None in the last response."""

    text: str
    tokens: tuple[int, ...]
    from_draft: int  # how many of `tokens` a drafter had proposed
    drafter: str | None
    generation_tokens: int
    generation_tps: float
    prompt_tokens: int
    peak_memory: float  # GB
    finish_reason: str | None = None
    round: Round | None = None


def stream_generate(
    model: nn.Module,
    tokenizer: Any,
    prompt: str | Sequence[Message] | Sequence[int],
    max_tokens: int | None = 256,
    *,
    draft_model: nn.Module | None = None,
    drafters: Sequence[str] | None = None,
    rule: str = "match",
    engine: Engine | None = None,
    logits_processors: Sequence[LogitsProcessor] = (),
    **sampling: Any,
) -> Iterator[GenerationResponse]:
    """Write a reply to `prompt`, one response a round.

    `prompt` is text taken as it is, ids, or messages for the chat template. `drafters` are asked in their
    order (default: every one that can run; () is plain decoding). The other keywords are the fields of
    `SamplingSettings`: temperature, top_p, seed, ... Raises `Problem` if something cannot be honoured.
    """
    engine = engine or Engine(model, tokenizer, draft_model)
    names = tuple(engine.drafters) if drafters is None else tuple(drafters)
    settings = SamplingSettings(max_tokens=max_tokens, **sampling)
    count, seconds, prompt_tokens = 0, 0.0, len(engine.encode(prompt))
    drafting = DrafterSettings(names=names, rule=rule)
    for event in engine.generate(prompt, settings, drafting, logits_processors=logits_processors):
        if isinstance(event, Round):
            count += len(event.tokens)
            seconds += event.total_s
            yield GenerationResponse(
                text="".join(s.text for s in event.spans),
                tokens=event.tokens,
                from_draft=event.accepted,
                drafter=event.drafter,
                generation_tokens=count,
                generation_tps=count / seconds,
                prompt_tokens=prompt_tokens,
                peak_memory=event.memory / 1e9,
                round=event,
            )
        elif isinstance(event, Finished):
            yield GenerationResponse(
                text="".join(s.text for s in event.tail),
                tokens=(),
                from_draft=0,
                drafter=None,
                generation_tokens=count,
                generation_tps=count / seconds if seconds else 0.0,
                prompt_tokens=prompt_tokens,
                peak_memory=event.peak_memory / 1e9,
                finish_reason=event.reason,
            )


def generate(model: nn.Module, tokenizer: Any, prompt: Any, max_tokens: int | None = 256, **kwargs: Any) -> str:
    """The whole text of a reply. Keywords are those of `stream_generate`."""
    return "".join(r.text for r in stream_generate(model, tokenizer, prompt, max_tokens, **kwargs))
