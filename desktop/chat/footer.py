"""The row under a message: what can be done with it, and which of its branches is shown. Knows no store, no engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QSizePolicy, QWidget

from desktop.chat.message_parts import Awake, QuietButton
from desktop.theme import colors_of

HIGH = 26
GAP = 2


class BranchSwitch(QWidget):
    """ "< 2 / 3 >": goes to the branches beside this one. Always in sight, so that nobody thinks a text was lost."""

    chosen = Signal(int)

    def __init__(self, message: Awake, font: QFont) -> None:
        super().__init__(message)
        self._ids: tuple[int, ...] = ()
        self._at = 0
        self.back = QuietButton("‹", "Previous branch", message, always=True)
        self.count = QLabel(self)
        self.on = QuietButton("›", "Next branch", message, always=True)
        for part in (self.back, self.count, self.on):
            part.setFont(font)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 6, 0)
        row.setSpacing(0)
        for part in (self.back, self.count, self.on):
            row.addWidget(part)
        self.back.clicked.connect(lambda: self.step(-1))
        self.on.clicked.connect(lambda: self.step(1))
        self.hide()

    @property
    def several(self) -> bool:
        """Whether there is a branch beside this one."""
        return len(self._ids) > 1

    def set_branches(self, ids: Sequence[int], shown: int) -> None:
        """These stand beside each other, oldest first; hidden where there is only one."""
        self._ids = tuple(ids)
        self._at = self._ids.index(shown) if shown in self._ids else 0
        self.setVisible(self.several)
        self.count.setText(f"{self._at + 1} / {len(self._ids)}")
        self.count.setAccessibleName(f"Branch {self._at + 1} of {len(self._ids)}")
        self.back.setEnabled(self._at > 0)
        self.on.setEnabled(self._at + 1 < len(self._ids))

    def step(self, by: int) -> bool:
        """Ask for the branch before or after this one; False where there is none."""
        at = self._at + by
        if not 0 <= at < len(self._ids):
            return False
        self.chosen.emit(self._ids[at])
        return True

    def take_focus(self, by: int) -> None:
        """The button that goes on in this direction, or back where it ends here."""
        button, other = (self.back, self.on) if by < 0 else (self.on, self.back)
        (button if button.isEnabled() else other).setFocus()

    def recolor(self) -> None:
        """The palette is another one."""
        palette, muted = self.count.palette(), colors_of(self).muted
        if palette.color(self.count.foregroundRole()) != muted:
            palette.setColor(self.count.foregroundRole(), muted)
            self.count.setPalette(palette)


class Footer(QWidget):
    """The switch of the branches, and buttons that are made once and shown as the message's state wants.

    What has no room in a narrow window is in a menu at the end of the row.
    """

    def __init__(self, message: Awake, font: QFont, right: bool) -> None:
        super().__init__(message)
        self.setFixedHeight(HIGH)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._message, self._font = message, font
        self.branch = BranchSwitch(message, font)
        self._buttons: dict[QuietButton, bool] = {}  # and whether each is wanted
        self.more = QuietButton("⋯", "More that can be done with this message", message)
        self.more.setFont(font)
        self.more.clicked.connect(self._show_more)
        self.more.hide()
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(GAP)
        self._row.addWidget(self.branch)
        self._row.addWidget(self.more)
        if right:
            self._row.insertStretch(0, 1)
        else:
            self._row.addStretch(1)

    def add(self, text: str, name: str, act: Callable[[], object] | None) -> QuietButton:
        """A button at the end of the row."""
        button = QuietButton(text, name, self._message)
        button.setFont(self._font)
        if act is not None:
            button.clicked.connect(lambda _=False: act())
        self._row.insertWidget(self._row.indexOf(self.more), button)
        self._buttons[button] = True
        return button

    def want(self, button: QuietButton, wanted: bool) -> None:
        """Offer a button, or do not."""
        if self._buttons[button] != wanted or wanted == button.isHidden():
            self._buttons[button] = wanted
            self.arrange()

    @property
    def offered(self) -> list[QuietButton]:
        """The buttons that make sense now, whether there is room for them or not."""
        return [button for button, wanted in self._buttons.items() if wanted]

    def arrange(self) -> None:
        """Show what there is room for."""
        room = self.width() - (self.branch.sizeHint().width() + GAP if self.branch.several else 0)
        wide = {button: button.sizeHint().width() + GAP for button in self.offered}
        if sum(wide.values()) > room:
            room -= self.more.sizeHint().width() + GAP
        for button in self._buttons:
            fits = button in wide and wide[button] <= room
            room = room - wide[button] if fits else (0 if button in wide else room)
            button.setVisible(fits)
        self.more.setVisible(any(button.isHidden() for button in wide))

    def menu(self, buttons: Iterable[QuietButton]) -> QMenu:
        """A menu of some buttons, by their names; not yet shown."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for button in buttons:
            action = menu.addAction(button.accessibleName())
            action.triggered.connect(button.click)
        return menu

    def _show_more(self) -> None:
        hidden = [button for button in self.offered if button.isHidden()]
        self.menu(hidden).popup(self.more.mapToGlobal(self.more.rect().bottomLeft()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.arrange()
