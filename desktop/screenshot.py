"""`python -m desktop.screenshot OUT_DIR`: pictures of the real window after a short real conversation.

Opens the window without a display, with the real engine process and a store of its own (no chat of yours is read
or written), holds two turns, and saves window-light.png and window-dark.png. `--engine MODULE:FUNCTION` names
another engine, so that the command itself can be tried without a model.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

    from desktop.conversation import Conversation
    from desktop.window import MainWindow

PROMPTS = (
    "Write a Python function that counts the words in a text, and explain it in two sentences.",
    "Now write the same function again, with type hints and a docstring.",
)
LOAD_S, REPLY_S = 900.0, 600.0
MODEL = "starter"
FONTS = Path("/usr/share/fonts/truetype/dejavu")


def wait_until(app: QApplication, done: Callable[[], bool], seconds: float, what: str) -> None:
    """Run the event loop until `done`, at most `seconds`. Raises TimeoutError with `what` did not happen."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s")
        app.processEvents()
        time.sleep(0.005)


def grab(app: QApplication, window: MainWindow, scheme: str, path: Path) -> None:
    """Save a picture of the window in a colour scheme."""
    from desktop.color_scheme import apply_color_scheme

    apply_color_scheme(window, scheme)
    end = time.monotonic() + 0.6  # the chart and the transcript repaint on timers
    while time.monotonic() < end:
        app.processEvents()
        time.sleep(0.01)
    if not window.grab().save(str(path)):
        raise OSError(f"{path} could not be written")


def converse(app: QApplication, conversation: Conversation) -> None:
    """Load, then ask the questions one after the other. Raises RuntimeError where the engine failed."""
    from desktop.conversation import EngineState

    failures: list[str] = []
    finished: list[object] = []
    conversation.problem.connect(lambda failed: failures.append(f"{failed.message} {failed.remedy}"))
    conversation.reply_finished.connect(lambda row, _finished: finished.append(row))

    def ready() -> bool:
        return bool(failures) or conversation.state is EngineState.IDLE

    conversation.start()
    wait_until(app, ready, LOAD_S, "loading")
    for number, prompt in enumerate(PROMPTS, start=1):
        if failures:
            raise RuntimeError(failures[0])
        conversation.send(prompt)
        wait_until(app, lambda n=number: bool(failures) or len(finished) >= n, REPLY_S, "a reply")  # type: ignore[misc]
        wait_until(app, ready, REPLY_S, "the end of a reply")
    if failures:
        raise RuntimeError(failures[0])


def main(arguments: list[str] | None = None) -> int:
    """The command. Returns 0, or 1 after saying on standard error what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m desktop.screenshot", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("--model", default=MODEL, help="starter, a folder, a GGUF file or a hub id")
    parser.add_argument("--draft", default="", help="a draft model; none without it")
    parser.add_argument("--max-tokens", type=int, default=120, help="of each reply")
    parser.add_argument("--size", default="1180x780", help="of the window, WIDTHxHEIGHT")
    parser.add_argument("--engine", default="mlx_spec.host:main", help="MODULE:FUNCTION of the engine process")
    options = parser.parse_args(arguments)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    if FONTS.is_dir():
        os.environ.setdefault("QT_QPA_FONTDIR", str(FONTS))

    from PySide6.QtWidgets import QApplication

    from desktop.conversation import Conversation
    from desktop.engine_client import EngineClient
    from desktop.settings import DRAFT_MODEL, MAX_TOKENS, SEED, Settings
    from desktop.settings import MODEL as MODEL_SETTING
    from desktop.store import Store
    from desktop.window import MainWindow

    module, _, function = options.engine.partition(":")
    engine = getattr(importlib.import_module(module), function)
    width, height = (int(part) for part in options.size.split("x"))
    options.out.mkdir(parents=True, exist_ok=True)
    instance = QApplication.instance()
    app = instance if isinstance(instance, QApplication) else QApplication([])
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(Path(folder) / "settings.json")
        settings.set(MODEL_SETTING, options.model)
        settings.set(DRAFT_MODEL, options.draft)
        settings.set(MAX_TOKENS, options.max_tokens)
        settings.set(SEED, 7)
        store = Store(Path(folder) / "chats.db")
        client = EngineClient(engine)
        conversation = Conversation(store, settings, client)
        window = MainWindow(conversation, settings, store)
        window.resize(width, height)
        window.show()
        try:
            converse(app, conversation)
            for scheme in ("light", "dark"):
                grab(app, window, scheme, options.out / f"window-{scheme}.png")
        except (RuntimeError, TimeoutError, OSError) as error:
            print(f"screenshot: {error}", file=sys.stderr)
            return 1
        finally:
            window.close()
            store.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
