"""Editors for the types that a setting can have: one widget each, with a value in and a value out.

Chosen by what the declaration says (type, choices, range). Text is handed on when it is
complete: numbers and lines when the field is left or Enter is pressed, so that no half-typed value is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QObject, QSignalBlocker, Signal
from PySide6.QtGui import QFocusEvent, QHideEvent, QWheelEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QRadioButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from desktop.settings import DRAFTERS, SYSTEM_PROMPT, Setting
from desktop.sidebar.drafter_table import shrink
from desktop.theme import drafter_order, drafter_title

AUTOMATIC = "automatic"


class Editor(QObject):
    """A widget that shows and changes one value. `changed` comes when the person is done with a change."""

    changed = Signal()
    widget: QWidget

    def value(self) -> Any:
        """What the widget holds, as the setting's type."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Show `value` without `changed`."""
        raise NotImplementedError

    def words(self, value: Any) -> str:
        """A value for a person."""
        return str(value) if value not in (None, "", ()) else "nothing"


class TickEditor(Editor):
    """A bool."""

    def __init__(self) -> None:
        super().__init__()
        self._box = QCheckBox()
        self.widget = self._box
        self._box.toggled.connect(lambda _on: self.changed.emit())

    def value(self) -> bool:
        return self._box.isChecked()

    def set_value(self, value: Any) -> None:
        with QSignalBlocker(self._box):
            self._box.setChecked(bool(value))

    def words(self, value: Any) -> str:
        return "on" if value else "off"


class StillCombo(QComboBox):
    """A combo box that the wheel scrolls past: a list of settings must not change by being scrolled."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class ChoiceEditor(Editor):
    """One of a few values."""

    def __init__(self, choices: Sequence[Any]) -> None:
        super().__init__()
        self._choices = tuple(choices)
        self._combo = StillCombo()
        self.widget = self._combo
        for choice in self._choices:
            self._combo.addItem(self.words(choice))
        self._combo.activated.connect(lambda _index: self.changed.emit())

    def value(self) -> Any:
        index = self._combo.currentIndex()
        return self._choices[index] if index >= 0 else None

    def set_value(self, value: Any) -> None:
        self._combo.setCurrentIndex(self._choices.index(value) if value in self._choices else -1)

    def words(self, value: Any) -> str:
        return str(value).replace("_", " ").capitalize()


class ExplainedEditor(ChoiceEditor):
    """One of a few values, each with a sentence that says what it does."""

    def __init__(self, choices: Sequence[Any], explained: Sequence[str]) -> None:
        super().__init__(choices)
        self.widget = QWidget()
        self.widget.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        column = QVBoxLayout(self.widget)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        self._buttons: list[QRadioButton] = []
        for choice, words in zip(self._choices, explained, strict=True):
            button, note = QRadioButton(self.words(choice)), QLabel(words)
            button.setAccessibleDescription(words)
            button.clicked.connect(lambda _on: self.changed.emit())
            note.setWordWrap(True)
            note.setIndent(22)
            shrink(note, 0.9)
            column.addWidget(button)
            column.addWidget(note)
            self._buttons.append(button)
        self.widget.setFocusProxy(self._buttons[0])

    def value(self) -> Any:
        return next((c for c, b in zip(self._choices, self._buttons, strict=True) if b.isChecked()), None)

    def set_value(self, value: Any) -> None:
        for choice, button in zip(self._choices, self._buttons, strict=True):
            button.setChecked(choice == value)


class NamedEditor(ChoiceEditor):
    """One of a few values that have names."""

    def __init__(self, choices: Sequence[Any], names: Sequence[str]) -> None:
        self._names = dict(zip(choices, names, strict=True))
        super().__init__(choices)

    def words(self, value: Any) -> str:
        name = self._names.get(value, str(value))
        return name[:1].upper() + name[1:]


class LimitsEditor(Editor):
    """A whole number for each of a few names, or none."""

    def __init__(self, names: Sequence[str], low: float | None, high: float | None) -> None:
        super().__init__()
        self.widget = QWidget()
        grid = QGridLayout(self.widget)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setVerticalSpacing(2)
        grid.setColumnStretch(0, 1)
        self.fields: dict[str, NumberEditor] = {}
        for row, name in enumerate(names):
            field, title = NumberEditor(True, True, low, high), QLabel(drafter_title(name))
            field.widget.setMaximumWidth(90)
            field.widget.setAccessibleName(f"Longest draft of {drafter_title(name)}")
            if isinstance(field.widget, QLineEdit):
                field.widget.setPlaceholderText("as above")
            title.setBuddy(field.widget)
            grid.addWidget(title, row, 0)
            grid.addWidget(field.widget, row, 1)
            field.changed.connect(self.changed)
            self.fields[name] = field
        self._others: dict[str, int] = {}  # of drafters that are not known here
        self.widget.setFocusProxy(next(iter(self.fields.values())).widget)

    def value(self) -> dict[str, int]:
        shown = {name: field.value() for name, field in self.fields.items()}
        return {name: int(v) for name, v in shown.items() if v is not None} | self._others

    def set_value(self, value: Any) -> None:
        for name, field in self.fields.items():
            field.set_value(value.get(name))
        self._others = {name: v for name, v in value.items() if name not in self.fields}

    def words(self, value: Any) -> str:
        return ", ".join(f"{drafter_title(name)} {number}" for name, number in value.items()) or "none"


class NumberEditor(Editor):
    """An int or float, or nothing where that is allowed. What is no number is put back when the field is left."""

    def __init__(self, whole: bool, optional: bool, low: float | None, high: float | None) -> None:
        super().__init__()
        self._whole, self._optional = whole, optional
        self._value: float | int | None = None
        self._line = QLineEdit()
        self.widget = self._line
        if optional:
            self._line.setPlaceholderText(AUTOMATIC)
        if low is not None or high is not None:
            parts = [f"at least {low:g}"] if low is not None else []
            parts += [f"at most {high:g}"] if high is not None else []
            self._line.setToolTip(", ".join(parts).capitalize())
        self._line.editingFinished.connect(self._done)

    def _done(self) -> None:
        text = self._line.text().strip().replace(",", ".")
        new: float | int | None
        if not text and self._optional:
            new = None
        else:
            try:
                new = int(text) if self._whole else float(text)
            except ValueError:
                self.set_value(self._value)
                return
        if new != self._value:
            self._value = new
            self.changed.emit()

    def value(self) -> float | int | None:
        return self._value

    def set_value(self, value: Any) -> None:
        self._value = value
        self._line.setText("" if value is None else self.words(value))

    def words(self, value: Any) -> str:
        if value is None:
            return AUTOMATIC
        return str(value) if self._whole else f"{value:g}"


class LineEditor(Editor):
    """One line of text."""

    def __init__(self) -> None:
        super().__init__()
        self._line = QLineEdit()
        self.widget = self._line
        self._shown = ""
        self._line.editingFinished.connect(self._done)

    def _done(self) -> None:
        if self._line.text() != self._shown:
            self._shown = self._line.text()
            self.changed.emit()

    def value(self) -> str:
        return self._line.text()

    def set_value(self, value: Any) -> None:
        self._shown = str(value)
        self._line.setText(self._shown)


class Paragraphs(QPlainTextEdit):
    """A small text field that says when it is left."""

    left = Signal()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.left.emit()

    def hideEvent(self, event: QHideEvent) -> None:
        self.left.emit()


class TextEditor(Editor):
    """Text of several lines, or (`as_lines`) a tuple of strings, one a line."""

    def __init__(self, as_lines: bool) -> None:
        super().__init__()
        self._as_lines = as_lines
        self._text = Paragraphs()
        self.widget = self._text
        self._text.setTabChangesFocus(True)
        self._text.setFixedHeight(self._text.fontMetrics().lineSpacing() * 3 + 14)
        if as_lines:
            self._text.setPlaceholderText("One a line")
        self._shown: Any = self.value()
        self._text.left.connect(self._done)

    def _done(self) -> None:
        if self.value() != self._shown:
            self._shown = self.value()
            self.changed.emit()

    def value(self) -> Any:
        text = self._text.toPlainText()
        return tuple(line for line in text.split("\n") if line) if self._as_lines else text

    def set_value(self, value: Any) -> None:
        self._text.setPlainText("\n".join(value) if self._as_lines else value)
        self._shown = self.value()

    def words(self, value: Any) -> str:
        return ", ".join(value) or "nothing" if self._as_lines else super().words(value)


class TicksEditor(Editor):
    """Any of a few names, in the order in which they are shown."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.widget = QWidget()
        self._column = QVBoxLayout(self.widget)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._boxes: dict[str, QCheckBox] = {}
        for name in names:
            self._add(name)

    def _add(self, name: str) -> QCheckBox:
        box = QCheckBox(drafter_title(name))
        box.toggled.connect(lambda _on: self.changed.emit())
        self._boxes[name] = box
        row = QHBoxLayout()
        row.addWidget(box)
        row.addStretch(1)
        self._column.addLayout(row)
        return box

    def value(self) -> tuple[str, ...]:
        return tuple(name for name, box in self._boxes.items() if box.isChecked())

    def set_value(self, value: Any) -> None:
        for name in value:
            if name not in self._boxes:
                self._add(name)
        for name, box in self._boxes.items():
            with QSignalBlocker(box):
                box.setChecked(name in value)

    def words(self, value: Any) -> str:
        return ", ".join(drafter_title(name) for name in value) or "none"


def editor_for(setting: Setting[Any]) -> Editor:
    """The editor that fits a setting's declaration."""
    if setting.choices and setting.kind is int:
        return NamedEditor(setting.choices, setting.explained)
    if setting.choices:
        return (
            ExplainedEditor(setting.choices, setting.explained) if setting.explained else ChoiceEditor(setting.choices)
        )
    if setting.kind is dict:
        return LimitsEditor(drafter_order(DRAFTERS.default), setting.minimum, setting.maximum)
    if setting.kind is bool:
        return TickEditor()
    if setting.kind in (int, float):
        return NumberEditor(setting.kind is int, setting.optional, setting.minimum, setting.maximum)
    if setting.kind is tuple:
        if setting is DRAFTERS:
            return TicksEditor(drafter_order(DRAFTERS.default))
        return TextEditor(as_lines=True)
    return TextEditor(as_lines=False) if setting is SYSTEM_PROMPT else LineEditor()
