"""Text to train a drafter on, written by its target: questions asked, and answered by the model itself.

A drafter is to guess what this target writes, so what the target writes is what it learns from (self-distillation;
Li et al. 2025, EAGLE-3, arXiv 2503.01840, part 4). Half of the questions come from the caller; the other half the
target asks itself, by being let write on after the mark of a user's turn (Xu et al. 2024, Magpie, arXiv 2406.08464).

Many conversations are written side by side, one token of each a pass. Every row of the batch is at the same place at
any time, so nothing is padded, and any cache of mlx-lm works. A row whose answer has ended asks its next question in
the same conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.cache import make_prompt_cache

from ..anatomy import Anatomy, Taps
from ..events import Problem

Array = np.ndarray[Any, Any]

LONGEST_QUESTION = 96  # tokens that the target may ask itself
LONGEST_ANSWER = 256  # tokens; a small model at temperature 0 may go round in circles from there on
CURIOUS = 0.8  # temperature of the questions that the target asks itself
SAMPLED, SAMPLED_AT = 4, 0.7  # one row in SAMPLED answers at this temperature, the others at 0
MARK = "\u2042\u2042"  # stands for a user's text in a rendered template


@dataclass(frozen=True, slots=True)
class Template:
    """A model's chat template, as token ids: what stands before a user's text, and after it up to the answer."""

    before: tuple[int, ...]
    between: tuple[int, ...]  # before the text of a later turn, after the end of the answer
    after: tuple[int, ...]
    ends: frozenset[int]


def template(tokenizer: Any) -> Template:
    """Read off the rendered template of `tokenizer` (mlx-lm's wrapper). Without a template: text, an empty line.
    Raises `Problem` if the template takes no question."""
    ends = frozenset(int(t) for t in tokenizer.eos_token_ids)

    def ids(text: str) -> tuple[int, ...]:
        return tuple(int(t) for t in tokenizer.encode(text, add_special_tokens=False))

    # A row must have a first token, and a question an end, whatever the template says.
    line = ids("\n\n")
    start = tuple(int(t) for t in tokenizer.encode("")) or line
    if not getattr(tokenizer, "has_chat_template", False):
        return Template(start, line, line, ends)

    def render(messages: list[dict[str, str]]) -> str:
        return str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))

    question = {"role": "user", "content": MARK}
    try:
        first = render([question])
    except Exception as e:  # a template is a program of someone else's
        raise Problem(f"The model's chat template does not take a question: {e}.", "Choose another model.") from e
    before, found, after = first.partition(MARK)
    if not found:
        raise Problem("The model's chat template changes the question, or leaves it out.", "Choose another model.")
    between = ids(before)
    try:
        chat = render([question, {"role": "assistant", "content": "yes"}, question])
        later = ids(chat[: chat.rindex(MARK)].rpartition("yes")[2])
        end = next((i for i, t in enumerate(later) if t in ends), -1)
        if later:
            between = later[end + 1 :]
    except Exception:  # where it takes no second turn, every turn starts as the first
        pass
    return Template(ids(before) or start, between, ids(after) or line, ends)


@dataclass(frozen=True, slots=True)
class Shard:
    """Texts of one length with what the target thought of them: `ids` int32 (rows, length), `mine` bool, the tokens
    that the target wrote, `states` float16 (rows, length, taps + 1, D), the last being what its head reads."""

    ids: Array
    mine: Array
    states: Array | None


@dataclass(slots=True)
class Row:
    """One of the conversations that are being written."""

    temperature: float
    forced: list[int] = field(default_factory=list)  # tokens to come that nobody chooses
    asking: bool = False
    written: int = 0


def write(
    model: nn.Module,
    anatomy: Anatomy,
    taps: Taps,
    form: Template,
    encode: Callable[[str], list[int]],
    questions: Iterator[str],
    rows: int,
    length: int,
    seed: int,
    tick: Callable[[int], None] = lambda done: None,
) -> Shard:
    """`rows` conversations of `length` tokens. `taps` say which states are kept besides the one that the head reads;
    they are at hand anyway."""
    batch = [Row(SAMPLED_AT if i % SAMPLED == SAMPLED - 1 else 0.0) for i in range(rows)]
    ids = np.zeros((rows, length), np.int32)
    mine = np.zeros((rows, length), bool)
    states: Array | None = None
    cache = make_prompt_cache(model)
    key = mx.random.key(seed)
    chosen: list[int] = []
    for i, row in enumerate(batch):
        _ask(row, form, form.before, encode, questions, own=i % 2 == 1)
    for place in range(length):
        for i, row in enumerate(batch):
            if row.forced:
                ids[i, place] = row.forced.pop(0)
                continue
            token = chosen[i]
            ids[i, place], mine[i, place] = token, not row.asking
            row.written += 1
            if row.asking:
                ended = token == form.after[0] or token in form.ends
                if ended or row.written >= LONGEST_QUESTION:
                    row.forced = list(form.after[1:] if ended else form.after)
                    row.asking, row.written = False, 0
            elif token in form.ends or row.written >= LONGEST_ANSWER:
                end = [] if token in form.ends else sorted(form.ends)[:1]
                _ask(row, form, (*end, *form.between), encode, questions, own=i % 2 == 1)
        heats = [CURIOUS if r.asking else r.temperature for r in batch]
        hot = [i for i, heat in enumerate(heats) if heat and not batch[i].forced]
        final = anatomy.body(mx.array(ids[:, place : place + 1]), cache=cache)
        logits = anatomy.head(final)[:, -1].astype(mx.float32)
        drawn = mx.argmax(logits, axis=-1)
        if hot:
            key, now = mx.random.split(key)
            noise = mx.random.gumbel((len(hot), logits.shape[-1]), key=now)
            warm = mx.array([heats[i] for i in hot])[:, None]
            drawn[mx.array(hot)] = mx.argmax(logits[mx.array(hot)] + warm * noise, axis=-1)
        thought = half([*(taps.take() or []), final])
        mx.eval(drawn, thought)
        chosen_ids: Any = drawn.tolist()
        chosen = chosen_ids
        if states is None:
            states = np.zeros((rows, length, *thought.shape[2:]), np.float16)
        states[:, place] = np.array(thought[:, 0])
        tick(place + 1)
    assert states is not None
    return Shard(ids, mine, states)


def half(states: Sequence[mx.array]) -> mx.array:
    """States (b, n, D) each as one float16 (b, n, count, D). What is too large for that (single features of a text's
    first token, in many models) is cut."""
    return mx.clip(mx.stack(list(states), axis=2), -60000, 60000).astype(mx.float16)


def _ask(
    row: Row,
    form: Template,
    before: tuple[int, ...],
    encode: Callable[[str], list[int]],
    questions: Iterator[str],
    own: bool,
) -> None:
    """The next question of `row` comes: its own, or one of `questions`."""
    row.written, row.asking = 0, own
    row.forced = list(before)
    if not own:
        row.forced += [*encode(next(questions)), *form.after]
