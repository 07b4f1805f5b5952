from __future__ import annotations

from typing import Any

import pytest

from mlx_spec.detokenize import Pieces, TextStream, merge
from mlx_spec.events import Span

from .tiny import tokenizer_json

TEXT = "Grüße 東京 😀👨‍👩‍👧 naïve café, one two three. " * 8


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(tokenizer_json()))


def run(tokenizer: Any, text: str, stop: tuple[str, ...] = ()) -> tuple[list[str], TextStream]:
    stream = TextStream(tokenizer, stop)
    shown = ["".join(s.text for s in stream.push(t)) for t in tokenizer.encode(text)]
    shown.append("".join(s.text for s in stream.flush()))
    return shown, stream


def test_text_is_whole_and_never_shows_half_a_character(tokenizer: Any) -> None:
    shown, _ = run(tokenizer, TEXT)
    assert "".join(shown) == TEXT
    assert not any("\ufffd" in s for s in shown)
    assert not any(s.endswith("\u200d") for s in shown)


def test_a_broken_end_is_dropped(tokenizer: Any) -> None:
    ids = tokenizer.encode("ab😀")
    stream = TextStream(tokenizer)
    shown = "".join(s.text for t in ids[:-1] for s in stream.push(t))
    assert shown + "".join(s.text for s in stream.flush()) == "ab"


@pytest.mark.parametrize("stop", ["two", "one two", " three.", "naïve", "京"])
def test_stop_strings_never_show(tokenizer: Any, stop: str) -> None:
    shown, stream = run(tokenizer, TEXT, (stop, "never there"))
    assert "".join(shown) == TEXT[: TEXT.index(stop)]
    assert stream.stopped


def test_text_that_only_begins_like_a_stop_string_comes_out(tokenizer: Any) -> None:
    shown, stream = run(tokenizer, "one two thr", (" three",))
    assert "".join(shown) == "one two thr"
    assert not stream.stopped


def test_each_piece_keeps_its_proposer(tokenizer: Any) -> None:
    stream = TextStream(tokenizer, ("zzz",))
    spans: list[Span] = []
    ids = tokenizer.encode("one two three")
    for i, token in enumerate(ids):
        spans += stream.push(token, "lookup" if i % 2 else None)
    spans += stream.flush()
    assert "".join(s.text for s in spans) == "one two three"
    assert {s.drafter for s in spans} == {None, "lookup"}


def test_merge() -> None:
    spans = [Span("a"), Span("b"), Span("", "x"), Span("c", "x"), Span("d", "x")]
    assert merge(spans) == (Span("ab"), Span("cd", "x"))


def test_pieces_show_spaces_and_halves(tokenizer: Any) -> None:
    pieces = Pieces(tokenizer)
    text = "one two😀"
    ids = tokenizer.encode(text)
    shown = [pieces(t) for t in ids]
    assert "".join(shown[: len(tokenizer.encode("one two"))]) == "one two"
    assert "\ufffd" in "".join(shown)
