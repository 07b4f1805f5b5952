"""An engine for the tests of races: the same made-up reply without and with drafts, at speeds of its own.

A prompt with "part" in it writes another end when drafted, one with "fail" fails there, "slow" writes until stopped.
"""

from __future__ import annotations

from dataclasses import replace
from multiprocessing.connection import Connection

from mlx_spec.events import (
    Failed,
    Generate,
    Load,
    Loaded,
    ModelInfo,
    PromptProgress,
    Round,
    Shutdown,
    Stop,
)
from tests.desktop.tokens.samples import finished, reply

INFO = ModelInfo("Tiny", None, "llama", 1000, 32.0, 2048, 4000, ("suffix", "lookup", "history"))


def written(request: Generate) -> list[Round]:
    """The rounds that a request is answered with."""
    names = request.drafters.names
    rounds = reply(names=names, seed=(request.sampling.seed or 0) + len(names))
    found, count = [], 0
    for r in rounds:
        if count + len(r.tokens) > (request.sampling.max_tokens or 1000):
            break
        count += len(r.tokens)
        found.append(replace(r, request=request.request))
    if names and "part" in request.messages[-1].content:
        found[-1] = replace(found[-1], tokens=tuple(t + 1 for t in found[-1].tokens))
    return found


def main(connection: Connection) -> None:
    """Serve requests until the other end is gone."""
    try:
        while not isinstance(request := connection.recv(), Shutdown):
            if isinstance(request, Load):
                connection.send(Loaded(request.request, INFO))
            elif isinstance(request, Generate):
                _answer(connection, request)
    except (EOFError, OSError):
        pass


def _answer(connection: Connection, request: Generate) -> None:
    number, wish = request.request, request.messages[-1].content
    connection.send(PromptProgress(number, 10, 10, 0))
    if "fail" in wish and request.drafters.names:
        connection.send(Failed(number, "The model's output is not a number.", "Try again."))
        return
    rounds = written(request)
    for r in rounds:
        connection.send(r)
        if "slow" in wish and connection.poll(0.05) and isinstance(connection.recv(), Stop):
            connection.send(replace(finished(rounds, number), reason="stopped"))
            return
    connection.send(finished(rounds, number))
