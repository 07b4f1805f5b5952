"""What is written: Markdown, JSON, HTML, one chat or all."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from desktop.attachments import Attachment, join
from desktop.shelf import Shelf
from desktop.store import Store
from desktop.transfer.bundle import take
from desktop.transfer.files import load_one, save_all, save_one
from desktop.transfer.formats import HTML, JSON, MARKDOWN, file_name
from desktop.transfer.markup import Markup
from mlx_spec.events import Problem
from tests.desktop.transfer.samples import branched
from tests.desktop.transfer.test_bundle import bare


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "chats.db")
    yield store
    store.close()


def test_markdown(store: Store, tmp_path: Path) -> None:
    save_one(store, branched(store), MARKDOWN, tmp_path / "a.md")
    text = (tmp_path / "a.md").read_text("utf-8")
    assert text.startswith("# Two ways\n")
    assert "## You\n\nSay <b>hello</b> & more\n\n## Model-1B\n\nHello **there**!\n\n## You\n\nAgain\n" in text
    assert "Good day" not in text


def test_json_loses_nothing(store: Store, tmp_path: Path) -> None:
    chat = branched(store)
    save_one(store, chat, JSON, tmp_path / "a.json")
    (bundle,) = load_one(tmp_path / "a.json")
    assert bundle == take(store, chat)
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["format"] == "outrider-chats"


class Reader(HTMLParser):
    """Collects text, and sees that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "hr", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_keeps_the_colours_and_is_safe(store: Store, tmp_path: Path) -> None:
    save_one(store, branched(store), HTML, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text("utf-8")
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert "Say <b>hello</b> & more" in reader.text
    names = {tag for tag, _ in reader.tags}
    assert "b" not in names
    assert "script" not in names
    assert not any(key in ("src", "href") or key.startswith("on") for _, attrs in reader.tags for key in attrs)
    assert "prefers-color-scheme: dark" in text
    drafted = [attrs for tag, attrs in reader.tags if tag == "span" and "d0" in str(attrs.get("class"))]
    assert drafted[-1]["title"] == "Prompt lookup proposed this"
    assert "Drafted by:" in reader.text
    assert "Good day" not in text


def markup(text: str, runs: list[tuple[int, str | None]] | None = None) -> str:
    return Markup(text, runs or [], lambda name: f"<span {name}>").html()


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a *b* **c** `d*` ~~e~~", "<p>a <em>b</em> <strong>c</strong> <code>d*</code> <del>e</del></p>"),
        ("# T\n\ntext\nmore", "<h2>T</h2>\n<p>text\nmore</p>"),
        ("```py\na < b\n\n```\nx", "<pre><code>a &lt; b\n\n</code></pre>\n<p>x</p>"),
        ("```\nopen", "<pre><code>open\n</code></pre>"),
        ("- a\n- b\n  more\n1. c", "<ul>\n<li>a</li>\n<li>b\n  more</li>\n</ul>\n<ol start=\"1\">\n<li>c</li>\n</ol>"),
        ("> q\n> - r", "<blockquote>\n<p>q</p>\n<ul>\n<li>r</li>\n</ul>\n</blockquote>"),
        ("| a | b |\n|---|:-:|\n| *c* | d |", "<table>\n<tr><th>a</th><th>b</th></tr>\n<tr><td><em>c</em></td>"
         "<td>d</td></tr>\n</table>"),
        ("[l](https://x.y/a?b=1&c) [j](javascript:alert(1))",
         '<p><a href="https://x.y/a?b=1&amp;c" rel="noreferrer">l</a> [j](javascript:alert(1))</p>'),
        ("<script>x</script> & \"q\"", "<p>&lt;script&gt;x&lt;/script&gt; &amp; &quot;q&quot;</p>"),
        ("---\n2 * 3 * 4", "<hr>\n<p>2 * 3 * 4</p>"),
    ],
)  # fmt: skip
def test_markup(text: str, result: str) -> None:
    assert markup(text).strip() == result


def test_markup_keeps_who_drafted_what() -> None:
    made = markup("ab **cd** ef", [(2, None), (4, "x"), (3, "y"), (3, None)])
    assert made == "<p>ab<span x> </span><strong><span x>c</span><span y>d</span></strong> ef</p>\n"


def test_hostile_markup_takes_no_time() -> None:
    for text in (
        "x" + "*" * 20_000,
        "`" * 20_000,
        "[" * 20_000,
        "> " * 5_000,
        "|-" * 10_000,
        "- " * 10_000,
        "**a " * 5_000,
    ):
        reader = Reader()
        reader.feed(markup(text))
        assert reader.open == []


def test_html_folds_files_and_thought(store: Store, tmp_path: Path) -> None:
    chat = store.new_chat("Files")
    file = Attachment("a<b>.py", "if a < b: pass")
    asked = store.add_message(chat.id, None, "user", join([file], "What & why?"))
    store.add_message(chat.id, asked.id, "assistant", "<think>\nhm, **so**\n</think>\n\nThe *answer*.")
    save_one(store, chat.id, HTML, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text("utf-8")
    summary = '<details><summary class="small">a&lt;b&gt;.py, 14 bytes</summary>'
    assert f"{summary}<pre>if a &lt; b: pass</pre></details>What &amp; why?" in text
    assert '<summary class="small">Thought</summary><p>hm, <strong>so</strong></p>' in text
    assert "<p>The <em>answer</em>.</p>" in text
    assert "think&gt;" not in text
    save_one(store, chat.id, MARKDOWN, tmp_path / "a.md")
    assert "File: a<b>.py\n```python\nif a < b: pass\n```\n\nWhat & why?" in (tmp_path / "a.md").read_text("utf-8")


def test_all_chats(store: Store, tmp_path: Path) -> None:
    one, two = branched(store, "A/B"), branched(store, "a?b")
    shelf = Shelf(store)
    shelf.move(one, shelf.new_folder("Work: now").id)
    three = branched(store, "a b")
    save_all(store, [one, two, three], JSON, tmp_path / "all.json")
    assert [bare(b) for b in load_one(tmp_path / "all.json")] == [bare(take(store, n)) for n in (one, two, three)]
    save_all(store, [one, two, three], MARKDOWN, tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert sorted(archive.namelist()) == ["Work now/A B.md", "a b 2.md", "a b.md"]
    assert not list(tmp_path.glob(".*"))


def test_a_place_that_cannot_be_written(store: Store, tmp_path: Path) -> None:
    chat = branched(store)
    for act in (
        lambda: save_one(store, chat, HTML, tmp_path / "missing" / "a.html"),
        lambda: save_all(store, [chat], JSON, tmp_path / "missing" / "a.json"),
        lambda: save_all(store, [chat], HTML, tmp_path / "missing" / "a.zip"),
    ):
        with pytest.raises(Problem, match="cannot be written"):
            act()


@pytest.mark.parametrize(
    ("title", "name"),
    [("a/b: c?", "a b c.md"), ("", "Chat.md"), ("...", "Chat.md"), ("CON", "Chat.md"), ("x" * 300, "x" * 80 + ".md")],
)
def test_file_names(title: str, name: str) -> None:
    assert file_name(title, "md") == name
