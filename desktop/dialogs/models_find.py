"""Finding a model: a search of the hub as a table, what suits this machine before one searches, and the token.

The hub is asked on a thread of its own; an answer to an older search is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QInputDialog,
    QLineEdit,
    QPushButton,
    QSplitter,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from desktop.dialogs.background import Background, problem_text
from desktop.dialogs.models_details import DetailsPane, Known, learn
from desktop.dialogs.models_words import CANNOT, VERDICTS, count_text, label, row_item, say, table_of
from desktop.sidebar.stats import bytes_text
from models.hub_token import Token, forget, has_keychain, keep, token
from models.memory import available
from models.recommended import Recommended, recommended
from models.repo import fit
from models.search import Found, search

FORMS = (("mlx", "MLX"), ("gguf", "GGUF"), ("all", "All"))
COLUMNS = ("Model", "Size", "Weights", "Licence", "Downloads", "Fits Here")
_FOUND, _REPO = Qt.ItemDataRole.UserRole, Qt.ItemDataRole.UserRole + 1


class FindPage(QWidget):
    """`wanted` and `use_wanted` are those of the details."""

    wanted = Signal(list)
    use_wanted = Signal(str, str)

    def __init__(
        self,
        parent: QWidget | None = None,
        ask: Callable[[str, str], list[Found]] = search,
        ask_one: Callable[[str], Known] = learn,
        suits: Callable[[], list[Recommended]] = recommended,
        context: Callable[[], int | None] = lambda: None,
    ) -> None:
        super().__init__(parent)
        self._ask = ask
        self._background = Background(self)
        self._asked = 0
        self.line = QLineEdit()
        self.line.setPlaceholderText("Search the hub: qwen3, llama 3.2, coder…")
        self.line.setAccessibleName("Search the hub")
        self.line.setClearButtonEnabled(True)
        self.form = QComboBox()
        self.form.setAccessibleName("Which files")
        for name, title in FORMS:
            self.form.addItem(title, name)
        self.form.setToolTip("MLX loads as it is; GGUF is imported once")
        self.go = QPushButton("Search")
        self.table = table_of(COLUMNS, "Models", (1, 4))
        self.details = DetailsPane(ask=ask_one, context=context)
        self.status = label(small=True, select=True)
        self.status.setAccessibleName("What the search says")
        self.token_words = label(small=True)
        self.token_button = QPushButton("Token…")
        self.token_button.setVisible(has_keychain())
        self._build()
        self.line.returnPressed.connect(self.search)
        self.go.clicked.connect(self.search)
        self.form.currentIndexChanged.connect(lambda: self.search() if self.line.text().strip() else None)
        self.table.itemSelectionChanged.connect(self._picked)
        self.table.itemActivated.connect(lambda *_: self.details.button.setFocus())
        self.details.wanted.connect(self.wanted)
        self.details.use_wanted.connect(self.use_wanted)
        self.token_button.clicked.connect(self._ask_token)
        say(self.status, "Looking at this machine…")
        self._background.run(suits, self._show_recommended, self._failed)
        self._background.run(token, self._show_token, lambda _: None)

    def _build(self) -> None:
        top = QHBoxLayout()
        top.addWidget(self.line, 1)
        top.addWidget(self.form)
        top.addWidget(self.go)
        self.split = QSplitter()
        self.split.addWidget(self.table)
        self.split.addWidget(self.details)
        self.split.setStretchFactor(0, 3)
        self.split.setStretchFactor(1, 2)
        self.split.setChildrenCollapsible(False)
        self.details.setMinimumWidth(300)
        bottom = QHBoxLayout()
        bottom.addWidget(self.token_words, 1)
        bottom.addWidget(self.token_button)
        column = QVBoxLayout(self)
        column.addLayout(top)
        column.addWidget(self.status)
        column.addWidget(self.split, 1)
        column.addLayout(bottom)

    # ------------------------------------------------------------------------------------------ searching

    def search(self) -> None:
        """Search for what the line says."""
        words, form = self.line.text().strip(), self.form.currentData()
        if not words:
            say(self.status, "Type a word of the model's name, such as qwen3.")
            return
        self._asked += 1
        number = self._asked
        say(self.status, "Asking the hub…")
        self.go.setEnabled(False)

        def done(found: list[Found]) -> None:
            if number == self._asked:
                self.go.setEnabled(True)
                self.show_found(found, words)

        def failed(error: Exception) -> None:
            if number == self._asked:
                self._failed(error)

        self._background.run(lambda: self._ask(words, form), done, failed)

    def _failed(self, error: Exception) -> None:
        self.go.setEnabled(True)
        say(self.status, problem_text(error), True)

    def show_found(self, found: Sequence[Found], words: str) -> None:
        """Fill the table; what was found stays in the hub's order, most downloaded first."""
        self.details.clear()
        self.table.clear()
        free = available()
        for one in found:
            verdict = fit({}, one.bytes, free=free)
            here = CANNOT if one.why_not else VERDICTS[verdict.verdict]
            weights = bytes_text(one.bytes) if one.bytes else "–"
            downloads = count_text(one.downloads)
            item = self._row(one.repo, weights, one.quantization, one.licence or "–", downloads, here)
            item.setToolTip(5, one.why_not or verdict.words)
            item.setData(0, _FOUND, one)
        if found:
            text = f"{len(found)} found, most downloaded first. Picking one tells its exact size and fit."
        else:
            text = f"The hub has nothing for “{words}”" + (
                ". Look among All." if self.form.currentIndex() != 2 else "."
            )
        say(self.status, text)

    def _show_recommended(self, suiting: Sequence[Recommended]) -> None:
        if self._asked:
            return  # a search was quicker
        for one in suiting:
            verdict = one.fit()
            size = bytes_text((one.target.gb + (one.draft.gb if one.draft else 0)) * 1e9)
            cells = (f"≈ {size}", "4-bit", one.target.licence, "–", VERDICTS[verdict.verdict])
            item = self._row(one.target.repo, *cells)
            if one.draft:
                item.setText(0, " + ".join(m.repo.split("/")[-1] for m in (one.target, one.draft)))
            names = f"{one.target.repo}{f' with {one.draft.repo}' if one.draft else ''}"
            item.setToolTip(0, f"{names}\n{one.why}")
            item.setToolTip(5, verdict.words)
        say(self.status, f"Recommended for this machine ({bytes_text(available())} of memory free), largest first.")

    def _row(self, repo: str, *cells: str) -> QTreeWidgetItem:
        item = row_item(self.table, (repo, *cells), (1, 4))
        item.setToolTip(0, repo)
        item.setData(0, _REPO, repo)
        return item

    def _picked(self) -> None:
        items = self.table.selectedItems()
        if not items:
            self.details.clear()
            return
        self.details.show_found(items[0].data(0, _FOUND), items[0].data(0, _REPO))

    # --------------------------------------------------------------------------------------------- the token

    def _show_token(self, now: Token) -> None:
        say(self.token_words, now.origin)

    def _ask_token(self) -> None:
        dialog = QInputDialog(self)
        dialog.setWindowTitle("Token of the Hub")
        dialog.setLabelText(
            "It opens models that are private or gated, and is kept in the keychain.\nEmpty removes it."
        )
        dialog.setTextEchoMode(QLineEdit.EchoMode.Password)
        dialog.textValueSelected.connect(self._keep_token)
        dialog.open()

    def _keep_token(self, value: str) -> None:
        def work() -> Token:
            if value.strip():
                keep(value)
            else:
                forget()
            return token()

        self._background.run(work, self._show_token, lambda error: say(self.token_words, problem_text(error), True))
