"""The app's executable as an interpreter: a stand-in for a bundle's stub, which runs the app whatever it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from desktop.interpreter import Call, call_of, stub_of

ROOT = Path(__file__).parent.parent.parent
# What a stub does: it is the executable, it hands its words on, and it runs the module that it was made for.
STUB = """\
#!{python}
import runpy, sys
sys.path.insert(0, {root!r})
sys.executable = {wrong!r}
sys.argv[0] = __file__
sys.stdout = sys.stderr  # as a handler that writes to the system's log
runpy._run_module_as_main("desktop", alter_argv=False)
"""


def bundle(folder: Path) -> Path:
    """A bundle with such a stub, and the app's sources in it; returns the stub."""
    contents = folder / "Outrider.app" / "Contents"
    stub = contents / "MacOS" / "Outrider"
    sources = contents / "Resources" / "app"
    stub.parent.mkdir(parents=True)
    sources.mkdir(parents=True)
    for package in ("desktop", "mlx_spec", "models"):
        (sources / package).symlink_to(ROOT / package)
    stub.write_text(STUB.format(python=sys.executable, root=str(sources), wrong="/nowhere/python3"))
    stub.chmod(0o755)
    return stub


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ([], None),
        (["--home", "x"], None),
        (["notes.txt"], None),
        (["--model", "-c"], None),
        (["-m"], None),
        (["-m", "mlx_spec", "train", "-m", "x"], Call("mlx_spec", "", ("train", "-m", "x"))),
        (["-I", "-B", "-X", "utf8", "-c", "from x", "--multiprocessing-fork"],
         Call("", "from x", ("--multiprocessing-fork",))),
        (["-Wignore", "-W", "error", "-m", "pip"], Call("pip", "", ())),
    ],
)  # fmt: skip
def test_what_is_asked(words: list[str], call: Call | None) -> None:
    assert call_of(["outrider", *words]) == call


def test_the_stub_of_a_bundle(tmp_path: Path) -> None:
    stub = bundle(tmp_path)
    inside = tmp_path / "Outrider.app" / "Contents" / "Resources" / "app" / "desktop" / "interpreter.py"
    assert stub_of(inside) == stub
    assert stub_of(ROOT / "desktop" / "interpreter.py") is None
    (stub.parent / "second").touch()
    assert stub_of(inside) is None


def test_a_command_by_name_writes_to_its_pipe(tmp_path: Path) -> None:
    stub = bundle(tmp_path)
    done = subprocess.run([stub, "-I", "-m", "mlx_spec", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "generate" in done.stdout
    wrong = subprocess.run([stub, "-m", "mlx_spec", "nothing"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2


@pytest.mark.parametrize("words", [["-m", "pip", "config"], ["-c", "import os"]])
def test_what_is_not_ours_is_refused(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run([bundle(tmp_path), *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "no part of this app" in done.stderr


def test_a_process_is_spawned_through_the_stub(tmp_path: Path) -> None:
    """As the engine's is: `settle`, then multiprocessing's own spawn, with a pipe to talk through."""
    stub = bundle(tmp_path)
    code = f"""
import json, multiprocessing, sys
sys.path.insert(0, {str(stub.parent.parent / "Resources" / "app")!r})
from pathlib import Path
from desktop import interpreter
from mlx_spec.events import Failed, Generate, SamplingSettings, DrafterSettings
interpreter.settle(Path({str(stub.parent.parent / "Resources" / "app" / "desktop" / "interpreter.py")!r}))
from mlx_spec import host
context = multiprocessing.get_context("spawn")
ours, theirs = context.Pipe()
process = context.Process(target=host.main, args=(theirs,), daemon=True)
process.start()
theirs.close()
ours.send(Generate(7, (), SamplingSettings(), DrafterSettings(())))
said = ours.recv()
command = open(f"/proc/{{process.pid}}/cmdline").read().split(chr(0)) if sys.platform == "linux" else []
print(json.dumps([sys.executable, type(said).__name__, said.request, said.message, command]))
ours.close()
process.join(10)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    executable, kind, number, message, command = json.loads(done.stdout)
    assert executable == str(stub)
    assert (kind, number, message) == ("Failed", 7, "No model is loaded.")
    if command:
        assert str(stub) in command
