"""Light, dark or as the system: asked of the platform, and done by hand for one window where it cannot.

macOS, Windows and the larger Linux desktops follow `QStyleHints.setColorScheme`. A bare X11 or Wayland session and
the offscreen platform ignore it; there the window itself gets a palette. The application's palette is never set.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QWidget

SCHEMES = {
    "system": Qt.ColorScheme.Unknown,
    "light": Qt.ColorScheme.Light,
    "dark": Qt.ColorScheme.Dark,
}
_Role = QPalette.ColorRole
_DARK = {
    _Role.Window: "#242526",
    _Role.WindowText: "#e6e6e6",
    _Role.Base: "#1c1d1e",
    _Role.AlternateBase: "#26282a",
    _Role.Text: "#e8e8e8",
    _Role.PlaceholderText: "#9a9a9a",
    _Role.Button: "#34373a",
    _Role.ButtonText: "#e6e6e6",
    _Role.BrightText: "#ffffff",
    _Role.ToolTipBase: "#303336",
    _Role.ToolTipText: "#e8e8e8",
    _Role.Light: "#4a4e52",
    _Role.Midlight: "#3e4246",
    _Role.Mid: "#2c2e30",
    _Role.Dark: "#17181a",
    _Role.Shadow: "#000000",
    _Role.Highlight: "#2f7fb8",
    _Role.HighlightedText: "#ffffff",
    _Role.Accent: "#4ba3dc",
    _Role.Link: "#6cb8ee",
    _Role.LinkVisited: "#b49ae0",
}
_LIGHT = {
    _Role.Window: "#f4f4f4",
    _Role.WindowText: "#1a1a1a",
    _Role.Base: "#ffffff",
    _Role.AlternateBase: "#f0f1f2",
    _Role.Text: "#1a1a1a",
    _Role.PlaceholderText: "#6d6d6d",
    _Role.Button: "#ececec",
    _Role.ButtonText: "#1a1a1a",
    _Role.BrightText: "#ffffff",
    _Role.ToolTipBase: "#fdfdf2",
    _Role.ToolTipText: "#1a1a1a",
    _Role.Light: "#ffffff",
    _Role.Midlight: "#f6f6f6",
    _Role.Mid: "#c8c8c8",
    _Role.Dark: "#a6a6a6",
    _Role.Shadow: "#707070",
    _Role.Highlight: "#2b79b3",
    _Role.HighlightedText: "#ffffff",
    _Role.Accent: "#1f6ea8",
    _Role.Link: "#0b62a4",
    _Role.LinkVisited: "#6b4ba1",
}
_MUTED = (_Role.WindowText, _Role.Text, _Role.ButtonText)


def scheme_palette(dark: bool) -> QPalette:
    """A palette for one window, dark or light."""
    palette = QPalette()
    for role, color in (_DARK if dark else _LIGHT).items():
        palette.setColor(role, QColor(color))
    for role in _MUTED:
        palette.setColor(QPalette.ColorGroup.Disabled, role, QColor("#7d8083" if dark else "#8a8a8a"))
    return palette


def apply_color_scheme(window: QWidget, name: str) -> None:
    """Make `window` follow the system, or stay light or dark. `name` is "system", "light" or "dark"."""
    hints = QGuiApplication.styleHints()
    wanted = SCHEMES.get(name, Qt.ColorScheme.Unknown)
    if wanted == Qt.ColorScheme.Unknown:
        hints.unsetColorScheme()
        window.setPalette(QPalette())
        return
    hints.setColorScheme(wanted)
    if hints.colorScheme() == wanted:
        window.setPalette(QPalette())  # the platform did it
    else:
        window.setPalette(scheme_palette(wanted == Qt.ColorScheme.Dark))


def inherit_scheme(dialog: QWidget) -> None:
    """Let a dialog take the palette of its parent window, which Qt does not do for windows unasked."""
    dialog.setAttribute(Qt.WidgetAttribute.WA_WindowPropagation)
