"""What a target writes to train on: templates as they are rendered, rows as plain decoding writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_tokenizer

from mlx_spec.anatomy import Taps, dissect
from mlx_spec.drafters.eagle_head import default_taps
from mlx_spec.events import Problem
from mlx_spec.train import answers
from mlx_spec.train.answers import Shard, Template, template, write
from mlx_spec.train.data import think
from tests.mlx_spec import zoo
from tests.mlx_spec.tiny import TEMPLATE, tokenizer_json

from .conftest import Small

END = 2  # <|im_end|>
SYSTEM = "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nBe brief.<|im_end|>\n{% endif %}" + TEMPLATE
BRACKETS = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]{% else %} {{ m['content'] }}{{ eos_token }}"
    "{% endif %}{% endfor %}"
)
ONCE = (
    "{% if messages | length > 1 %}{{ raise_exception('one question only') }}{% endif %}"
    "<|im_start|>{{ messages[0]['content'] }}<|im_end|>"
)


def tokenizer(folder: Path, chat: str | None, **more: object) -> Any:
    """The tiny tokenizer with another chat template, or none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer_json())
    settings: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "bos_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False, **more,
    }  # fmt: skip
    if chat is not None:
        settings["chat_template"] = chat
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return load_tokenizer(folder)


def ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False))


@pytest.mark.parametrize(
    ("chat", "before", "between", "after"),
    [
        (TEMPLATE, "<|im_start|>user\n", "\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
        (
            SYSTEM,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n",
            "\n<|im_start|>user\n",
            "<|im_end|>\n<|im_start|>assistant\n",
        ),
        (BRACKETS, "<|endoftext|>[INST] ", "[INST] ", " [/INST]"),
        (ONCE, "<|im_start|>", "<|im_start|>", "<|im_end|>"),  # takes no second turn: each starts as the first
        ("{{ messages[-1]['content'] }}", "\n\n", "", "\n\n"),  # says nothing of its own
        (None, "\n\n", "\n\n", "\n\n"),
    ],
    ids=["chatml", "system", "brackets", "once", "bare", "none"],
)
def test_templates(tmp_path: Path, chat: str | None, before: str, between: str, after: str) -> None:
    made = tokenizer(tmp_path, chat)
    form = template(made)
    assert form == Template(ids(made, before), ids(made, between), ids(made, after), frozenset([END]))


@pytest.mark.parametrize(
    ("chat", "reason"),
    [
        ("{{ raise_exception('not for you') }}", "does not take a question: not for you"),
        ("{% for m in messages %}{{ m['content'][:1] }}{% endfor %}", "changes the question"),
        ("Say something.", "leaves it out"),
    ],
)
def test_templates_that_cannot_be_used_are_named(tmp_path: Path, chat: str, reason: str) -> None:
    with pytest.raises(Problem, match=reason) as refused:
        template(tokenizer(tmp_path, chat))
    assert refused.value.remedy


class Asked:
    """Numbered questions, and what was taken of them."""

    def __init__(self, encode: Callable[[str], tuple[int, ...]]) -> None:
        self.encode, self.questions = encode, [f"number {i}, please: two and {i}?" for i in range(200)]
        self.taken: list[str] = []

    def __iter__(self) -> Iterator[str]:
        for question in self.questions:
            self.taken.append(question)
            yield question


def written(
    small: Small, taps: Taps, rows: int, length: int, form: Template | None = None, seed: int = 0
) -> tuple[Shard, Asked, Template]:
    def encode(text: str) -> list[int]:
        return list(ids(small.tokenizer, text))

    asked = Asked(lambda text: ids(small.tokenizer, text))
    form = form or template(small.tokenizer)
    shard = write(small.model, small.anatomy, taps, form, encode, iter(asked), rows, length, seed)
    return shard, asked, form


def test_greedy_rows_are_plain_decodings_and_states_a_prefills(small: Small, taps: Taps) -> None:
    shard, asked, form = written(small, taps, rows=4, length=60)
    assert (shard.ids.shape, shard.mine.shape) == ((4, 60), (4, 60))
    assert asked.taken == asked.questions[:2]  # rows 1 and 3 ask themselves
    for row, question in ((0, asked.taken[0]), (2, asked.taken[1])):
        prompt = [*form.before, *ids(small.tokenizer, question), *form.after]
        assert shard.ids[row, : len(prompt)].tolist() == prompt
        cache = make_prompt_cache(small.model)
        token = mx.argmax(small.model(mx.array([prompt]), cache=cache)[0, -1]).item()
        plain = []
        while len(plain) < 60 - len(prompt) and (not plain or plain[-1] != END):
            plain.append(token)
            token = mx.argmax(small.model(mx.array([[token]]), cache=cache)[0, -1]).item()
        stop = len(prompt) + len(plain)
        assert shard.ids[row, len(prompt) : stop].tolist() == plain
        assert shard.mine[row, :stop].tolist() == [False] * len(prompt) + [True] * len(plain)
    assert shard.states is not None
    assert shard.states.dtype == np.float16
    assert shard.states.shape == (4, 60, 4, 64)
    again = think(small.anatomy, taps, shard.ids)
    np.testing.assert_allclose(shard.states.astype(np.float32), again.astype(np.float32), rtol=2e-3, atol=2e-3)


def test_a_row_that_has_ended_asks_its_next_question(small: Small, taps: Taps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 0 is read again token by token: questions come in order, and `mine` is what stands between them."""
    monkeypatch.setattr(answers, "LONGEST_ANSWER", 9)
    real = template(small.tokenizer)
    form = Template(real.before, real.between, real.after, frozenset(range(END, 320, 5)))
    shard, asked, _ = written(small, taps, rows=2, length=200, form=form)
    row, mine = shard.ids[0].tolist(), shard.mine[0].tolist()
    at, lengths = 0, []
    for number in count():
        question = asked.questions[number]
        forced = [*(form.between if number else form.before), *ids(small.tokenizer, question), *form.after]
        if lengths and lengths[-1] == 9 and row[at - 1] not in form.ends:
            forced = [END, *forced]  # an answer that was cut is ended for it
        seen = row[at : at + len(forced)]
        assert seen == forced[: len(seen)]
        assert not any(mine[at : at + len(forced)])
        at += len(forced)
        start = at
        while at < 200 and at - start < 9 and (at == start or row[at - 1] not in form.ends):
            assert mine[at]
            at += 1
        lengths.append(at - start)
        if at >= 200:
            break
    assert asked.taken == asked.questions[: number + 1]
    assert number > 3
    assert 9 in lengths
    assert min(lengths[:-1]) < 9


def test_a_row_asks_itself_and_answers(small: Small, taps: Taps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "LONGEST_QUESTION", 6)
    shard, _, form = written(small, taps, rows=2, length=60)
    row, mine = shard.ids[1].tolist(), shard.mine[1].tolist()
    first = len(form.before)
    assert row[:first] == list(form.before)
    asked = next(i for i in range(first, 60) if row[i : i + len(form.after)] == list(form.after))
    assert 0 < asked - first <= 6
    start = asked + len(form.after)
    assert not any(mine[:start])  # the target's questions are nothing to learn
    assert mine[start]


def test_chance_belongs_to_the_seed(small: Small, taps: Taps) -> None:
    first, again, other = (written(small, taps, rows=4, length=30, seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first.ids, again.ids)
    assert np.array_equal(first.ids[[0, 2]], other.ids[[0, 2]])
    for row in (1, 3):
        assert not np.array_equal(first.ids[row], other.ids[row])


@pytest.mark.parametrize("chat", [None, "{{ messages[-1]['content'] }}"])
def test_models_without_a_template_are_asked_too(tmp_path: Path, small: Small, taps: Taps, chat: str | None) -> None:
    form = template(tokenizer(tmp_path, chat))
    shard, asked, _ = written(small, taps, rows=4, length=30, form=form)
    assert asked.taken == asked.questions[:2]
    assert shard.mine[0].any()


def test_an_answer_that_cannot_end_is_cut(small: Small, taps: Taps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "LONGEST_ANSWER", 4)
    real = template(small.tokenizer)
    form = Template(real.before, real.between, real.after, frozenset())
    shard, asked, _ = written(small, taps, rows=1, length=160, form=form)
    assert len(asked.taken) > 2
    runs = "".join("#" if m else " " for m in shard.mine[0]).split()
    assert {len(run) for run in runs[:-1]} == {4}


def test_a_recurrent_target_writes_too() -> None:
    """Nothing is padded, so any cache of mlx-lm will do."""
    model = zoo.build("recurrent_gemma")  # recurrent layers, and a window
    anatomy = dissect(model)
    assert anatomy is not None
    taps = Taps(anatomy, default_taps(len(anatomy.layers)))
    form = Template((5, 6), (7, 5, 6), (8, 9), frozenset([3]))
    questions = iter([[10, 11, 12]] * 9)
    shard = write(model, anatomy, taps, form, lambda q: list(q), questions, 2, 24, 0)  # type: ignore[arg-type, call-overload]
    taps.remove()
    assert shard.ids[0, :7].tolist() == [5, 6, 10, 11, 12, 8, 9]
    logits = np.array(model(mx.array(shard.ids[:1]))[0].astype(mx.float32))
    for place in np.nonzero(shard.mine[0])[0]:
        assert logits[place - 1, shard.ids[0, place]] >= logits[place - 1].max() - 1e-3


def test_states_too_large_for_half_precision_are_cut() -> None:
    states = [mx.array([[[1e6, -1e6, 1.5]]]), mx.zeros((1, 1, 3))]
    made = answers.half(states)
    assert made.shape == (1, 1, 2, 3)
    assert made.dtype == mx.float16
    values = np.array(made[0, 0, 0]).astype(np.float32)
    assert np.isfinite(values).all()
    assert values.tolist() == [60000, -60000, 1.5]
