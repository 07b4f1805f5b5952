"""Every architecture that mlx-lm ships: drafts change the time and never the text.

A tiny random float32 model of each is decoded plain and with drafters that are right, wrong, half right, too
long or silent in turn, with lookup, and with itself as a draft model whose drafts are spoiled now and then.
Prompt and reply cross the sliding windows several times; a second turn goes on from the kept caches, and a
third edits the first question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mlx.core as mx
import pytest

from mlx_spec.controller import Controller
from mlx_spec.decoder import Reply, decode
from mlx_spec.drafters.base import Context, Draft, Drafter, Free, Offer
from mlx_spec.drafters.draft_model import DraftModel
from mlx_spec.drafters.lookup import Lookup
from mlx_spec.events import DrafterSettings, DrafterStats, Finished, PromptProgress, Round, SamplingSettings, Span
from mlx_spec.processors import Processors
from mlx_spec.sampling import History
from mlx_spec.target import Target

from . import zoo

TOKENS = 60
PROMPT = [(7 * i * i + 3 * i) % 90 + 2 for i in range(23)]


class Mute:
    """A text of no characters: these models have no tokenizer."""

    stopped = False

    def push(self, token: int, drafter: str | None) -> list[Span]:
        return []

    def flush(self) -> tuple[Span, ...]:
        return ()

    def __call__(self, token: int) -> str:
        return ""


class Adversary(Free):
    """By turns right, wrong, half right, too long (right, then nonsense) and silent."""

    name = "adversary"

    def __init__(self, truth: Sequence[int]) -> None:
        self.truth = list(truth)
        self.turn = 0

    def begin(self, prompt: Sequence[int]) -> None:
        self.turn = 0

    def offer(self, history: History, limit: int) -> Offer | None:
        at, self.turn = len(history), self.turn + 1
        right = self.truth[at : at + 9]
        wrong = [(t + 1) % zoo.VOCABULARY for t in right]
        draft = [right[:4], wrong[:3], right[:2] + wrong[2:5], right + [5] * 3, [], right[:1], right[:3] + wrong[3:9]]
        mine = tuple(draft[self.turn % 7][:limit])
        return Offer(len(mine), tokens=mine) if mine else None

    def reset(self) -> None: ...


class Spoiled(DraftModel):
    """Every third proposal has a wrong token in the middle. All others should hold."""

    turn = 0
    spoiled = False

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        draft = super().propose(context, offer, n)
        self.turn += 1
        self.spoiled = self.turn % 3 == 0
        if self.spoiled:
            wrong = (draft.tokens + 1) % zoo.VOCABULARY
            draft = Draft(mx.where(mx.arange(n) == self.turn // 3 % n, wrong.astype(mx.uint32), draft.tokens))
        return draft


def write(
    target: Target,
    prompt: Sequence[int],
    temperature: float,
    drafter: Drafter | None = None,
    tokens: int = TOKENS,
    processors: Processors | None = None,
) -> tuple[list[int], dict[str, DrafterStats], int]:
    """Ids of a reply, what was drafted, and how many tokens of the prompt were cached."""
    mute = Mute()
    reply = Reply(
        request=0,
        prompt=prompt,
        sampling=SamplingSettings(temperature=temperature, seed=3, max_tokens=tokens),
        seed=3,
        context=400,
        end_ids=frozenset(),
        text=mute,  # type: ignore[arg-type]
        pieces=mute,  # type: ignore[arg-type]
        processors=processors or Processors(()),
    )
    settings = DrafterSettings(names=(drafter.name,) if drafter else (), adaptive=False, max_draft=12)
    drafters = {drafter.name: drafter} if drafter else {}
    events = list(decode(target, drafters, Controller(), reply, lambda: settings))
    finished = events[-1]
    assert isinstance(finished, Finished)
    cached = next(e.cached for e in events if isinstance(e, PromptProgress))
    return [t for e in events if isinstance(e, Round) for t in e.tokens], finished.by_drafter, cached


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    yield
    mx.clear_cache()


@pytest.mark.parametrize("name", [a for a in zoo.architectures() if a not in zoo.NOT_RUN])
def test_the_text_is_plain_decodings(name: str) -> None:
    check(name)


def check(name: str) -> None:
    """Raises AssertionError naming what differs."""
    model = zoo.build(name)
    for temperature in (0.0, 0.9):
        plain, _, _ = write(Target(model), PROMPT, temperature)
        target = Target(model)
        text, _, _ = write(target, PROMPT, temperature, Adversary(PROMPT + plain))
        assert text == plain, "adversary"
        # A second turn reads on from the caches that the drafts went through.
        second = PROMPT + plain + PROMPT[::-1]
        again, _, cached = write(target, second, temperature, Lookup(), 20)
        fresh, _, _ = write(Target(model), second, temperature, tokens=20)
        assert again == fresh, "second turn, lookup"
        assert cached >= len(PROMPT) - 1
        # The first question is edited: the caches go back as far as they can, or are read anew.
        edited = [*PROMPT[:12], 9, 8, 7, *PROMPT[15:]]
        fresh, _, _ = write(Target(model), edited, temperature, tokens=12)
        assert write(target, edited, temperature, tokens=12)[0] == fresh, "edited turn"
        draft = Spoiled(model)
        text, by, _ = write(Target(model), PROMPT, temperature, draft)
        assert text == plain, "draft model"
        # Two thirds of the drafts are the target's own tokens, if the draft's caches are kept as carefully.
        assert by["model"].accepted >= 0.6 * by["model"].drafted - 12, "draft model's own caches"
