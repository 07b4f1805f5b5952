"""Files in messages: read or refused in one sentence, and the same again after every way through the text."""

from __future__ import annotations

import codecs
import random
from pathlib import Path

import pytest

from desktop import attachments
from desktop.attachments import Attachment, cut, join, read_attachment, split, subject
from mlx_spec.events import Problem
from tests.desktop.pdfs import a_pdf


def test_the_form_of_a_message() -> None:
    text = join([Attachment("a.py", "print(1)"), Attachment("b.csv", "x,y\n1,2", 900)], "What is this?")
    assert text == (
        "File: a.py\n```python\nprint(1)\n```\n\n"
        "File: b.csv [first 7 of 900 characters]\n```csv\nx,y\n1,2\n```\n\nWhat is this?"
    )
    assert split(text) == ([Attachment("a.py", "print(1)"), Attachment("b.csv", "x,y\n1,2", 900)], "What is this?")
    assert split("Hello\n") == ([], "Hello\n")
    assert subject(text) == "What is this?"
    assert subject(join([Attachment("a.py", "x"), Attachment("b.c", "y")], "")) == "a.py, b.c"


def test_taking_apart_and_joining_lose_nothing() -> None:
    pieces = [
        "`",
        "``` ",
        "````",
        "\n",
        "\n\n",
        "File: x\n",
        "```\n",
        "a",
        " [first 1 of 2 characters]",
        "é",
        "```py\n",
    ]
    draw = random.Random(3)
    for _ in range(3000):
        raw = "".join(draw.choices(pieces, k=draw.randrange(12)))
        assert join(*split(raw)) == raw
        files = [Attachment("n.md", raw.strip("\n")), Attachment("m", "y")] if raw.strip() else []
        typed = "".join(draw.choices(pieces, k=draw.randrange(6)))
        whole = join(files, typed)
        assert join(*split(whole)) == whole
        if files and not typed.startswith("File: "):
            assert split(whole) == (files, typed)


def test_text_is_read_in_what_it_says_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    for data in ("é\r\nb\r\n".encode(), codecs.BOM_UTF8 + "é\nb".encode(), "é\nb".encode("utf-16")):
        file.write_bytes(data)
        assert read_attachment(file) == Attachment("notes.txt", "é\nb")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b" \n\n ", "is empty"),
        ("grün".encode("latin-1"), "not text in UTF-8"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a text file"),
        (bytes(range(1, 32)) * 40, "not a text file"),
        (b"%PDF-1.4\nnothing of the kind", "damaged PDF"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_sentence(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "file.dat"
    file.write_bytes(data)
    with pytest.raises(Problem, match=words) as caught:
        read_attachment(file)
    assert caught.value.message.startswith("file.dat")
    assert caught.value.remedy


def test_folders_missing_and_huge_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Problem, match="is a folder"):
        read_attachment(tmp_path)
    with pytest.raises(Problem, match="not there"):
        read_attachment(tmp_path / "gone.txt")
    monkeypatch.setattr(attachments, "LARGEST", 10)
    (tmp_path / "big.txt").write_text("x" * 11)
    with pytest.raises(Problem, match="has 0 MB"):
        read_attachment(tmp_path / "big.txt")


def test_cutting_keeps_whole_lines_and_says_so() -> None:
    whole = Attachment("a.txt", "\n".join(f"line {k}" for k in range(100)))
    part = cut(whole, 50)
    assert part.text == "\n".join(f"line {k}" for k in range(7))
    assert part.whole == len(whole.text)
    assert cut(part, 20).whole == len(whole.text)
    assert cut(Attachment("one", "x" * 500), 50).text == "x" * 50
    assert cut(whole, 100_000) is whole
    assert split(join([part], "q")) == ([part], "q")


def test_a_pdf_gives_its_text(tmp_path: Path) -> None:
    file = tmp_path / "paper.pdf"
    file.write_bytes(a_pdf(["Riding ahead", "Second page"]))
    assert read_attachment(file) == Attachment("paper.pdf", "Riding ahead\n\nSecond page")


def test_a_locked_pdf_and_one_without_text_are_told(tmp_path: Path) -> None:
    file = tmp_path / "paper.pdf"
    file.write_bytes(a_pdf(["secret"], password="x"))
    with pytest.raises(Problem, match="locked with a password"):
        read_attachment(file)
    file.write_bytes(a_pdf([""]))
    with pytest.raises(Problem, match="no text in it"):
        read_attachment(file)
    file.write_bytes(a_pdf(["cut off"])[:400])
    with pytest.raises(Problem, match=r"damaged PDF|no text"):
        read_attachment(file)
