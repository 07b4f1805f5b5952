"""An engine for the tests of the window: a few fixed rounds, and a way to fail or die when asked to.

The last user message decides: "die" ends the process after two rounds, "slow" writes until it is stopped, "fail"
gives a failure; a model named "bad" does not load.
"""

from __future__ import annotations

import os
from multiprocessing.connection import Connection

from mlx_spec.events import (
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
    Shutdown,
    Span,
    Stop,
)

INFO = ModelInfo("Tiny", None, "llama", 1000, 32.0, 2048, 4000, ("lookup",), (("model", "no draft model"),))


def a_round(request: int, index: int) -> Round:
    """Two of three drafts hold, then one token of the model's own."""
    return Round(
        request=request,
        index=index,
        position=10 + 3 * index,
        drafter="lookup",
        drafted=(1, 2, 3),
        drafted_text=(" one", " two", " three"),
        accepted=2,
        tokens=(1, 2, 4),
        spans=(Span(" one two", "lookup"), Span(" four")),
        width=4,
        draft_s=0.001,
        verify_s=0.04,
        total_s=0.05,
        plain_s=0.03,
        memory=2_000_000,
    )


def finished(request: int, rounds: int, reason: str) -> Finished:
    """The end of a reply of `rounds` rounds."""
    return Finished(
        request=request,
        reason=reason,
        tail=(),
        tokens=3 * rounds,
        prompt_tokens=10,
        cached_tokens=0,
        passes=rounds,
        prompt_s=0.01,
        first_token_s=0.02,
        decode_s=0.05 * rounds,
        seed=1,
        plain_s=0.03,
        by_drafter={"lookup": DrafterStats(rounds, 3 * rounds, 2 * rounds)},
    )


def main(connection: Connection) -> None:
    """Serve requests until the other end is gone."""
    try:
        while not isinstance(request := connection.recv(), Shutdown):
            if isinstance(request, Load) and request.model == "bad":
                connection.send(Failed(request.request, "The folder bad is no model.", "Choose another one."))
            elif isinstance(request, Load):
                connection.send(LoadProgress(request.request, "read", "Tiny", 1, 2))
                connection.send(Loaded(request.request, INFO))
                connection.send(Memory(1_000_000, 2_000_000, 8_000_000_000))
            elif isinstance(request, Generate):
                reply(connection, request)
    except (EOFError, OSError):
        pass


def reply(connection: Connection, request: Generate) -> None:
    """Write what the last message asks for."""
    number, wish = request.request, request.messages[-1].content
    connection.send(PromptProgress(number, 10, 10, 0))
    if wish == "fail":
        connection.send(Failed(number, "The prompt is longer than the context.", "Shorten it."))
        return
    count = 0
    while count < 4 or wish == "slow":
        connection.send(a_round(number, count))
        count += 1
        if wish == "die" and count == 2:
            os._exit(9)
        if wish == "slow" and connection.poll(0.02) and isinstance(connection.recv(), Stop):
            connection.send(finished(number, count, "stopped"))
            return
    connection.send(finished(number, count, "stop"))
