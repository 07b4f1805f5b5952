"""What can be asked of mlx-spec train: options reach the training, bad ones are named, a battery makes it wait."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mlx_spec.__main__ import main
from mlx_spec.cli import train as command
from mlx_spec.cli.arguments import parser
from mlx_spec.cli.terminal import Progress
from mlx_spec.train import loop
from models.paths import heads
from tests.mlx_spec.tiny import tiny_llama


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_llama(tmp_path_factory.mktemp("target") / "tiny", layers=6))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """Stands in for the training itself; holds what it was asked for."""
    calls: list[dict[str, Any]] = []

    def train(model: Any, tokenizer: Any, config: Any, folder: Path, **settings: Any) -> loop.Trained:
        calls.append({**settings, "folder": folder, "config": config})
        (tmp_path / "model.safetensors").write_bytes(b"123")
        return loop.Trained(tmp_path, (0.0,), (0.5,), 1, 2, 3.0)

    monkeypatch.setattr(loop, "train", train)
    return calls


def test_defaults(target: str, asked: list[dict[str, Any]]) -> None:
    options = parser().parse_args(["train", "--model", target])
    assert (options.minutes, options.kind, options.disk, options.out) == (120.0, "eagle3", 8.0, None)
    assert (options.again, options.on_battery, options.json) == (False, False, False)
    assert main(["train", "--model", target]) == 0
    (call,) = asked
    assert call["folder"] == heads()[0] / "tiny"  # where it is found
    assert (call["name"], call["minutes"], call["kind"], call["disk"]) == ("tiny", 120.0, "eagle3", 8_000_000_000)
    assert (call["prompts"], call["given"]) == ((), ())
    assert call["config"]["num_hidden_layers"] == 6


def test_what_is_asked_for_is_passed_on(
    target: str, asked: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LENGTH", 8)
    (tmp_path / "prompts.txt").write_text("What now?\n\nAnd then?\n")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("one two three four five six seven eight nine ten " * 4)
    arguments = ["--minutes", "2.5", "--kind", "medusa", "--disk", "0.5", "--out", str(tmp_path / "heads")]
    files = ["--prompts", str(tmp_path / "prompts.txt"), "--texts", str(tmp_path / "texts")]
    assert main(["train", "--model", target, *arguments, *files]) == 0
    (call,) = asked
    assert (call["minutes"], call["kind"], call["disk"]) == (2.5, "medusa", 500_000_000)
    assert call["folder"] == tmp_path / "heads"
    assert call["prompts"] == ["What now?", "And then?"]
    (shard,) = call["given"]
    assert shard.ids.shape[1] == 8
    assert shard.mine.all()


def test_again_forgets_this_kinds_run_alone(target: str, asked: list[dict[str, Any]], tmp_path: Path) -> None:
    run = tmp_path / "heads" / "run"
    run.mkdir(parents=True)
    for name in ("state.json", "checkpoint", "state-medusa.json", "checkpoint-medusa", "answers-0000.npz"):
        (run / name).write_bytes(b"")
    start = ["train", "--model", target, "--out", str(tmp_path / "heads")]
    assert main(start) == 0
    assert len(list(run.iterdir())) == 5
    assert main([*start, "--again", "--kind", "medusa"]) == 0
    assert sorted(p.name for p in run.iterdir()) == ["answers-0000.npz", "checkpoint", "state.json"]
    assert main([*start, "--again"]) == 0
    assert not run.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--minutes", "-1"], "The time is set to -1 minutes. Set it to 10 or more."),
        (["--prompts", "nowhere.txt"], "The prompts in nowhere.txt cannot be read"),
        (["--texts", "nowhere"], "The texts in nowhere cannot be read"),
        (["--model", "no-such-folder/at-all/here"], "no-such-folder/at-all/here"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(
    target: str, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["train", "--model", target, *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    problems = [line for line in captured.err.splitlines() if line.startswith("mlx-spec: ")]
    assert len(problems) == 1
    assert said in problems[0]
    assert "Traceback" not in captured.err


def test_a_kind_that_is_none_is_refused(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", "--model", target, "--kind", "oracle"])
    assert ended.value.code == 2
    assert "eagle3" in capsys.readouterr().err


def test_a_model_with_few_layers_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = tiny_llama(tmp_path / "small")
    assert main(["train", "--model", str(small)]) == 1
    assert "No drafter is worth training for small: it has 2 layers. Use it plain." in capsys.readouterr().err


def test_a_real_run(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop, "ROWS", 8)
    monkeypatch.setattr(loop, "LENGTH", 120)
    out = tmp_path / "heads" / "tiny"
    assert main(["train", "--model", target, "--minutes", "0.001", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "4 tokens  before " in said.out
    assert f"The drafter eagle3 of tiny is in {out} (" in said.out
    assert len(said.err.splitlines()) < 12  # a line a stage, not one a token
    assert json.loads((out / "config.json").read_text())["outrider"]["target"] == "tiny"


# -------------------------------------------------------------------------------------------------------- while it runs


def test_lines_are_few_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    report = command._reporter(Progress(), 10)
    for second in range(600):
        now = 1000.0 + second / 2
        report("answers" if second < 300 else "learn", second / 600, f"{second} done")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Writing answers 0%, 0 done, 10 min left"
    assert lines[1] == "Writing answers 10%, 60 done, 10 min left"
    assert [line.split()[0] for line in lines] == ["Writing"] * 5 + ["Learning"] * 5
    now = 1000.0 + 3600
    report("measure", 1.0, "held-out texts, after")
    assert capsys.readouterr().err == "Measuring 100%, held-out texts, after, 0 min left\n"


def test_a_bar_is_redrawn_each_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    report = command._reporter(Progress(), 10)
    for i in range(5):
        report("learn", i / 5, f"step {i}")
    assert capsys.readouterr().err.count("\r") == 5


def test_it_waits_on_a_battery(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The battery is asked twice a minute, and once it is on mains it goes on."""
    clock, battery, questions = [1000.0], True, 0

    def on_battery() -> bool:
        nonlocal questions
        questions += 1
        return battery

    monkeypatch.setattr(command, "on_battery", on_battery)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    wait = command._battery(False, Progress())
    for second in (1000.0, 1001.0, 1029.0):
        clock[0] = second
        assert wait()
    assert questions == 1
    assert "Waiting for mains: the machine is on its battery" in capsys.readouterr().err
    battery = False
    assert wait()  # not asked yet
    clock[0] = 1031.0
    assert not wait()
    assert questions == 2
    assert capsys.readouterr().err == ""
    always = command._battery(True, Progress())  # --on-battery
    battery, clock[0] = True, 2000.0
    assert not always()
    assert questions == 2


def test_the_battery_is_asked_while_it_trains(target: str, asked: list[dict[str, Any]], monkeypatch: Any) -> None:
    monkeypatch.setattr(command, "on_battery", lambda: True)
    assert main(["train", "--model", target]) == 0
    assert asked[0]["wait"]()
    assert main(["train", "--model", target, "--on-battery"]) == 0
    assert not asked[1]["wait"]()
