"""The two windows that only say something: About, and how drafting works."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QMessageBox, QTextBrowser, QVBoxLayout, QWidget

from desktop.theme import drafter_style, is_dark

HELP = """
<p>The model writes one token a pass. A <b>drafter</b> guesses the next few tokens; the model then checks all
guesses in <i>one</i> pass and keeps those that it would have written itself. So the text is the model's own,
whatever the drafters guess; only the time differs.</p>
<p><b>In the text.</b> A tinted and underlined word was drafted and held. A word without a tint is the model's
own. Struck through is a draft that did not hold; it is no part of the reply, and copying leaves it out.</p>
<p><b>The drafters here</b></p>
<ul>{drafters}</ul>
<p><b>In the sidebar.</b> The large figure says how many times as fast as plain decoding the text is written. The
plain rate is measured: now and then a pass is run without drafts. A figure below 1 means that drafting costs more
than it gains at the moment. Every row under the table is one pass: filled cells held, struck hollow cells did not,
the round grey one is the model's own token.</p>
<p><b>Token by token.</b> Point at a word, and it says who proposed it, how probable it was, what was rejected there.
<i>Tokens</i> under a reply shows it pass by pass and replays it at its real pace. <i>Chat &gt; Race</i> writes the same
answer plain and with drafts, one after the other, and puts both side by side.</p>
<p><b>The accept rule.</b> With <i>match</i>, the same seed and settings give the same text with drafters on, off
or switched midway. <i>Rejection</i> keeps the model's probabilities exactly, but the text depends on the
drafts.</p>
<p><b>What is not promised.</b> On 4-bit or 16-bit weights a wide pass may round differently from a narrow one, and
where two tokens are almost equally likely the other one may be chosen.</p>
"""


def help_html(drafters: Sequence[str], dark: bool) -> str:
    """The help text with one line a drafter, in its colours."""
    items = []
    for name in drafters:
        style = drafter_style(name, dark)
        title = html.escape(style.title)
        mark = style.line_words + ("; its squares have a corner cut off" if style.cut else "")
        items.append(
            f'<li><span style="color:{style.ink.name()};background-color:{style.tint.name()}">&nbsp;{title}'
            f"&nbsp;</span> marked with a {mark}</li>"
        )
    return HELP.format(drafters="".join(items))


class HelpDialog(QDialog):
    """How drafting works, and what the colours mean."""

    def __init__(self, drafters: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("How Drafting Works")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        text = QTextBrowser()
        text.setHtml(help_html(drafters, is_dark(self.palette())))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.addWidget(text)
        column.addWidget(buttons)

    def sizeHint(self) -> QSize:
        return QSize(620, 560)


def about_box(parent: QWidget) -> QMessageBox:
    """The About window, not yet shown."""
    try:
        number = version("outrider")
    except PackageNotFoundError:  # run from a folder, not installed
        number = ""
    box = QMessageBox(parent)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setWindowTitle("About Outrider")
    box.setIconPixmap(parent.windowIcon().pixmap(64, 64))
    box.setText(f"<b>Outrider</b> {html.escape(number)}")
    box.setInformativeText(
        "A chat with models on your own machine, which drafts ahead and shows what held. "
        "Nothing you write leaves this machine. Apache License 2.0."
    )
    return box
