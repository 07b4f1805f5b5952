"""The file dialogs of export and import: which format, which file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from desktop.color_scheme import inherit_scheme
from desktop.transfer.formats import FORMATS, Format


class ExportDialog(QFileDialog):
    """Where to write and in which format. Many chats go into one JSON file, or an archive with a file for each."""

    chosen = Signal(object, object)  # the format, the path

    def __init__(self, parent: QWidget | None, name: str, many: bool = False) -> None:
        super().__init__(parent, "Export Chats" if many else "Export Chat")
        inherit_scheme(self)
        self.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        self.setFileMode(QFileDialog.FileMode.AnyFile)
        self._formats: dict[str, tuple[Format, str]] = {}
        # Of many, the format that loses nothing comes first.
        for form in sorted(FORMATS, key=lambda f: not f.with_rounds) if many else FORMATS:
            packed = many and not form.with_rounds
            ending = "zip" if packed else form.ending
            words = f"{form.name}, one file a chat (*.{ending})" if packed else f"{form.name} (*.{ending})"
            self._formats[words] = (form, ending)
        self.setNameFilters(list(self._formats))
        self.filterSelected.connect(self._filtered)
        self._filtered(next(iter(self._formats)))
        self.selectFile(name)
        self.accepted.connect(self._done)

    def _filtered(self, words: str) -> None:
        if words in self._formats:
            self.setDefaultSuffix(self._formats[words][1])

    def _done(self) -> None:
        files = self.selectedFiles()
        if files and self.selectedNameFilter() in self._formats:
            form, ending = self._formats[self.selectedNameFilter()]
            path = Path(files[0])
            endings = {f".{e}" for _, e in self._formats.values()}
            if path.suffix.lower() in endings - {f".{ending}"}:  # of the format that was picked before
                path = path.with_suffix("")
            if path.suffix.lower() != f".{ending}":
                path = _free(path.with_name(f"{path.name}.{ending}"))
            self.chosen.emit(form, path)


def _free(path: Path) -> Path:
    """A name that no file has: the person was not asked whether this one may be replaced."""
    found, k = path, 1
    while found.exists():
        k += 1
        found = path.with_stem(f"{path.stem} {k}")
    return found


def import_dialog(parent: QWidget | None) -> QFileDialog:
    """Which files to import; not yet shown."""
    dialog = QFileDialog(parent, "Import Chats")
    inherit_scheme(dialog)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
    kinds: Sequence[str] = ("Chats of Outrider, ChatGPT or LM Studio (*.json *.zip)", "All files (*)")
    dialog.setNameFilters(list(kinds))
    return dialog
