"""`python -m desktop.bundle`: trims, checks and tries the app that Briefcase has laid out. Not part of running it.

    icon FILE          write the app's icon, an .icns, from the drawing
    trim APP           remove what the app never loads: most of Qt, headers, type stubs
    check APP          name everything that would keep it from starting, or from being signed, on another Mac
    smoke APP MODEL    have the bundle write one token, by its command and by its engine process
    token MODEL        the latter's inside: one token by way of the engine process; prints it as JSON

`.ci/app` runs them in order on a Mac. What they decide is tested without one.
"""

from __future__ import annotations

import argparse
import json
import os
import plistlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from xml.parsers.expat import ExpatError

from desktop.macho import FAT, THIN, binaries, metal_minimum

OLDEST = (14, 0)  # macOS; mlx has no wheels for older ones
MACHINE = "arm64"
LARGEST_GB = 1.5
# Qt's bindings are built for 15 in wheels that are said to be for 13; the loader does not ask a library for it.
SAID_NEWER = ("PySide6", "shiboken6")
# DBus is loaded by QtGui itself.
QT = ("QtCore", "QtGui", "QtWidgets", "QtNetwork", "QtSvg", "QtDBus")
PLUGINS = {
    "platforms": ("libqcocoa.dylib", "libqoffscreen.dylib"),  # the second for trying it without a screen
    "styles": ("libqmacstyle.dylib",),
    "iconengines": ("libqsvgicon.dylib",),
    "imageformats": ("libqsvg.dylib", "libqjpeg.dylib", "libqgif.dylib", "libqicns.dylib"),
}
NEEDED = (
    "app/desktop/__main__.py",
    "app/desktop/icons/outrider.svg",
    "app/mlx_spec/__main__.py",
    "app/models/catalogue.json",
    "app_packages/mlx/lib/libmlx.dylib",
    "app_packages/mlx/lib/mlx.metallib",  # found beside libmlx.dylib and nowhere else
    "app_packages/mlx_lm/models/llama.py",
    "app_packages/PySide6/QtWidgets.abi3.so",
    "app_packages/PySide6/Qt/lib/QtWidgets.framework/Versions/A/QtWidgets",
    "app_packages/PySide6/Qt/plugins/platforms/libqcocoa.dylib",
    "app_packages/PySide6/Qt/plugins/styles/libqmacstyle.dylib",
)
PURPOSES = ("NSDesktopFolderUsageDescription", "NSDocumentsFolderUsageDescription", "NSDownloadsFolderUsageDescription")
ICONS = {"ic07": 128, "ic08": 256, "ic09": 512, "ic10": 1024, "ic11": 32, "ic12": 64, "ic13": 256, "ic14": 512}
TILE = 824 / 1024  # how much of an icon its tile takes, by Apple's grid; the drawing's own is 448 of 512


# --------------------------------------------------------------------------------------------------- trim


def unneeded(path: PurePosixPath) -> bool:
    """Whether a file or folder, named from app_packages on, is never loaded by the app."""
    parts, name = path.parts, path.name
    if name == "__pycache__" or path.suffix == ".pyi" or parts[0] == "bin":
        return True
    if parts[:2] == ("numpy", "f2py") or (parts[0] == "numpy" and "tests" in parts):
        return True
    if parts[0] == "mlx":
        return parts[1:2] in (("include",), ("share",)) or parts[1:3] == ("lib", "cmake")
    if parts[0] == "shiboken6":
        return parts[1:2] in (("include",), ("lib",))
    return parts[0] == "PySide6" and len(parts) > 1 and _unneeded_qt(parts[1:])


def _unneeded_qt(parts: tuple[str, ...]) -> bool:
    first, rest = parts[0], parts[1:]
    if first == "Qt":
        if not rest:
            return False
        if rest[0] == "lib":
            inside = rest[2:]
            return len(rest) > 1 and (
                rest[1].removesuffix(".framework") not in QT or "Headers" in inside or inside[-1:] == ("Headers",)
            )
        if rest[0] == "plugins":
            return len(rest) > 1 and (rest[1] not in PLUGINS or (len(rest) > 2 and rest[2] not in PLUGINS[rest[1]]))
        if rest[0] == "translations":
            return len(rest) > 1 and not rest[1].startswith("qtbase_")
        return True
    if first.endswith(".abi3.so"):
        return first.removesuffix(".abi3.so") not in QT
    if first == "support" or (first.startswith("libpyside6.") and first.endswith(".dylib")):
        return False
    return not first.endswith(".py")


def trim(packages: Path) -> int:
    """Remove what is not needed from app_packages; returns how many bytes that was."""
    gone = 0
    folders = [packages]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if unneeded(PurePosixPath(path.relative_to(packages).as_posix())):
                gone += size_of(path)
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            elif path.is_dir() and not path.is_symlink():
                folders.append(path)
    return gone


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; links count nothing."""
    if path.is_symlink():
        return 0
    return sum(size_of(inner) for inner in path.iterdir()) if path.is_dir() else path.stat().st_size


# -------------------------------------------------------------------------------------------------- check


def check(app: Path) -> list[str]:
    """What is wrong with a bundle, a sentence each."""
    resources = app / "Contents" / "Resources"
    wrong = [f"{name} is missing." for name in NEEDED if not (resources / name).exists()]
    wrong += check_info(app)
    libraries = [p for p in sorted((app / "Contents").rglob("*")) if p.is_file() and not p.is_symlink()]
    for path in libraries:
        wrong += check_file(path, path.relative_to(app).as_posix())
    wrong += missing_frameworks(resources / "app_packages" / "PySide6")
    size = size_of(app)
    if size > LARGEST_GB * 1e9:
        wrong.append(f"The bundle has {size / 1e9:.1f} GB; was it trimmed?")
    return wrong


def check_file(path: Path, name: str) -> list[str]:
    """What is wrong with one file's code."""
    with path.open("rb") as file:
        head = file.read(4)
        if path.suffix == ".metallib":
            oldest = metal_minimum(head + file.read(12))
            return [] if oldest is not None and oldest <= OLDEST else [f"{name} is made for macOS {_words(oldest)}."]
    try:
        parts = binaries(path.read_bytes()) if head in (THIN, FAT) else []
    except ValueError as e:
        return [f"{name} is damaged: {e}."]
    if not parts:
        return []
    own = [part for part in parts if part.machine == MACHINE]
    if not own:
        return [f"{name} has no code for {MACHINE}."]
    if any(part in name.split("/") for part in SAID_NEWER):
        return []
    return [f"{name} needs macOS {_words(p.minimum)}." for p in own if p.minimum is not None and p.minimum > OLDEST]


def _words(version: tuple[int, ...] | None) -> str:
    return "of an unknown version" if version is None else ".".join(str(part) for part in version)


def missing_frameworks(pyside: Path) -> list[str]:
    """Parts of Qt that what was kept loads and that are not there: that was trimmed too far."""
    wrong = set()
    for path in sorted(pyside.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            if file.read(4) not in (THIN, FAT):
                continue
        for part in binaries(path.read_bytes()):
            for load in part.loads:
                name = load.rpartition("/")[2]
                if ".framework/" in load and load.startswith("@rpath/Qt"):
                    there = (pyside / "Qt" / "lib" / f"{name}.framework").is_dir()
                elif load.startswith("@rpath/libpyside"):
                    there = (pyside / name).exists()
                else:
                    continue
                if not there:
                    wrong.add(f"{path.name} loads {name}, which is missing.")
    return sorted(wrong)


def check_info(app: Path) -> list[str]:
    """What is wrong with a bundle's Info.plist."""
    try:
        info = plistlib.loads((app / "Contents" / "Info.plist").read_bytes())
    except (OSError, ValueError, ExpatError) as e:
        return [f"Info.plist cannot be read ({e})."]
    wrong = []
    if info.get("MainModule") != "desktop":
        wrong.append("Info.plist does not start the module desktop.")
    oldest = tuple(int(part) for part in str(info.get("LSMinimumSystemVersion", "0")).split("."))[:2]
    if oldest < OLDEST:
        wrong.append(f"Info.plist lets macOS {_words((*oldest, 0)[:2])} start it; {_words(OLDEST)} is the oldest.")
    types = [kind for entry in info.get("CFBundleDocumentTypes", ()) for kind in entry.get("LSItemContentTypes", ())]
    if "public.plain-text" not in types:
        wrong.append("Info.plist takes no text files.")
    wrong += [f"Info.plist does not say why: {key}." for key in PURPOSES if not info.get(key)]
    if not (app / "Contents" / "MacOS" / str(info.get("CFBundleExecutable"))).is_file():
        wrong.append("The executable that Info.plist names is missing.")
    if not (app / "Contents" / "Resources" / str(info.get("CFBundleIconFile"))).is_file():
        wrong.append("The icon that Info.plist names is missing.")
    return wrong


# -------------------------------------------------------------------------------------------------- smoke


def smoke_commands(app: Path, model: str) -> list[list[str]]:
    """What is run: the command within the bundle, then the engine process, started as the window starts it."""
    (stub,) = (app / "Contents" / "MacOS").iterdir()
    generate = ["generate", "Say yes.", "--model", model, "--max-tokens", "1", "--temperature", "0", "--json"]
    return [[str(stub), "-m", "mlx_spec", *generate], [str(stub), "-m", "desktop.bundle", "token", model]]


def clean_environment(home: Path) -> dict[str, str]:
    """As for an account that has nothing of ours and no developer's tools: what works by a cache fails here."""
    return {"HOME": str(home), "OUTRIDER_HOME": str(home / "data"), "PATH": "/usr/bin:/bin", "TMPDIR": str(home)}


def smoke(app: Path, model: str, timeout: float = 600.0) -> list[str]:
    """Have a bundle write a token, twice; returns what went wrong."""
    wrong = []
    for command in smoke_commands(app, model):
        with tempfile.TemporaryDirectory() as home:
            try:
                done = subprocess.run(
                    command,
                    env=clean_environment(Path(home)),
                    cwd=home,
                    capture_output=True,
                    text=True,
                    timeout=timeout,
                )
                said = json.loads(done.stdout.strip().splitlines()[-1]) if done.stdout.strip() else {}
            except subprocess.TimeoutExpired:
                wrong.append(f"{' '.join(command[1:4])} did not end within {timeout:.0f} seconds.")
                continue
            except ValueError:
                said = {}
            if done.returncode or not said.get("tokens"):
                last = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
                wrong.append(f"{' '.join(command[1:4])} ended with code {done.returncode}, and said last: {last}")
    return wrong


def token(model: str, patience: float = 600.0) -> list[int]:
    """One token by way of the engine process, as the window gets them. Raises `Problem` if none comes."""
    from PySide6.QtCore import QCoreApplication

    from desktop.engine_client import EngineClient
    from mlx_spec.events import DrafterSettings, Failed, Generate, Load, Message, Problem, Round, SamplingSettings

    application = QCoreApplication.instance() or QCoreApplication([])
    client = EngineClient()
    client.start()
    client.send(Load(1, model))
    greedy = SamplingSettings(temperature=0.0, max_tokens=1)
    client.send(Generate(2, (Message("user", "Say yes."),), greedy, DrafterSettings(())))
    end = time.monotonic() + patience
    try:
        while time.monotonic() < end and client.alive:
            application.processEvents()
            for event in client.drain():
                if isinstance(event, Failed):
                    raise Problem(event.message, event.remedy)
                if isinstance(event, Round):
                    return list(event.tokens)
            time.sleep(0.02)
    finally:
        client.close()
    raise Problem("The engine process wrote nothing.", "Look at what it said above.")


# --------------------------------------------------------------------------------------------------- icon


def icns(pictures: Iterable[tuple[str, bytes]]) -> bytes:
    """An .icns file of PNG pictures, each with its kind."""
    body = b"".join(kind.encode() + struct.pack(">I", 8 + len(png)) + png for kind, png in pictures)
    return b"icns" + struct.pack(">I", 8 + len(body)) + body


def draw_icon() -> bytes:
    """The app's icon, drawn in every size that macOS asks for."""
    from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QRectF, Qt
    from PySide6.QtGui import QGuiApplication, QImage, QPainter
    from PySide6.QtSvg import QSvgRenderer

    keep = QGuiApplication.instance() or QGuiApplication(["", "-platform", "offscreen"])
    renderer = QSvgRenderer(str(Path(__file__).parent / "icons" / "outrider.svg"))
    pictures = []
    for kind, pixels in ICONS.items():
        image = QImage(pixels, pixels, QImage.Format.Format_ARGB32_Premultiplied)
        image.fill(Qt.GlobalColor.transparent)
        wide = pixels * TILE * 512 / 448
        painter = QPainter(image)
        renderer.render(painter, QRectF((pixels - wide) / 2, (pixels - wide) / 2, wide, wide))
        painter.end()
        data = QByteArray()
        buffer = QBuffer(data)
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        image.save(buffer, "PNG")  # type: ignore[call-overload]
        pictures.append((kind, bytes(data.data())))
    del keep
    return icns(pictures)


# ------------------------------------------------------------------------------------------------ command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of them; returns the exit code."""
    parser = argparse.ArgumentParser(prog="desktop.bundle", description="Trim, check and try a bundle of the app.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("icon").add_argument("file", type=Path)
    for name in ("trim", "check"):
        commands.add_parser(name).add_argument("app", type=Path)
    tried = commands.add_parser("smoke")
    tried.add_argument("app", type=Path)
    tried.add_argument("model")
    commands.add_parser("token").add_argument("model")
    given = parser.parse_args(arguments)
    if given.command == "icon":
        given.file.write_bytes(draw_icon())
        return 0
    if given.command == "trim":
        gone = trim(given.app / "Contents" / "Resources" / "app_packages")
        print(f"{gone / 1e6:,.0f} MB removed, {size_of(given.app) / 1e6:,.0f} MB left")
        return 0
    if given.command == "token":
        return _token(given.model)
    model = given.model if given.command == "smoke" else ""
    if os.path.isdir(model):  # it is run elsewhere
        model = os.path.abspath(model)
    wrong = check(given.app) if given.command == "check" else smoke(given.app.absolute(), model)
    print("\n".join(wrong) or "Nothing is wrong with it.", file=sys.stderr if wrong else sys.stdout)
    return 1 if wrong else 0


def _token(model: str) -> int:
    from mlx_spec.events import Problem

    try:
        print(json.dumps({"tokens": token(model)}))
    except Problem as e:
        print(f"outrider: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
