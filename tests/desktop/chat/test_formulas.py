"""LaTeX: found where it is meant, drawn when it is set, copied as it was written, never a reason to wait."""

from __future__ import annotations

import random
import time

import pytest
from PySide6.QtGui import QFont, QGuiApplication, QImage, QPainter, QTextDocument
from pytestqt.qtbot import QtBot

from desktop.chat.align import align
from desktop.chat.document_view import DocumentView
from desktop.chat.formulas import OBJECT, Formula, held, mask, plain_text, plausible
from desktop.chat.press import press, typeset
from desktop.chat.render import render
from desktop.theme import colors


def found(source: str) -> list[tuple[str, bool]]:
    return [(f.latex, f.display) for f in mask(source, 16.0).formulas]


@pytest.mark.parametrize(
    ("source", "formulas"),
    [
        ("so $x^2$ is", [("x^2", False)]),
        (r"so \(x^2\) is", [("x^2", False)]),
        ("$$\na\n= b\n$$", [("a = b", True)]),
        (r"\[ \frac{a}{b} \]", [(r"\frac{a}{b}", True)]),
        ("it costs $5 and $10", []),
        ("$5-$10, US$6 or $7", []),
        ("`$x$` and ``a ` $y$``", []),
        ("echo $HOME/$USER $PATH", []),
        (r"an escaped \$x$ and \\(x\\)", []),
        ("open $x", []),
        ("$a\n\nb$", []),
        (r"$\frac{1$ and $}{$", []),
        (r"$\begin{matrix}a$", []),
        ("$עברית$", []),
        ("two $a$$b$", []),
        ("$$a\n\nb$$", []),
    ],
)
def test_where_formulas_are(source: str, formulas: list[tuple[str, bool]]) -> None:
    assert found(source) == formulas


def test_places_in_the_source_stay_known() -> None:
    draw = random.Random(5)
    pieces = ["$x$", "words ", "**b**", "\n\n", r"\[a\]", "$$c$$ ", "- ", "`$q$`", "\\", "$", "| "]
    for _ in range(500):
        source = "".join(draw.choices(pieces, k=draw.randrange(12)))
        masked = mask(source, 16.0)
        assert len(masked.formulas) == sum("\ue000" <= c <= "\uf8ff" for c in masked.text)
        if masked.back is None:
            assert masked.text == source
            continue
        assert len(masked.back) == len(source) + 1
        assert masked.back == sorted(masked.back)
        assert masked.back[-1] == len(masked.text)
        for k, place in enumerate(masked.back[:-1]):
            assert masked.text[place] == source[k] or masked.text[place] >= "\ue000"


def test_a_formula_after_text_gets_a_line_of_its_own() -> None:
    assert mask("so\n\\[ a \\]\nend", 16.0).text == "so\n\n\n\ue000\n\n\nend"
    assert mask("- so \\[ a \\] end", 16.0).text == "- so \ue000 end"
    assert mask("| \\[ a \\] |", 16.0).text == "| \ue000 |"


def test_private_characters_of_others_are_left_alone() -> None:
    assert mask("\ue000 and $x$", 16.0).formulas == ()


def test_what_is_set() -> None:
    made = typeset(r"\frac{-b \pm \sqrt{b^2 - 4ac}}{2a}", False, 16.0)
    assert made is not None
    assert made.width > 30
    assert made.ascent > made.descent > 3
    assert typeset(r"\frac{", False, 16.0) is None
    for latex in (
        r"\sum_{i=1}^n x_i", r"\int_0^\infty", r"\begin{pmatrix}a&b\\c&d\end{pmatrix}", r"\mathbb{R} \to \mathcal{O}",
        r"\begin{cases}1&x>0\\0&\text{else}\end{cases}", r"\begin{aligned}a&=b\\c&=d\end{aligned}", r"\hat{x} \vec{y}",
        r"\lim_{x \to 0} \frac{\sin x}{x}", r"\left( \frac{a}{b} \right)", r"\alpha \leq \neq \approx \in \forall",
    ):  # fmt: skip
        assert typeset(latex, True, 16.0) is not None, latex


@pytest.mark.parametrize("latex", ["x" * 5000, "{" * 30 + "}" * 30, "", r"\left(", "}{", "漢字"])
def test_what_is_not_tried(latex: str) -> None:
    assert not plausible(latex)


@pytest.mark.parametrize(
    "source", ["$" * 20_000, "\\(" * 10_000, "`" * 20_000, "$a" * 10_000, "\\[ " * 6_000, "` $" * 6000]
)
def test_hostile_marks_take_no_time(source: str) -> None:
    started = time.perf_counter()
    mask(source * (20_000 // len(source)), 16.0)
    assert time.perf_counter() - started < 2.0


@pytest.fixture
def view(qtbot: QtBot) -> DocumentView:
    made = DocumentView()
    qtbot.addWidget(made)
    made.resize(500, 200)
    made.show()
    return made


def test_a_formula_is_drawn_once_it_is_set_and_copied_as_latex(view: DocumentView, qtbot: QtBot) -> None:
    source = "Say $a+b$ and:\n\n$$\\frac{c}{d}$$\n\nend"
    view.typesetter.append([(source, "model")])
    view.typesetter.finish()
    text = view.document().toRawText()
    assert text.count(OBJECT) == 2
    qtbot.waitUntil(lambda: press().known(Formula("a+b", False, view.typesetter._em)), timeout=20_000)
    qtbot.waitUntil(lambda: not view.typesetter.formulas.waiting, timeout=20_000)
    assert plain_text(view.document()) == "Say $a+b$ and:\n$$\n\\frac{c}{d}\n$$\nend"
    view.selectAll()
    assert view.createMimeDataFromSelection().text() == source
    cursor = view.textCursor()
    cursor.setPosition(4)
    cursor.setPosition(9, cursor.MoveMode.KeepAnchor)
    view.setTextCursor(cursor)
    assert view.createMimeDataFromSelection().text() == "$a+b$ and"
    # The tint of the draft lies over formula and words; the words after it are where they are in the source.
    assert view.typesetter.runs[0].end >= text.index("and")
    assert source[view.source_at(text.index("end"))] == "e"
    height = view.document().size().height()
    picture = QImage(500, int(height) + 1, QImage.Format.Format_RGB32)
    picture.fill(0xFFFFFFFF)
    painter = QPainter(picture)
    view.document().drawContents(painter)
    painter.end()
    middle = view.document().documentLayout().blockBoundingRect(view.document().findBlock(text.index(OBJECT, 8)))
    strip = picture.copy(middle.toRect())
    dark = [strip.pixelColor(x, y).lightness() < 128 for x in range(strip.width()) for y in range(strip.height())]
    assert any(dark)


def test_a_formula_keeps_to_the_column(view: DocumentView, qtbot: QtBot) -> None:
    view.typesetter.append([("$$" + " + ".join("abcdefghijklmnopqrstuvwxyz" * 2) + "$$", None)])
    view.typesetter.finish()
    qtbot.waitUntil(lambda: not view.typesetter.formulas.waiting, timeout=20_000)
    assert view.document().size().width() <= view.viewport().width() + 1


def test_streamed_formulas_are_the_same(view: DocumentView, qtbot: QtBot) -> None:
    source = "A $x_1$ and\n\\[\ny\n\\]\nthen **b $z$**\n\n- $q$\n"
    for at in range(0, len(source), 2):
        view.typesetter.append([(source[at : at + 2], None)])
    view.typesetter.finish()
    assert view.document().toRawText().count(OBJECT) == 4
    assert view.typesetter.source == source


def test_markdown_around_a_formula_is_rendered(qtbot: QtBot) -> None:
    document = QTextDocument()
    document.setDefaultFont(QFont())
    masked = mask("**bold $a*b*c$** and `code`", 16.0)
    render(document, masked.text, colors(QGuiApplication.palette()))
    assert document.toPlainText() == "bold \ue000 and code"
    assert align(held(masked.text), document.toRawText().replace("\ue000", OBJECT))[-1] == len("bold x and code")
