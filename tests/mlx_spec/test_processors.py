"""The caller's own logits processors, with drafts and without: the same text, states rewound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest

from mlx_spec.processors import Processors
from mlx_spec.target import Target

from . import zoo
from .test_parity import PROMPT, Adversary, write


class EveryFourth:
    """A grammar of sorts with a state of its own: each fourth token must be even, each other odd."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        self.calls += 1
        odd = mx.arange(logits.shape[-1]) % 2 == 1
        return mx.where(odd == (self.calls % 4 == 0), -mx.inf, logits)


def no_repeat(tokens: mx.array, logits: mx.array) -> mx.array:
    """No token of the last ten again."""
    return logits.at[:, tokens[-10:]].add(-1e9)


def at_least(count: int, prompt: int, end: int) -> Callable[[mx.array, mx.array], mx.array]:
    def processor(tokens: mx.array, logits: mx.array) -> mx.array:
        return logits.at[:, end].add(-1e9) if tokens.size - prompt < count else logits

    return processor


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("made", [EveryFourth, lambda: no_repeat, lambda: at_least(9, len(PROMPT), 13)])
def test_the_text_is_plain_decodings(made: Callable[[], Any], temperature: float) -> None:
    model = zoo.build("llama")
    plain, _, _ = write(Target(model), PROMPT, temperature, processors=Processors([made()]))
    free, _, _ = write(Target(model), PROMPT, temperature)
    drafted, by, _ = write(
        Target(model), PROMPT, temperature, Adversary(PROMPT + plain), processors=Processors([made()])
    )
    assert drafted == plain
    assert by["adversary"].accepted > 10
    if made is EveryFourth:
        assert plain != free
        assert [t % 2 for t in plain[:8]] == [1, 1, 1, 0, 1, 1, 1, 0]


def test_without_the_rewinding_it_fails() -> None:
    """The control: a state that saw rejected tokens writes another text."""

    class Stuck(Processors):
        def settle(self, accepted: int) -> None: ...

    model = zoo.build("llama")
    plain, _, _ = write(Target(model), PROMPT, 0.0, processors=Processors([EveryFourth()]))
    drafted, _, _ = write(Target(model), PROMPT, 0.0, Adversary(PROMPT + plain), processors=Stuck([EveryFourth()]))
    assert drafted != plain


def test_mlx_lms_own_processors_work() -> None:
    from mlx_lm.sample_utils import make_logits_processors

    made = make_logits_processors(repetition_penalty=1.3, repetition_context_size=20)
    model = zoo.build("qwen3")
    plain, _, _ = write(Target(model), PROMPT, 0.0, processors=Processors(made))
    drafted, _, _ = write(Target(model), PROMPT, 0.0, Adversary(PROMPT + plain), processors=Processors(made))
    assert drafted == plain
