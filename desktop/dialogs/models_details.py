"""One model of the hub: its figures, whether it fits with a draft model beside it, who can draft for it, and the button
that fetches it. What it shows is asked of the hub on a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from desktop.dialogs.background import Background, problem_text
from desktop.dialogs.models_words import label, say
from desktop.sidebar.stats import bytes_text
from mlx_spec.events import Problem
from models import hub
from models.drafting_words import Drafting, explain
from models.fetch import is_here
from models.repo import Fit, Plan, Repo, Variant, best_variant, details, fit
from models.search import Found

DRAFT_RATIO = 10  # the target's bytes to the draft model's, from which on a draft model is offered ticked
EMPTY = "Pick a model to see its size, whether it fits here, and what can draft for it."


@dataclass(frozen=True, slots=True)
class Known:
    """What is shown of one model. `draft` is the draft model to offer with it, None where none is known or told."""

    repo: Repo
    drafting: Drafting
    best: Variant | None
    draft: Repo | None
    here: frozenset[str]  # sources that are on this disk already


def learn(repo: str) -> Known:
    """Ask the hub for a model and for the draft model that goes with it. Raises `Problem`; slow."""
    known = details(repo)
    drafting = explain(repo, known.config)
    draft: Repo | None = None
    for offered in drafting.models[:2]:
        try:
            asked = details(offered.id)
        except Problem:  # renamed or closed: the model itself can be had all the same
            continue
        if asked.usable:
            draft = asked
            break
    variants = [*known.usable, *(draft.usable if draft else ())]
    here = frozenset(v.plan.source for v in variants if is_here(v.plan))
    return Known(known, drafting, best_variant(known), draft, here)


class DetailsPane(QWidget):
    """`wanted` carries the plans to fetch, `use_wanted` the sources of a model and its draft model ("" for none)."""

    wanted = Signal(list)
    use_wanted = Signal(str, str)

    def __init__(
        self,
        parent: QWidget | None = None,
        ask: Callable[[str], Known] = learn,
        context: Callable[[], int | None] = lambda: None,
    ) -> None:
        super().__init__(parent)
        self._ask, self._context = ask, context
        self._background = Background(self)
        self._asked = 0
        self._known: Known | None = None
        self._found: Found | None = None
        self.title = label(bold=True, select=True)
        self.facts = label(small=True, select=True)
        self.files = QComboBox()
        self.files.setAccessibleName("File")
        self.files.currentIndexChanged.connect(self._file_changed)
        self.with_draft = QCheckBox()
        self.with_draft.toggled.connect(self._show_fit)
        for widget in (self.files, self.with_draft):  # a long name must not widen the pane
            widget.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.fit = label(select=True)
        self.fit.setAccessibleName("Whether it fits")
        self.trouble = label(select=True)
        self.trouble.setAccessibleName("Problem")
        self.drafting_title = label("Who can draft for it", bold=True)
        self.drafting = label(small=True, select=True)
        self.button = QPushButton("Download")
        self.button.clicked.connect(self._act)
        self.page = QPushButton("Open Its Page")
        self.page.setToolTip("Its page on the hub, in your browser")
        self.page.clicked.connect(self._open_page)
        self._build()
        self.clear()

    def _build(self) -> None:
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(12, 4, 12, 4)
        column.setSpacing(8)
        parts = (self.title, self.facts, self.files, self.with_draft, self.fit, self.trouble)
        for widget in (*parts, self.drafting_title, self.drafting):
            column.addWidget(widget)
        column.addStretch(1)
        area = QScrollArea()
        area.setWidget(inner)
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        row = QHBoxLayout()
        row.setContentsMargins(12, 0, 0, 0)
        row.addWidget(self.button)
        row.addWidget(self.page)
        row.addStretch(1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area, 1)
        outer.addLayout(row)

    # -------------------------------------------------------------------------------------------- showing

    def clear(self) -> None:
        """Nothing is picked."""
        self._asked += 1
        self._known = self._found = None
        self._blank(EMPTY)

    def _blank(self, text: str) -> None:
        self.title.setText("")
        for widget in (self.title, self.facts, self.files, self.with_draft, self.trouble, self.drafting_title):
            widget.hide()
        self.drafting.hide()
        say(self.fit, text)
        self.button.setText("Download")
        self.button.setEnabled(False)
        self.page.setEnabled(False)

    def show_found(self, found: Found | None, repo: str) -> None:
        """Show a model of the list, and ask the hub for the rest. `found` None: only its id is known."""
        self._asked += 1
        number = self._asked
        self._known, self._found = None, found
        self._blank("Asking the hub…")
        say(self.title, repo)
        if found is not None:
            say(self.facts, facts_of(found))
        self.page.setEnabled(True)

        def done(known: Known) -> None:
            if number == self._asked:
                self._show(known)

        def failed(error: Exception) -> None:
            if number == self._asked:
                say(self.fit, "")
                say(self.trouble, problem_text(error), True)

        self._background.run(lambda: self._ask(repo), done, failed)

    def _show(self, known: Known) -> None:
        self._known = known
        say(self.facts, facts_of(known.repo.found))
        variants = known.repo.variants
        self.files.blockSignals(True)
        self.files.clear()
        for variant in variants:
            mark = "  (best here)" if variant is known.best and len(variants) > 1 else ""
            name = variant.plan.file.rsplit("/", 1)[-1] or variant.label
            self.files.addItem(f"{name}, {bytes_text(variant.plan.bytes)}{mark}")
        if known.best is not None:
            self.files.setCurrentIndex(variants.index(known.best))
        self.files.blockSignals(False)
        self.files.setVisible(len(variants) > 1)
        draft = known.draft
        if draft is not None:
            plan = draft.usable[0].plan
            self.with_draft.setText(f"With {plan.repo.split('/')[-1]} to draft, {bytes_text(plan.bytes)}")
            self.with_draft.setToolTip(f"{plan.repo}: its draft model, fetched and loaded along with it")
        self.with_draft.blockSignals(True)
        self.with_draft.setChecked(self._draft_pays())
        self.with_draft.blockSignals(False)
        self.drafting.setText("\n".join(f"• {line}" for line in known.drafting.lines))
        usable = bool(known.repo.usable)
        self.with_draft.setVisible(draft is not None and usable)
        self.drafting_title.setVisible(usable)
        self.drafting.setVisible(usable)
        self._file_changed()

    def variant(self) -> Variant | None:
        """The file or folder that is picked."""
        if self._known is None or not self._known.repo.variants:
            return None
        return self._known.repo.variants[max(0, self.files.currentIndex())]

    def _draft_pays(self) -> bool:
        """Whether the draft model is so much smaller that drafting with it is likely to gain."""
        known = self._known
        if known is None or known.draft is None or known.best is None:
            return False
        return known.best.weights >= DRAFT_RATIO * known.draft.usable[0].weights

    def _draft(self) -> Variant | None:
        if self._known is None or self._known.draft is None or not self.with_draft.isChecked():
            return None
        return self._known.draft.usable[0]

    def verdict(self) -> Fit | None:
        """Whether what is picked fits, the draft model counted where it is wanted."""
        variant, draft = self.variant(), self._draft()
        if self._known is None or variant is None:
            return None
        draft_config = self._known.draft.config if self._known.draft and draft else None
        weights = draft.weights if draft else 0
        return fit(self._known.repo.config, variant.weights, weights, draft_config, self._context())

    def _file_changed(self) -> None:
        self._show_fit()

    def _show_fit(self) -> None:
        variant, verdict = self.variant(), self.verdict()
        if self._known is None or variant is None or verdict is None:
            say(self.fit, "")
            say(self.trouble, "The hub names no file of it that can be used.", True)
            self.button.setEnabled(False)
            return
        if variant.why_not:
            say(self.fit, "")
            say(self.trouble, f"It cannot be used here. {variant.why_not}", True)
            self.button.setText("Download")
            self.button.setEnabled(False)
            return
        say(self.trouble, "")
        say(self.fit, f"{verdict.words} {variant.note}".strip(), verdict.verdict == "too large")
        plans = self.plans()
        self.button.setEnabled(True)
        if plans:
            self.button.setText(f"Download {bytes_text(sum(plan.bytes for plan in plans))}")
        else:
            self.button.setText("Use It")

    def plans(self) -> list[Plan]:
        """What of it is not on this disk."""
        picked = [v for v in (self.variant(), self._draft()) if v is not None]
        here = self._known.here if self._known else frozenset()
        return [v.plan for v in picked if v.plan.source not in here]

    # --------------------------------------------------------------------------------------------- acting

    def _act(self) -> None:
        variant, draft = self.variant(), self._draft()
        if variant is None:
            return
        plans = self.plans()
        if plans:
            self.wanted.emit(plans)
            self.button.setText("Downloading")
            self.button.setEnabled(False)
        else:
            self.use_wanted.emit(variant.plan.source, draft.plan.source if draft else "")

    def again(self) -> None:
        """Look anew at what is on the disk: something was fetched or deleted."""
        known = self._known
        if known is not None:
            variants = [*known.repo.usable, *(known.draft.usable if known.draft else ())]
            here = frozenset(v.plan.source for v in variants if is_here(v.plan))
            self._known = Known(known.repo, known.drafting, known.best, known.draft, here)
            self._show_fit()

    def _open_page(self) -> None:
        QDesktopServices.openUrl(QUrl(f"{hub.endpoint()}/{self.title.text()}"))


def facts_of(found: Found) -> str:
    """A line of figures."""
    parts = [found.quantization, f"licence: {found.licence or 'not named'}", f"{found.downloads:,} downloads a month"]
    parts += [f"changed {found.updated}"] if found.updated else []
    text = ", ".join(p for p in parts if p)
    return text + (". Its licence must be accepted on its page first." if found.gated else "")
