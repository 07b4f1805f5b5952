"""A reply that was cut off is continued: the model reads it as it was written, and no space is lost between."""

from __future__ import annotations

from typing import Any

import pytest

from mlx_spec.detokenize import TextStream
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import DrafterSettings, Message, Round, SamplingSettings

from .tiny import tiny_llama


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return load_engine(tiny_llama(tmp_path_factory.mktemp("tiny")))


def write(engine: Engine, messages: list[Message], tokens: int) -> tuple[str, list[int]]:
    ids: list[int] = []
    text = ""
    for event in engine.generate(messages, SamplingSettings(max_tokens=tokens), DrafterSettings(())):
        if isinstance(event, Round):
            ids += event.tokens
        text += "".join(s.text for s in getattr(event, "spans", ()) or getattr(event, "tail", ()))
    return text, ids


def test_the_prompt_is_the_template_up_to_the_reply_and_then_the_reply(engine: Engine) -> None:
    asked = [Message("user", "count")]
    whole = engine.encode([*asked, Message("assistant", "one two \n")])
    assert engine.tokenizer.decode(whole) == "<|im_start|>user\ncount<|im_end|>\n<|im_start|>assistant\none two \n"
    assert whole[: len(engine.encode(asked))] == engine.encode(asked)


def test_it_goes_on_as_it_would_have(engine: Engine) -> None:
    asked = [Message("user", "Counting: one two three")]
    text, ids = write(engine, asked, 24)
    encode, decode = engine.tokenizer.encode, engine.tokenizer.decode
    whole = [k for k in range(1, 24) if encode(decode(ids[:k]), add_special_tokens=False) == ids[:k]]
    assert whole  # tokens that the tokenizer would not write itself come back as others
    for k in whole[-2:]:
        begun = decode(ids[:k])
        more, again = write(engine, [*asked, Message("assistant", begun)], len(ids) - k)
        assert again == ids[k:]
        assert begun + more == text


def test_a_tokenizer_that_drops_the_first_space_keeps_it_in_mid_text() -> None:
    class Drops:
        def decode(self, ids: list[int], **_: Any) -> str:
            return "".join(f" w{i}" for i in ids).removeprefix(" ")

    fresh, more = TextStream(Drops()), TextStream(Drops(), (), [1, 2])
    assert "".join(s.text for s in fresh.push(3)) == "w3"
    assert "".join(s.text for s in more.push(3)) == " w3"
