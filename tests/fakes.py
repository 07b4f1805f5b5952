"""Engine processes that need no model: they speak the real contract over the real pipe."""

from __future__ import annotations

import os
import queue
import random
import signal
import threading
import time
from multiprocessing.connection import Connection

from mlx_spec.events import (
    Count,
    Counted,
    DrafterSettings,
    DrafterStats,
    Failed,
    Finished,
    Generate,
    Load,
    Loaded,
    LoadProgress,
    Memory,
    ModelInfo,
    PromptProgress,
    Round,
    SetDrafters,
    Shutdown,
    Span,
    Stop,
)

TEXT = """\
The outrider **rides ahead** of the party and looks at the road. What it sees it tells, and the party decides. \
If the road is good they ride on; if not, they turn.

```python
def ride(road):
    return road.good
```

- one thing
- another thing

"""
WORDS = TEXT.split(" ")
INFO = ModelInfo("fake", "fake-draft", "llama", 1000, 32.0, 4096, 4000, ("lookup", "model"))


def rounds(request: int, tokens: int, names: tuple[str, ...], rng: random.Random) -> list[Round]:
    """A plausible reply of `tokens` tokens."""
    out: list[Round] = []
    done = 0
    while done < tokens:
        name = rng.choice(names) if names and len(out) % 5 else None
        drafted = rng.randint(1, 5) if name else 0
        accepted = min(rng.randint(0, drafted), tokens - done - 1)
        words = [WORDS[(done + i) % len(WORDS)] + " " for i in range(accepted + 1)]
        spans = (*(Span(w, name) for w in words[:accepted]), Span(words[-1]))
        out.append(
            Round(
                request=request,
                index=len(out),
                position=10 + done,
                drafter=name,
                drafted=tuple(range(drafted)),
                drafted_text=(*words[:accepted], *(f"wrong{i} " for i in range(drafted - accepted))),
                accepted=accepted,
                tokens=tuple(range(accepted + 1)),
                spans=spans,
                width=1 + drafted,
                draft_s=0.002 * drafted,
                verify_s=0.02,
                total_s=0.02 + 0.002 * drafted,
                plain_s=0.02,
                memory=10**8,
            )
        )
        done += accepted + 1
    return out


class Fake:
    def __init__(self, connection: Connection, die_after: int = 0, load_s: float = 0.0) -> None:
        self.connection = connection
        self.die_after = die_after
        self.load_s = load_s
        self.rate = float(os.environ.get("FAKE_RATE", "400"))
        self.tokens = int(os.environ.get("FAKE_TOKENS", "60"))
        self.requests: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.stopped: set[int] = set()
        self.drafters = DrafterSettings()

    def read(self) -> None:
        while True:
            try:
                request = self.connection.recv()
            except (EOFError, OSError):
                os._exit(0)
            if isinstance(request, Stop):
                self.stopped.add(request.request)
            elif isinstance(request, SetDrafters):
                self.drafters = request.drafters
            elif isinstance(request, Shutdown):
                os._exit(0)
            else:
                self.requests.put(request)

    def run(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=self.read, daemon=True).start()
        while True:
            request = self.requests.get()
            if isinstance(request, Load):
                self.connection.send(LoadProgress(request.request, "read", request.model, 1, 2))
                time.sleep(self.load_s)
                if request.model == "missing":
                    self.connection.send(Failed(request.request, 'There is no model "missing".', "Choose another."))
                else:
                    self.connection.send(Loaded(request.request, INFO))
                    self.connection.send(Memory(10**8, 2 * 10**8, 10**10))
            elif isinstance(request, Generate):
                self.generate(request)
            elif isinstance(request, Count):
                self.connection.send(Counted(request.request, tuple(len(t.split()) for t in request.texts)))

    def generate(self, request: Generate) -> None:
        number, send = request.request, self.connection.send
        self.drafters = request.drafters
        send(PromptProgress(number, 0, 10, 0))
        send(PromptProgress(number, 10, 10, 4, 0.01))
        if "fail" in request.messages[-1].content:
            send(Failed(number, "The fake was asked to fail.", "Ask for something else."))
            return
        written, passes, reason = 0, 0, "stop"
        pool = {n: rounds(number, self.tokens, n, random.Random(number)) for n in [()]}
        while written < self.tokens:
            if number in self.stopped:
                reason = "stopped"
                break
            names = self.drafters.names
            if names not in pool:
                pool[names] = rounds(number, self.tokens, names, random.Random(number))
            r = pool[names][passes % len(pool[names])]
            send(r if r.index == passes else _renumber(r, passes))
            passes += 1
            written += len(r.tokens)
            if self.die_after and passes >= self.die_after:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(len(r.tokens) / self.rate)
        send(
            Finished(
                number, reason, (), written, 10, 4, passes, 0.01, 0.02, 1.0, 7, 0.02, {"lookup": DrafterStats(1, 2, 1)}
            )
        )


def _renumber(r: Round, index: int) -> Round:
    from dataclasses import replace

    return replace(r, index=index)


def fake_engine(connection: Connection) -> None:
    Fake(connection).run()


def dying_engine(connection: Connection) -> None:
    """Kills itself after five rounds of a reply."""
    Fake(connection, die_after=5).run()


def slow_load_engine(connection: Connection) -> None:
    Fake(connection, load_s=1.0).run()
