"""`python -m desktop.screenshot OUT_DIR`: pictures of the real window after a short real conversation.

Opens the window without a display, with the real engine process and a store of its own (no chat of yours is read
or written), holds two turns, and saves window-light.png and window-dark.png; with `--all` also the Tokens window in
mid-replay, and a race, which it runs. `--engine MODULE:FUNCTION` names another engine, so that the command itself can
be tried without a model.
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
    from PySide6.QtWidgets import QApplication, QWidget

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


def settle(app: QApplication) -> None:
    """Let what repaints on timers, the chart and the transcript, catch up."""
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        app.processEvents()
        time.sleep(0.01)


def grab(window: QWidget, path: Path) -> None:
    """Save a picture of a window. Raises `OSError`."""
    if not window.grab().save(str(path)):
        raise OSError(f"{path} could not be written")


def converse(app: QApplication, conversation: Conversation) -> None:
    """Load, then ask the questions one after the other. Raises RuntimeError where the engine failed."""
    from desktop.engine_keeper import EngineState

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


def more(app: QApplication, window: MainWindow, longest: int) -> dict[str, QWidget]:
    """The Tokens window in the middle of its replay, and a race that was run. RuntimeError where it failed."""
    window.menus.tokens.trigger()
    tokens = window.tokens.window
    race = window.races.open(PROMPTS[0])
    race.longest.setValue(longest)
    race.seed.setValue(7)
    race.go.click()
    wait_until(app, lambda: not window.races.runner.running, REPLY_S, "a race")
    if tokens is None or race.race is None:
        raise RuntimeError(race.same.text() or "The windows did not open.")
    tokens.player.seek(tokens.player.total * 0.7)
    return {"tokens": tokens, "race": race}


def main(arguments: list[str] | None = None) -> int:
    """The command. Returns 0, or 1 after saying on standard error what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m desktop.screenshot", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("--model", default=MODEL, help="starter, a folder, a GGUF file or a hub id")
    parser.add_argument("--draft", default="", help="a draft model; none without it")
    parser.add_argument("--max-tokens", type=int, default=120, help="of each reply")
    parser.add_argument("--all", action="store_true", help="the Tokens and Race windows, too")
    parser.add_argument("--size", default="1180x780", help="of the window, WIDTHxHEIGHT")
    parser.add_argument("--engine", default="mlx_spec.host:main", help="MODULE:FUNCTION of the engine process")
    options = parser.parse_args(arguments)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    if FONTS.is_dir():
        os.environ.setdefault("QT_QPA_FONTDIR", str(FONTS))

    from PySide6.QtWidgets import QApplication

    from desktop.color_scheme import apply_color_scheme
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
            windows: dict[str, QWidget] = {"window": window}
            if options.all:
                windows |= more(app, window, options.max_tokens)
            for scheme in ("light", "dark"):
                apply_color_scheme(window, scheme)
                settle(app)
                for name, shown in windows.items():
                    grab(shown, options.out / f"{name}-{scheme}.png")
        except (RuntimeError, TimeoutError, OSError) as error:
            print(f"screenshot: {error}", file=sys.stderr)
            return 1
        finally:
            window.close()
            store.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
