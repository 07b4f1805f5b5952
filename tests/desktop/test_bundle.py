"""What a bundle keeps, what is found wrong with one, and what it is tried by: on any system, with made-up files."""

from __future__ import annotations

import plistlib
import struct
import sys
import tomllib
from pathlib import Path, PurePosixPath

import pytest

from desktop import bundle
from desktop.macho import binaries, metal_minimum

ROOT = Path(__file__).parent.parent.parent
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["briefcase"]["app"]["desktop"]
MAC = CONFIG["macOS"]


def macho(machine: int = 0x0100000C, minimum: tuple[int, int] = (14, 0), loads: tuple[str, ...] = ()) -> bytes:
    """A library with nothing but its headers."""
    commands = [struct.pack("<6I", 0x32, 24, 1, minimum[0] << 16 | minimum[1] << 8, 0, 0)]
    for name in loads:
        text = name.encode() + b"\0" * (8 - len(name) % 8)
        commands.append(struct.pack("<6I", 0x0C, 24 + len(text), 24, 0, 0, 0) + text)
    body = b"".join(commands)
    return b"\xcf\xfa\xed\xfe" + struct.pack("<7I", machine, 0, 6, len(commands), len(body), 0, 0) + body


def fat(*parts: bytes) -> bytes:
    """Several machines' code in one file."""
    head, body = b"\xca\xfe\xba\xbe" + struct.pack(">I", len(parts)), b""
    at = 8 + 20 * len(parts)
    for part in parts:
        head += struct.pack(">5I", 0, 0, at + len(body), len(part), 0)
        body += part
    return head + body


def metal(major: int, system: int = 0x81) -> bytes:
    return b"MTLB" + struct.pack("<3H2B2H", 0x8001, 2, 7, 0, system, major, 0) + bytes(72)


def test_headers_are_read() -> None:
    intel = macho(0x01000007, (10, 15))
    arm = macho(minimum=(13, 3), loads=("@rpath/QtCore.framework/Versions/A/QtCore", "/usr/lib/libSystem.B.dylib"))
    one, two = binaries(fat(intel, arm))
    assert (one.machine, one.minimum) == ("x86_64", (10, 15))
    assert (two.machine, two.minimum) == ("arm64", (13, 3))
    assert two.loads == ("@rpath/QtCore.framework/Versions/A/QtCore", "/usr/lib/libSystem.B.dylib")
    assert binaries(b"#!/bin/sh\n") == []
    assert binaries(b"\xca\xfe\xba\xbe\0\0\x004") == []  # Java
    with pytest.raises(ValueError, match="cut off"):
        binaries(arm[:40])
    assert metal_minimum(metal(14)) == (14, 0)
    assert metal_minimum(metal(17, system=0x82)) is None
    assert metal_minimum(b"MTLB") is None


KEPT = """
PySide6/__init__.py PySide6/QtCore.abi3.so PySide6/QtSvg.abi3.so PySide6/QtDBus.abi3.so PySide6/support/deprecated.py
PySide6/libpyside6.abi3.6.11.dylib PySide6/Qt PySide6/Qt/lib PySide6/Qt/lib/QtGui.framework/Versions/A/QtGui
PySide6/Qt/lib/QtGui.framework/Versions/A/Resources/Info.plist PySide6/Qt/plugins/platforms/libqcocoa.dylib
PySide6/Qt/plugins/styles/libqmacstyle.dylib PySide6/Qt/plugins/iconengines/libqsvgicon.dylib
PySide6/Qt/translations/qtbase_de.qm shiboken6/Shiboken.abi3.so shiboken6/libshiboken6.abi3.6.11.dylib
mlx/lib/mlx.metallib mlx/lib/libmlx.dylib mlx/core.cpython-312-darwin.so mlx/nn/layers/base.py
mlx_lm/models/qwen3.py transformers/models/auto/auto_factory.py numpy/_core/__init__.py ziamath/fonts/a.ttf
"""
GONE = """
PySide6/QtQml.abi3.so PySide6/QtOpenGL.abi3.so PySide6/QtCore.pyi PySide6/Designer.app PySide6/qmlls PySide6/lupdate
PySide6/typesystems PySide6/include PySide6/glue PySide6/libpyside6qml.abi3.6.11.dylib PySide6/Qt/qml PySide6/Qt/libexec
PySide6/Qt/metatypes PySide6/Qt/lib/QtQuick.framework PySide6/Qt/lib/QtGui.framework/Headers
PySide6/Qt/lib/QtGui.framework/Versions/A/Headers PySide6/Qt/plugins/sqldrivers PySide6/Qt/plugins/tls
PySide6/Qt/plugins/platforms/libqminimal.dylib PySide6/Qt/plugins/imageformats/libqpdf.dylib
PySide6/Qt/translations/designer_de.qm shiboken6/include shiboken6/Shiboken.pyi mlx/include mlx/share mlx/lib/cmake
mlx/core/__init__.pyi bin numpy/f2py numpy/_core/tests numpy/__pycache__
"""


def test_what_is_kept() -> None:
    assert [name for name in KEPT.split() if bundle.unneeded(PurePosixPath(name))] == []
    assert [name for name in GONE.split() if not bundle.unneeded(PurePosixPath(name))] == []


def test_every_part_of_qt_that_the_app_imports_is_kept() -> None:
    for file in (ROOT / "desktop").rglob("*.py"):
        for line in file.read_text().splitlines():
            words = line.split()
            if words[:1] == ["from"] and words[1].startswith("PySide6."):
                assert words[1].removeprefix("PySide6.") in bundle.QT, file


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A bundle with which nothing is wrong."""
    made = tmp_path / "Outrider.app"
    resources = made / "Contents" / "Resources"
    for name in bundle.NEEDED:
        file = resources / name
        file.parent.mkdir(parents=True, exist_ok=True)
        is_code = file.suffix in (".so", ".dylib") or file.name == "QtWidgets"
        file.write_bytes(macho() if is_code else metal(14) if file.suffix == ".metallib" else b"")
    stub = made / "Contents" / "MacOS" / "Outrider"
    stub.parent.mkdir()
    stub.write_bytes(macho())
    (resources / "desktop.icns").write_bytes(b"icns")
    info = {"MainModule": "desktop", "CFBundleExecutable": "Outrider", "CFBundleIconFile": "desktop.icns"}
    info["LSMinimumSystemVersion"] = MAC["min_os_version"]
    (made / "Contents" / "Info.plist").write_bytes(plistlib.dumps(info | MAC["info"]))
    return made


def test_a_good_bundle_and_what_may_be_wrong(app: Path) -> None:
    assert bundle.check(app) == []
    packages = app / "Contents" / "Resources" / "app_packages"
    (packages / "mlx" / "lib" / "mlx.metallib").write_bytes(metal(26))
    (packages / "mlx" / "lib" / "libmlx.dylib").write_bytes(macho(minimum=(26, 0)))
    (packages / "other.so").write_bytes(macho(0x01000007))
    (packages / "cut.so").write_bytes(macho()[:36])
    (packages / "PySide6" / "QtWidgets.abi3.so").write_bytes(
        macho(minimum=(15, 0), loads=("@rpath/QtPdf.framework/Versions/A/QtPdf", "@rpath/libpyside6.dylib"))
    )
    (packages / "mlx_lm" / "models" / "llama.py").unlink()
    wrong = bundle.check(app)
    said = (
        "llama.py is missing.", "mlx.metallib is made for macOS 26.0.", "libmlx.dylib needs macOS 26.0.",
        "other.so has no code for arm64.", "cut.so is damaged: the file is cut off.",
        "QtWidgets.abi3.so loads QtPdf, which is missing.",
        "QtWidgets.abi3.so loads libpyside6.dylib, which is missing.",
    )  # fmt: skip
    assert all(any(line.endswith(words) for line in wrong) for words in said), wrong
    assert len(wrong) == len(said)


def test_an_info_that_does_not_do(app: Path) -> None:
    file = app / "Contents" / "Info.plist"
    file.write_bytes(plistlib.dumps({"LSMinimumSystemVersion": "11.0", "CFBundleExecutable": "x"}))
    wrong = " ".join(bundle.check_info(app))
    for words in ("module desktop", "macOS 11.0", "text files", "NSDocumentsFolder", "executable", "icon"):
        assert words in wrong
    file.write_bytes(b"<plist>")
    assert len(bundle.check_info(app)) == 1


def test_trimming(app: Path) -> None:
    packages = app / "Contents" / "Resources" / "app_packages"
    (packages / "PySide6" / "Qt" / "qml").mkdir()
    (packages / "PySide6" / "Qt" / "qml" / "a.qml").write_bytes(b"12345")
    framework = packages / "PySide6" / "Qt" / "lib" / "QtWidgets.framework"
    (framework / "Headers").symlink_to("Versions/A/Headers")  # to what goes, too
    (framework / "QtWidgets").symlink_to("Versions/A/QtWidgets")
    assert bundle.trim(packages) == 5
    assert not (packages / "PySide6" / "Qt" / "qml").exists()
    assert not (framework / "Headers").is_symlink()
    assert (framework / "QtWidgets").exists()
    assert bundle.check(app) == []


def test_a_bundle_is_tried_in_a_clean_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", "/somewhere")
    stub = tmp_path / "Outrider.app" / "Contents" / "MacOS" / "Outrider"
    stub.parent.mkdir(parents=True)
    stub.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "assert 'HF_HOME' not in os.environ and os.environ['HOME'] == os.getcwd()\n"
        "if 'bad' in sys.argv and 'token' in sys.argv: sys.exit('No model is loaded.')\n"
        "print('a word of a library'); print(json.dumps({'tokens': [7], 'asked': sys.argv[1:3]}))\n"
    )
    stub.chmod(0o755)
    assert bundle.smoke(tmp_path / "Outrider.app", "good", 30) == []
    (wrong,) = bundle.smoke(tmp_path / "Outrider.app", "bad", 30)
    assert "desktop.bundle token ended with code 1" in wrong
    assert "No model is loaded." in wrong


def test_the_configuration_agrees_with_the_check() -> None:
    assert MAC["universal_build"] is False
    assert tuple(int(part) for part in MAC["min_os_version"].split(".")) == bundle.OLDEST
    assert {"desktop", "mlx_spec", "models"} == set(CONFIG["sources"])
    assert all(len(MAC["info"][key]) > 20 for key in bundle.PURPOSES)
    assert "com.apple.security.get-task-allow" not in MAC["entitlement"]  # would not be notarised
    assert "com.apple.security.app-sandbox" not in MAC["entitlement"]  # models lie anywhere
    declared = [t["UTTypeIdentifier"] for t in MAC["info"]["UTImportedTypeDeclarations"]]
    for entry in MAC["info"]["CFBundleDocumentTypes"]:
        assert entry["LSHandlerRank"] == "Alternate"
        own = [kind for kind in entry["LSItemContentTypes"] if kind.startswith("app.outrider.")]
        assert all(kind in declared for kind in own)
    plistlib.dumps(MAC["info"])


def test_the_icon(qapp: object) -> None:
    data = bundle.draw_icon()
    assert data[:4] == b"icns"
    assert struct.unpack(">I", data[4:8])[0] == len(data)
    at, found = 8, {}
    while at < len(data):
        kind, length = data[at : at + 4].decode(), struct.unpack(">I", data[at + 4 : at + 8])[0]
        picture = data[at + 8 : at + length]
        assert picture[:8] == b"\x89PNG\r\n\x1a\n"
        found[kind] = struct.unpack(">I", picture[16:20])[0]
        at += length
    assert found == bundle.ICONS
