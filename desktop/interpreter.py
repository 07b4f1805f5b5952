"""Where the app's executable has to serve as the Python that other processes are started with.

In a bundle there is no `python`: `sys.executable` is the stub in Contents/MacOS, and whatever it is told, it runs this
app. Yet the engine's process is started with `-c` (multiprocessing), and training with `-m mlx_spec`. So the app's very
first step is to look whether it was meant as an interpreter; nothing else may be imported before. Outside a bundle the
same call is answered in the same way, which is how the tests see it.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MODULES = ("mlx_spec", "desktop.bundle")  # what the app or its smoke test starts by name
CODE = "from multiprocessing."  # what multiprocessing starts: a worker, or its tracker of resources
WITH_VALUE = ("-X", "-W")


@dataclass(frozen=True, slots=True)
class Call:
    """What an interpreter was asked to run: a module or a line of code, and what follows it."""

    module: str
    code: str
    arguments: tuple[str, ...]


def call_of(argv: Sequence[str]) -> Call | None:
    """What `argv` asks of an interpreter, or None where it is meant for the app itself.

    Options in front (`-I`, `-B`, `-X utf8`) are those of the process that asks; the stub has its own.
    """
    rest = list(argv[1:])
    while rest:
        word = rest.pop(0)
        if word == "-m" and rest:
            return Call(rest[0], "", tuple(rest[1:]))
        if word == "-c" and rest:
            return Call("", rest[0], tuple(rest[1:]))
        if word in WITH_VALUE and rest:
            rest.pop(0)
        elif len(word) < 2 or word[0] != "-" or word[1] == "-":
            return None
    return None


def answer(argv: Sequence[str]) -> int | None:
    """Do what is asked of an interpreter; None where nothing is. Returns the exit code, or ends by `SystemExit`.

    Only what belongs to this app is run: anything else is refused, with code 2, and opens no second window.
    """
    call = call_of(argv)
    if call is None:
        return None
    _plain_streams()
    if call.module in MODULES:
        sys.argv = [argv[0], *call.arguments]
        runpy.run_module(call.module, run_name="__main__", alter_sys=True)
        return 0
    if call.code.startswith(CODE):
        sys.argv = ["-c", *call.arguments]
        exec(call.code, {"__name__": "__main__"})
        return 0
    print(f"outrider: {call.module or call.code!r} is no part of this app.", file=sys.stderr)
    return 2


def _plain_streams() -> None:
    """Write to the pipes that were given, whatever the stub made of stdout: what is written there is read."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, f"__{name}__")
        if stream is None:
            try:
                stream = os.fdopen(os.dup(number), "w", encoding="utf-8", errors="replace")
            except OSError:  # nothing is open there
                stream = open(os.devnull, "w")  # noqa: SIM115
        setattr(sys, name, stream)


def stub_of(file: Path) -> Path | None:
    """The executable of the bundle that a source file lies in, or None outside of one."""
    for folder in file.parents:
        if folder.name == "Contents" and folder.parent.suffix == ".app":
            stubs = sorted((folder / "MacOS").iterdir()) if (folder / "MacOS").is_dir() else []
            return stubs[0] if len(stubs) == 1 else None
    return None


def settle(file: Path = Path(__file__)) -> None:
    """In a bundle, have other processes started by its stub, whatever Python took for its own executable."""
    stub = stub_of(file)
    if stub is not None and sys.executable != str(stub):
        import multiprocessing.spawn

        sys.executable = str(stub)
        multiprocessing.spawn.set_executable(str(stub))
