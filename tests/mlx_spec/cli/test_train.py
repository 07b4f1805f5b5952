"""mlx-spec train as a person runs it and as a program does: what it prints, how it ends, what a stop leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlx_spec.__main__ import main
from mlx_spec.cli.terminal import JsonLines
from mlx_spec.cli.train import Stopped, _asked_to_end, _reporter
from mlx_spec.train import loop
from models.paths import heads
from tests.mlx_spec.tiny import tiny_llama


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_llama(tmp_path_factory.mktemp("target") / "tiny", layers=6))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """Stands in for the training itself; holds what it was asked for."""
    asked: list[dict[str, Any]] = []

    def train(*places: Any, **settings: Any) -> loop.Trained:
        asked.append(settings)
        settings["report"]("answers", 0.5, "1,000 tokens written")
        settings["report"]("learn", 0.25, "step 20, loss 3.000")
        folder = tmp_path / "made"
        folder.mkdir(exist_ok=True)
        (folder / "model.safetensors").write_bytes(bytes(2_500_000))
        if settings["minutes"] == 13:
            signal.raise_signal(signal.SIGTERM)
            assert settings["stop"]()
        return loop.Trained(folder, (0.01, 0.0), (0.6, 0.4), 100, 5000, 90.0)

    monkeypatch.setattr(loop, "train", train)
    return asked


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.err == ""
    return [json.loads(line) for line in captured.out.splitlines()]


def test_for_a_person(target: str, trained: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--model", target, "--minutes", "2"]) == 0
    said = capsys.readouterr()
    assert "1 token   before   1.0%  after  60.0%" in said.out
    assert "a chain of 2 would give: 2.00" in said.out
    assert "(2.5 MB)" in said.out
    assert "stopped early" not in said.out
    assert "Learning 25%, step 20, loss 3.000, 2 min left" in said.err


def test_for_a_program(target: str, trained: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--model", target, "--minutes", "2", "--kind", "medusa", "--json"]) == 0
    said = lines(capsys)
    assert {"stage": "read", "note": target, "share": None} in said
    assert {"stage": "answers", "share": 0.5, "note": "1,000 tokens written", "minutes_left": 2.0} in said
    assert said[-1]["before"] == [0.01, 0.0]
    assert said[-1]["after"] == [0.6, 0.4]
    assert (said[-1]["kind"], said[-1]["stopped"]) == ("medusa", False)
    assert (said[-1]["minutes"], said[-1]["bytes"]) == (1.5, 2_500_000)
    assert trained[0]["kind"] == "medusa"


def test_a_stop_while_it_learns_keeps_what_was_learned(
    target: str, trained: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert main(["train", "--model", target, "--minutes", "13", "--json"]) == 0
    assert lines(capsys)[-1]["stopped"] is True
    assert main(["train", "--model", target, "--minutes", "13"]) == 0
    assert "It was stopped early." in capsys.readouterr().out
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_stop_before_anything_is_learned_ends_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with _asked_to_end() as asked:
        report = _reporter(JsonLines(), 5, asked)
        report("answers", 0.1, "so far")
        signal.raise_signal(signal.SIGTERM)
        for stage, done in (("answers", 0.2), ("measure", 0.0)):
            with pytest.raises(Stopped):
                report(stage, done, "")
        report("learn", 0.5, "")
        report("measure", 1.0, "")
    assert [line["stage"] for line in lines(capsys)] == ["answers", "learn", "measure"]


def test_a_bar_of_bytes_is_a_share(capsys: pytest.CaptureFixture[str]) -> None:
    progress = JsonLines()
    for done in range(1000):
        progress("download", "some model", done, 1000)
    progress.clear()
    said = lines(capsys)
    assert said[0] == {"stage": "download", "note": "some model", "share": 0.0}
    assert len(said) < 100  # redrawn ten times a second at most


def test_time_must_be_given(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--model", target, "--minutes", "0", "--json"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "mlx-spec: The time is set to 0 minutes. Set it to 10 or more.\n"


def test_a_real_run_is_stopped_and_goes_on(target: str, own_home: Path) -> None:
    """The process itself: told to end while it writes answers, it ends soon, and says so."""
    command = [sys.executable, "-m", "mlx_spec", "train", "--model", target, "--minutes", "30", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("stage") == "answers":
                process.send_signal(signal.SIGTERM)
                break
        rest = process.stdout.read()
        assert process.wait(30) == 143
    assert json.loads(rest.splitlines()[-1]) == {"stopped": True}
    assert (heads()[0] / "tiny" / "run").is_dir()
