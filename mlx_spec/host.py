"""The process side: requests in over a pipe, events out.

`main(connection)` is the whole life of the engine process. One thread, the main one, owns every mlx call;
another reads requests, so that a Stop is seen between two passes. When the other end of the pipe closes,
the window is gone and the process ends at once. It knows the engine and the models' folders; no window.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from .events import (
    Count,
    Counted,
    DrafterSettings,
    Event,
    Failed,
    Forget,
    Generate,
    Load,
    Loaded,
    LoadProgress,
    Memory,
    Notice,
    Problem,
    Request,
    Round,
    SetDrafters,
    Shutdown,
    Stop,
    Unload,
)
from .replies import forget

if TYPE_CHECKING:
    from models.download import Progress

    from .engine import Engine

MEMORY_EVERY = 1.0  # seconds between reports while a reply is written


class Host:
    """State of the engine process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._engine: Engine | None = None
        self._drafters = DrafterSettings()
        self._stopped: set[int] = set()
        self._ending = False

    def run(self) -> None:
        threading.Thread(target=self._read, name="requests", daemon=True).start()
        while not self._ending:
            request = self._requests.get()
            number = getattr(request, "request", 0)
            try:
                self._answer(request)
            except Problem as e:
                self._send(Failed(number, e.message, e.remedy))
            except MemoryError:
                self._send(Failed(number, "The machine is out of memory.", "Choose a smaller model."))
            except Exception as e:
                self._send(
                    Failed(
                        number,
                        f"The engine met an error that it did not expect: {e!r:.200}",
                        "Try again; if it stays, restart the engine and report it.",
                        traceback.format_exc(),
                    )
                )

    def _read(self) -> None:
        while True:
            try:
                request: Request = self._connection.recv()
            except (EOFError, OSError):
                os._exit(0)  # nobody is left to read: no reply is worth finishing
            if isinstance(request, Stop):
                self._stopped.add(request.request)
            elif isinstance(request, SetDrafters):
                self._drafters = request.drafters
            elif isinstance(request, Shutdown):
                os._exit(0)
            else:
                self._requests.put(request)

    def _send(self, event: Event) -> None:
        try:
            self._connection.send(event)
        except OSError:
            os._exit(0)

    def _answer(self, request: Request) -> None:
        if isinstance(request, Load):
            self._load(request)
        elif isinstance(request, Generate):
            self._generate(request)
        elif isinstance(request, Count):
            known = [self._engine.count(text) for text in request.texts] if self._engine is not None else []
            self._send(Counted(request.request, tuple(known)))
        elif isinstance(request, Forget):
            if self._engine is not None and self._engine.replies is not None:
                self._engine.replies.forget(request.chat)
            else:
                forget(_kept("replies"), request.chat)
        elif isinstance(request, Unload):
            self._engine = None
            self._clear()

    def _load(self, request: Load) -> None:
        import mlx.core as mx

        from models.paths import heads

        from .engine import load_engine

        started = time.perf_counter()

        def progress(stage: str, what: str, done: int, total: int) -> None:
            self._send(LoadProgress(request.request, stage, what, done, total))

        self._engine = None
        self._clear()
        target, draft = prepare(request.model, request.draft, request.context, request.dtype, progress, request.kv_bits)
        progress("read", request.model, 0, 0)
        self._engine = load_engine(
            target,
            draft,
            context=request.context,
            dtype=request.dtype,
            name=request.model,
            draft_name=request.draft or "",
            replies=_kept("replies"),
            learned=_kept("learned"),
            layers=_kept("layers"),
            heads=heads(),
            kv_bits=request.kv_bits,
        )
        mx.clear_cache()
        self._send(Loaded(request.request, self._engine.info, time.perf_counter() - started))
        self._notices()
        self._memory()

    def _generate(self, request: Generate) -> None:
        if self._engine is None:
            raise Problem("No model is loaded.", "Choose one in Models.")
        self._drafters = request.drafters
        reported = time.perf_counter()
        ids: list[int] = []
        for event in self._engine.generate(
            request.messages,
            request.sampling,
            lambda: self._drafters,
            request=request.request,
            stop=lambda: request.request in self._stopped,
        ):
            self._send(event)
            if isinstance(event, Round):
                ids += event.tokens
            if time.perf_counter() - reported > MEMORY_EVERY:
                reported = time.perf_counter()
                self._memory()
        self._stopped.discard(request.request)
        if request.chat is not None and self._engine.replies is not None:
            self._engine.replies.add(request.chat, ids)
        self._engine.keep_learned()
        self._notices()
        self._memory()

    def _notices(self) -> None:
        for message in self._engine.notices() if self._engine else ():
            self._send(Notice(message))

    def _clear(self) -> None:
        import gc

        import mlx.core as mx

        gc.collect()
        mx.clear_cache()

    def _memory(self) -> None:
        import mlx.core as mx

        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._send(Memory(mx.get_active_memory(), mx.get_peak_memory(), total))


def _kept(what: str) -> Path:
    """The folder where something is kept from run to run."""
    from models.paths import home

    return home() / what


def prepare(
    model: str,
    draft: str | None,
    context: int | None,
    dtype: str | None,
    progress: Progress | None = None,
    kv_bits: int | None = None,
) -> tuple[Path, Path | None]:
    """Find or fetch both models and check that they fit together and into memory. Raises `Problem`."""
    import json

    import models
    from models import memory

    from .engine import context_length
    from .precision import has_gpu

    target = models.locate(model, progress)
    second = models.locate(draft, progress) if draft else None
    if second is not None:
        report = models.check_pair(target, second)
        if not report.ok:
            raise Problem(f'"{draft}" cannot draft for "{model}": {report.reasons[0]}.', "Choose another draft model.")
    most = context_length(json.loads((target / "config.json").read_text()))
    width = dtype or ("stored" if has_gpu() else "float32")
    memory.check(target, second, min(context or most, most), width, kv_bits)
    return target, second


def main(connection: Connection) -> None:
    """Serve requests until asked to end or until the other end is gone. Runs in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the window's to answer
    Host(connection).run()
