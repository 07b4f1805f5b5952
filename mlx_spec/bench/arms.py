"""Ways to answer one prompt, timed alike: ours with drafts, ours without, and mlx-lm's own loops.

Each arm starts where the prompt's last token has not been fed yet and everything before it is in the caches,
and each ends after the first end-of-turn token or the same number of tokens. Only that stretch is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Protocol

import mlx.core as mx
from mlx_lm.generate import generate_step, speculative_generate_step
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.sample_utils import make_sampler

from ..engine import Engine
from ..events import DrafterSettings, Finished, Round, SamplingSettings

PREFILL_STEP = 512


@dataclass(frozen=True, slots=True)
class Run:
    """One reply of one arm. `seconds` is decoding alone; `passes` are passes of the target."""

    tokens: tuple[int, ...]
    seconds: float
    passes: int
    drafted: int = 0
    accepted: int = 0
    by_drafter: tuple[tuple[str, int, int], ...] = ()  # name, drafted, accepted
    rounds: tuple[tuple[int, int, int, float, float], ...] = ()  # width, drafted, accepted, seconds, tokens expected

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return len(self.tokens) / self.seconds


class Arm(Protocol):
    name: str

    def prepare(self, prompt: Sequence[int]) -> None:
        """Read a new prompt, all but its last token. Not timed."""

    def answer(self, max_tokens: int) -> Run:
        """Answer the prepared prompt and go back to where it ended."""


class Ours:
    """The engine, with the given drafters; `DrafterSettings(())` is plain decoding.

    The engine keeps what it read, so the arms that share it read a prompt once.
    """

    def __init__(self, name: str, engine: Engine, sampling: SamplingSettings, drafters: DrafterSettings) -> None:
        self.name = name
        self._engine, self._sampling, self._drafters = engine, sampling, drafters
        self._prompt: list[int] = []

    def prepare(self, prompt: Sequence[int]) -> None:
        self._prompt = list(prompt)

    def answer(self, max_tokens: int) -> Run:
        sampling = replace(self._sampling, max_tokens=max_tokens)
        tokens: list[int] = []
        rounds: list[tuple[int, int, int, float, float]] = []
        for event in self._engine.generate(self._prompt, sampling, self._drafters):
            if isinstance(event, Round):
                tokens += event.tokens
                rounds.append((event.width, len(event.drafted), event.accepted, event.verify_s, event.expected))
            elif isinstance(event, Finished):
                stats = tuple((n, s.drafted, s.accepted) for n, s in event.by_drafter.items())
                drafted, accepted = sum(s[1] for s in stats), sum(s[2] for s in stats)
                return Run(tuple(tokens), event.decode_s, event.passes, drafted, accepted, stats, tuple(rounds))
        raise RuntimeError("the reply ended without saying so")


class MlxLm:
    """mlx-lm's loop: `generate_step`, or `speculative_generate_step` where `drafts` is above 0.

    Its target cache starts as a copy of the rows that the engine has read already.
    """

    def __init__(self, name: str, engine: Engine, temperature: float, drafts: int = 0) -> None:
        self.name = name
        self._engine, self._drafts = engine, drafts
        self._sampler: Callable[[mx.array], mx.array] = make_sampler(temp=temperature)
        self._prompt: list[int] = []
        self._target: list[Any] = []
        self._draft: list[Any] = []

    def prepare(self, prompt: Sequence[int]) -> None:
        self._prompt = list(prompt)
        read_prompt(self._engine, prompt)
        self._target = deepcopy(self._engine.target.caches.layers)
        if self._drafts:
            draft = self._engine.draft_model
            assert draft is not None
            self._draft = make_prompt_cache(draft)
            for start in range(0, len(prompt) - 1, PREFILL_STEP):
                rows = mx.array([prompt[start : min(start + PREFILL_STEP, len(prompt) - 1)]])
                draft(rows, cache=self._draft)
                mx.eval([c.state for c in self._draft])

    def answer(self, max_tokens: int) -> Run:
        last = mx.array(self._prompt[-1:], mx.uint32)
        max_tokens = min(max_tokens, self._engine.context - len(self._prompt))
        end = set(self._engine.tokenizer.eos_token_ids)
        tokens: list[int] = []
        passes = drafted = accepted = 0
        pass_over = True
        start = time.perf_counter()
        steps = self._steps(last, max_tokens)
        for token, from_draft in steps:
            if pass_over:
                passes += 1
                drafted += min(self._drafts, max_tokens - len(tokens))
            pass_over = not from_draft
            tokens.append(int(token))
            accepted += from_draft
            if token in end:
                break
        seconds = time.perf_counter() - start
        steps.close()
        self._rewind()
        return Run(tuple(tokens), seconds, passes, drafted, accepted)

    def _steps(self, last: mx.array, max_tokens: int) -> Any:
        model = self._engine.target.model
        if not self._drafts:
            plain = generate_step(last, model, max_tokens=max_tokens, sampler=self._sampler, prompt_cache=self._target)
            return _closing(plain, lambda step: (step[0], False))
        drafted = speculative_generate_step(
            last,
            model,
            self._engine.draft_model,
            num_draft_tokens=self._drafts,
            max_tokens=max_tokens,
            sampler=self._sampler,
            prompt_cache=self._target + self._draft,
        )
        return _closing(drafted, lambda step: (step[0], step[2]))

    def _rewind(self) -> None:
        """Back to the prompt without its last token; also waits for work that was begun ahead."""
        for layer in self._target + self._draft:
            layer.trim(layer.offset - (len(self._prompt) - 1))
            if not layer.empty():
                mx.eval(layer.state)


def _closing(steps: Any, pick: Callable[[Any], tuple[int, bool]]) -> Any:
    """`pick` of each step, closing the generator beneath when this one is closed."""
    try:
        for step in steps:
            yield pick(step)
    finally:
        steps.close()


def read_prompt(engine: Engine, prompt: Sequence[int]) -> None:
    """Bring the target's cache to `prompt` without its last token."""
    cached = engine.target.reuse(prompt[:-1])
    for _ in engine.target.prefill(prompt[cached:-1]):
        pass
