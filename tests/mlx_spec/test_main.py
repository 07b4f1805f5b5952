"""The command, as a person runs it: on tiny random models, which know nothing but run for real."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlx_spec.__main__ import main
from mlx_spec.cli.terminal import Progress, size

from .tiny import tiny_llama

KEYS = {
    "text",
    "tokens",
    "tokens_per_second",
    "prompt_tokens_per_second",
    "time_to_first_token_s",
    "passes",
    "tokens_per_pass",
    "drafted",
    "accepted",
    "by_drafter",
    "plain_tokens_per_second",
    "peak_memory_bytes",
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_llama(tmp_path_factory.mktemp("target") / "tiny"))


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_llama(tmp_path_factory.mktemp("draft") / "tinier", layers=1))


def generate_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["generate", *arguments, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    result: dict[str, Any] = json.loads(out)
    return result


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that is said about a problem."""
    capsys.readouterr()
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if line.startswith("mlx-spec: ")]
    assert len(lines) == 1
    assert "Traceback" not in captured.err
    return lines[0]


def test_help_needs_no_mlx() -> None:
    code = (
        "import sys\n"
        "from mlx_spec.__main__ import main\n"
        "try:\n    main(['generate', '--help'])\n"
        "except SystemExit as e:\n    assert e.code == 0\n"
        "heavy = {'mlx', 'mlx_lm', 'numpy', 'transformers', 'gguf', 'huggingface_hub', 'PySide6'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for option in ("--model", "--draft", "--drafters", "--temperature", "--seed", "--max-tokens", "--rule"):
        assert option in done.stdout


@pytest.mark.parametrize("temperature", ["0", "0.8"])
def test_same_tokens_whoever_drafts(
    capsys: pytest.CaptureFixture[str], target: str, draft: str, temperature: str
) -> None:
    common = ("count one two three", "--model", target, "--draft", draft, "--max-tokens", "60")
    common = (*common, "--temperature", temperature, "--seed", "7")
    plain = generate_json(capsys, *common, "--drafters", "none")
    assert set(plain) == KEYS
    assert plain["drafted"] == plain["accepted"] == 0
    assert plain["by_drafter"] == {}
    assert plain["passes"] == len(plain["tokens"])
    for extra in (
        ("--drafters", "lookup"),
        ("--drafters", "lookup,model"),
        ("--fixed", "--max-draft", "5"),
    ):
        result = generate_json(capsys, *common, *extra)
        assert set(result) == KEYS
        assert result["tokens"] == plain["tokens"]
        assert result["text"] == plain["text"]
    assert result["passes"] < len(result["tokens"])
    assert result["tokens_per_pass"] == len(result["tokens"]) / result["passes"]
    assert result["drafted"] == sum(s["drafted"] for s in result["by_drafter"].values()) > 0
    assert result["accepted"] == sum(s["accepted"] for s in result["by_drafter"].values()) > 0
    assert result["tokens_per_second"] > 0
    assert result["prompt_tokens_per_second"] > 0
    assert result["time_to_first_token_s"] > 0
    assert result["peak_memory_bytes"] > 0


def test_text_streams_to_stdout_and_figures_to_stderr(capsys: pytest.CaptureFixture[str], target: str) -> None:
    common = ("the road", "--model", target, "--max-tokens", "40", "--seed", "1", "--temperature", "0.9")
    assert main(["generate", *common]) == 0
    captured = capsys.readouterr()
    assert captured.out == generate_json(capsys, *common)["text"]
    assert "40 tokens in" in captured.err
    assert "seed 1" in captured.err


def test_prompt_from_stdin(capsys: pytest.CaptureFixture[str], target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    common = ("--model", target, "--max-tokens", "8")
    typed = generate_json(capsys, "the party decides", *common)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the party decides")))
    assert generate_json(capsys, "-", *common)["tokens"] == typed["tokens"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"broken \xff bytes")))
    assert generate_json(capsys, "-", *common)["tokens"]


def test_system_and_raw_change_what_is_read(capsys: pytest.CaptureFixture[str], target: str) -> None:
    common = ("one two three", "--model", target, "--max-tokens", "12")
    chat = generate_json(capsys, *common)
    raw = generate_json(capsys, *common, "--raw")
    system = generate_json(capsys, *common, "--system", "Count.")
    assert len({tuple(r["tokens"]) for r in (chat, raw, system)}) == 3


@pytest.mark.parametrize("prompt", ["half \ud83d an emoji", "a \0 in it", "😀 \udcff"])
def test_odd_prompts_are_answered(capsys: pytest.CaptureFixture[str], target: str, prompt: str) -> None:
    assert generate_json(capsys, prompt, "--model", target, "--max-tokens", "4")["tokens"]


def test_stop_text(capsys: pytest.CaptureFixture[str], target: str) -> None:
    common = ("one two", "--model", target, "--max-tokens", "30")
    text = generate_json(capsys, *common)["text"]
    stop = text[10:12]
    assert generate_json(capsys, *common, "--stop", stop)["text"] == text[: text.index(stop)]


def test_problems(capsys: pytest.CaptureFixture[str], target: str, tmp_path: Path) -> None:
    with_model = ("--model", target)
    assert "empty" in refused(capsys, "generate", " \0", *with_model)
    assert "missing" in refused(capsys, "generate", "x", "--model", str(tmp_path / "missing"))
    assert str(tmp_path) in refused(capsys, "generate", "x", "--model", str(tmp_path))
    said = refused(capsys, "generate", "x", *with_model, "--drafters", "model")
    assert said.endswith('The drafter "model" cannot run: no draft model is chosen. Name one with --draft.')
    said = refused(capsys, "generate", "x", *with_model, "--drafters", "lookup,nonsense")
    assert 'no drafter "nonsense"' in said
    assert "temperature" in refused(capsys, "generate", "x", *with_model, "--temperature", "-1")
    assert "temperature" in refused(capsys, "generate", "x", *with_model, "--temperature", "nan")
    said = refused(capsys, "generate", "word " * 600, *with_model)
    assert "the context holds 512" in said
    assert "the context holds 20" in refused(capsys, "generate", "a b c d e f g h", *with_model, "--context", "20")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("generate", "x"),
        ("generate", "x", "--model", "m", "--drafters", "none,lookup"),
        ("generate", "x", "--model", "m", "--drafters", ","),
        ("generate", "x", "--model", "m", "--max-tokens", "0"),
        ("generate", "x", "--model", "m", "--rule", "wrong"),
        ("bench", "--model", "m"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as e:
        main(arguments)
    assert e.value.code == 2
    assert "usage: mlx-spec" in capsys.readouterr().err


class Interrupting(io.StringIO):
    """A stdout whose reader presses Ctrl-C after the first text."""

    def write(self, text: str) -> int:
        if not self.getvalue() and text:
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


def test_ctrl_c_keeps_the_text(
    target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Interrupting()
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "stdout", out)
    code = main(["generate", "one two three", "--model", target, "--max-tokens", "200"])
    monkeypatch.undo()
    assert code == 130
    assert out.getvalue()
    assert "; stopped; seed" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before


def test_a_reader_that_goes_away_is_no_error(target: str) -> None:
    command = [sys.executable, "-m", "mlx_spec", "generate", "one two three", "--model", target]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 141
    assert b"Traceback" not in err
    assert b"BrokenPipe" not in err


def test_models_check(capsys: pytest.CaptureFixture[str], target: str, draft: str, tmp_path: Path) -> None:
    assert main(["models", "check", target, draft]) == 0
    assert "can draft for" in capsys.readouterr().out
    other = tiny_llama(tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    a, b = sorted(vocabulary, key=vocabulary.get)[40:42]
    vocabulary[a], vocabulary[b] = vocabulary[b], vocabulary[a]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    assert main(["models", "check", target, str(other)]) == 1
    assert "cannot draft for" in capsys.readouterr().out
    assert main(["models", "check", target, str(other), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is False
    assert data["reasons"]
    said = refused(capsys, "generate", "x", "--model", target, "--draft", str(other))
    assert "cannot draft for" in said


def test_models_list_and_get(
    capsys: pytest.CaptureFixture[str], target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path))
    assert main(["models", "get", target]) == 0
    assert capsys.readouterr().out.strip() == target
    assert main(["models", "list"]) == 0
    assert "starter" in capsys.readouterr().out
    assert main(["models", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert "starter" in [m["name"] for m in listed]


def test_models_import_of_what_is_no_gguf(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no file" in refused(capsys, "models", "import", str(tmp_path / "x.gguf"))
    assert "folder" in refused(capsys, "models", "import", str(tmp_path))
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"not a model")
    assert "bad.gguf" in refused(capsys, "models", "import", str(path))


def test_bench(capsys: pytest.CaptureFixture[str], target: str, draft: str, tmp_path: Path) -> None:
    work = tmp_path / "work.jsonl"
    work.write_text('{"category": "a", "turns": ["count one two three"]}\n{"category": "b", "prompt": "the road"}\n')
    out = tmp_path / "out.json"
    common = ("bench", "--model", target, "--draft", draft, "--workload", str(work), "--max-tokens", "12")
    against = ("--against", "plain,mlx-lm,mlx-lm-plain", "--mlx-lm-drafts", "2,3", "--json", str(out))
    assert main([*common, *against]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].split()[:3] == ["category", "prompts", "ours/plain"]
    assert "Our text is identical to that of plain, mlx-lm-plain, mlx-lm-2, mlx-lm-3." in captured.out
    assert "[2/2] b 2" in captured.err
    data = json.loads(out.read_text())
    assert set(data["all"]["arms"]) == {"plain", "ours", "mlx-lm-plain", "mlx-lm-2", "mlx-lm-3"}
    assert [p["category"] for p in data["prompts"]] == ["a", "b"]
    assert data["settings"]["drafters"] == ["suffix", "lookup", "model"]


def test_ctrl_c_reports_what_was_measured(
    capsys: pytest.CaptureFixture[str], target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pressed(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("[2/3]"):
                signal.raise_signal(signal.SIGINT)
            return super().write(text)

    work, out = tmp_path / "work.jsonl", tmp_path / "out.json"
    work.write_text('{"prompt": "the road"}\n' * 3)
    monkeypatch.setattr(sys, "stderr", Pressed())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    common = ("bench", "--model", target, "--workload", str(work), "--max-tokens", "4")
    try:
        assert main([*common, "--json", str(out)]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
        monkeypatch.undo()
    assert "Worst: all 1" in capsys.readouterr().out
    assert len(json.loads(out.read_text())["prompts"]) == 1


def test_bench_problems(capsys: pytest.CaptureFixture[str], target: str, tmp_path: Path) -> None:
    work = tmp_path / "work.jsonl"
    work.write_text('{"prompt": "the road"}\n')
    common = ("bench", "--model", target, "--workload")
    assert "cannot be read" in refused(capsys, *common, str(tmp_path / "none"))
    assert "needs a draft model" in refused(capsys, *common, str(work), "--against", "mlx-lm")
    assert 'nothing called "vllm"' in refused(capsys, *common, str(work), "--against", "vllm")
    out = str(tmp_path / "no" / "out.json")
    assert "cannot be written" in refused(capsys, *common, str(work), "--json", out)


def test_progress_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    for done in range(0, 98_000_001, 1_000_000):
        progress("download", "starter", done, 98_000_000)
    progress("read", "starter")
    progress.clear()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Fetching starter: 0 % of 98 MB"
    assert lines[-2:] == ["Fetching starter: 100 % of 98 MB", "Reading starter"]
    assert len(lines) == 12


def test_progress_as_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "60")
    progress = Progress()
    progress("download", "a model with a name that is longer than the terminal", 0, 1000)
    progress("download", "a model with a name that is longer than the terminal", 1000, 1000)
    assert all(len(line) <= 60 for line in terminal.getvalue().split("\r"))
    assert terminal.getvalue().endswith("100 % of 1 kB")
    progress.clear()
    assert terminal.getvalue().endswith(" \r")


def test_sizes() -> None:
    assert [size(n) for n in (0, 999, 98_362_432, 1_117_320_768)] == [
        "0 bytes",
        "999 bytes",
        "98 MB",
        "1.1 GB",
    ]
