"""What can be typed after mlx-spec. Knows names and defaults; what is done with them is elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

MODEL_HELP = '"starter", a folder, a GGUF file or a hub id such as mlx-community/Qwen3-4B-4bit'


def parser() -> argparse.ArgumentParser:
    """The whole command line. Each command's `run` takes the parsed options and returns the exit code."""
    root = argparse.ArgumentParser(
        prog="mlx-spec",
        description="Speculative decoding on MLX: the target model's own text in fewer passes.",
        epilog="Problems are told in one sentence on stderr, with exit code 1.",
    )
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _generate(commands)
    _models(commands)
    _bench(commands)
    _replay(commands)
    _layers(commands)
    _train(commands)
    return root


def _run(module: str, function: str = "run") -> Callable[[argparse.Namespace], int]:
    """The command's function, imported when it is called: help needs none of them."""

    def run(options: argparse.Namespace) -> int:
        from importlib import import_module

        return int(getattr(import_module(module, "mlx_spec.cli"), function)(options))

    return run


def _drafters(text: str) -> tuple[str, ...] | None:
    """ "lookup,model"; "none" is plain decoding."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError('give names with commas between them, or "none"')
    if "none" in names and len(names) > 1:
        raise argparse.ArgumentTypeError('"none" stands alone')
    return () if names == ("none",) else names


def _count(text: str) -> int:
    """A whole number above 0."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _add_loading(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("models")
    group.add_argument("--model", required=True, metavar="M", help=MODEL_HELP)
    group.add_argument("--draft", metavar="M2", help="a small model with the same tokenizer, to draft")
    group.add_argument(
        "--head", type=Path, metavar="FOLDER", help="a head that drafts for the model (default: the one made for it)"
    )
    group.add_argument(
        "--dtype",
        choices=("stored", "float32"),
        help="weights as stored, or widened to float32 (default: stored, or float32 where MLX has no GPU)",
    )
    group.add_argument(
        "--kv-bits", type=int, choices=(4, 8), help="keep keys and values in so many bits (default: as they are)"
    )
    group.add_argument(
        "--quantized-kv-start", type=int, default=5000, metavar="N", help="from N tokens on (default: 5000)"
    )
    group.add_argument("--context", type=_count, metavar="N", help="limit the context to N tokens")


def _add_drafting(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("drafting")
    group.add_argument(
        "--drafters",
        type=_drafters,
        metavar="NAMES",
        help='who may draft: "lookup,model", "lookup", "none" (default: all that can run)',
    )
    group.add_argument("--rule", choices=("match", "rejection", "block"), default="match", help="the accept rule")
    group.add_argument("--max-draft", type=_count, default=16, metavar="N", help="longest draft (default: 16)")
    group.add_argument("--fixed", action="store_true", help="always draft as much as a drafter has, whatever it costs")


def _generate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "generate",
        help="answer a prompt",
        description="Answer a prompt. The text goes to stdout as it comes, a summary to stderr.",
    )
    command.add_argument("prompt", metavar="PROMPT", help='the prompt, or "-" to read it from stdin')
    command.add_argument("--system", default="", metavar="TEXT", help="a system prompt")
    command.add_argument("--raw", action="store_true", help="continue PROMPT as it is: no chat template")
    command.add_argument("--json", action="store_true", help="print one JSON object instead of the text")
    _add_loading(command)
    _add_drafting(command)
    group = command.add_argument_group("sampling")
    group.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="0 is the likeliest token (default: 0)"
    )
    group.add_argument("--top-p", type=float, default=1.0, metavar="P", help="1 is off (default: 1)")
    group.add_argument("--top-k", type=int, default=0, metavar="K", help="0 is off (default: 0)")
    group.add_argument("--min-p", type=float, default=0.0, metavar="P", help="0 is off (default: 0)")
    group.add_argument("--repetition-penalty", type=float, default=1.0, metavar="R", help="1 is off (default: 1)")
    group.add_argument("--seed", type=int, metavar="S", help="same seed, same text (default: a fresh one)")
    group.add_argument(
        "--max-tokens",
        type=_count,
        metavar="N",
        help="write at most N tokens (default: until the context is full)",
    )
    group.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="end the reply before TEXT; may be repeated",
    )
    command.set_defaults(run=_run(".generate"))


def _models(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("models", help="list, fetch, import and compare models")
    actions = command.add_subparsers(title="actions", metavar="ACTION", required=True)

    action = actions.add_parser("list", help="models on this machine, and those that can be fetched by name")
    action.set_defaults(run=_run(".models", "list_models"))
    action.add_argument("--json", action="store_true", help="print JSON")

    action = actions.add_parser(
        "search",
        help="search the hub, and say what fits on this machine",
        description="Search the hub. Without words: what is recommended for this machine's memory; nothing is asked.",
    )
    action.add_argument("words", metavar="WORDS", nargs="*", help="words of a model's name, such as qwen3 coder")
    action.add_argument(
        "--form", choices=("mlx", "gguf", "all"), default="mlx", help="which files it should have (default: mlx)"
    )
    action.add_argument("--limit", type=_count, default=20, metavar="N", help="at most N (default: 20)")
    action.add_argument("--json", action="store_true", help="print JSON")
    action.set_defaults(run=_run(".hub", "search"))

    action = actions.add_parser("show", help="one model of the hub: its files, whether it fits, who can draft for it")
    action.add_argument("repo", metavar="ID", help="a hub id (owner/name); nothing is fetched")
    action.add_argument("--json", action="store_true", help="print JSON")
    action.set_defaults(run=_run(".hub", "show"))

    action = actions.add_parser("delete", help="delete a model from this disk")
    action.add_argument("name", metavar="NAME", help="as `mlx-spec models list` names it")
    action.add_argument("--yes", action="store_true", help="do not ask")
    action.set_defaults(run=_run(".hub", "delete"))

    action = actions.add_parser("get", help="fetch a model")
    action.add_argument("name", metavar="NAME", help=MODEL_HELP)
    action.set_defaults(run=_run(".models", "get"))

    action = actions.add_parser("import", help="turn a GGUF file into a folder that MLX loads")
    action.add_argument("file", metavar="FILE", help="a GGUF file")
    action.set_defaults(run=_run(".models", "import_file"))

    action = actions.add_parser("check", help="say whether one model can draft for another, and if not, why")
    action.add_argument("target", metavar="TARGET", help=MODEL_HELP)
    action.add_argument("draft", metavar="DRAFT", help="the small model")
    action.add_argument("--json", action="store_true", help="print JSON")
    action.set_defaults(run=_run(".models", "check"))

    action = actions.add_parser("drafters", help="name the published drafters that are known for a model, best first")
    action.add_argument("target", metavar="TARGET", help=MODEL_HELP + "; nothing is fetched")
    action.add_argument("--json", action="store_true", help="print JSON")
    action.set_defaults(run=_run(".models", "drafters"))


def _bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "bench",
        help="measure drafting against plain decoding on your own questions",
        description="Answer each question with and without drafting, in turn and in one process.",
    )
    _add_loading(command)
    _add_drafting(command)
    group = command.add_argument_group("measuring")
    group.add_argument(
        "--workload",
        type=Path,
        required=True,
        metavar="FILE",
        help='JSON lines, each {"category": ..., "prompt": ...} or {"category": ..., "turns": [...]}; or a set that '
        'comes along: "copy" (text that is given again) or "hostile" (nothing repeats)',
    )
    group.add_argument("--limit", type=_count, metavar="N", help="at most N questions a category")
    group.add_argument("--turns", type=_count, default=1, metavar="N", help="at most N turns a question (default: 1)")
    group.add_argument("--max-tokens", type=_count, default=64, metavar="N", help="a reply (default: 64)")
    group.add_argument("--temperature", type=float, default=0.0, metavar="T", help="(default: 0)")
    group.add_argument("--seed", type=int, default=0, metavar="S", help="of the draws (default: 0)")
    group.add_argument(
        "--against",
        type=_names,
        default=("plain",),
        metavar="ARMS",
        help='what stands beside: "plain" (always there), "mlx-lm" (its speculative loop with --draft), '
        '"mlx-lm-plain" (its plain loop)',
    )
    group.add_argument(
        "--mlx-lm-drafts",
        type=_counts,
        default=(2, 3, 4),
        metavar="N,...",
        help="its draft lengths (default: 2,3,4)",
    )
    group.add_argument("--repeats", type=_count, default=1, metavar="N", help="runs an arm and question (default: 1)")
    group.add_argument("--json", type=Path, metavar="OUT", help="write every question's figures to this file")
    group.add_argument("--html", type=Path, metavar="OUT", help="write a report with pictures to this file")
    group.add_argument("--resume", action="store_true", help="go on with the measurement that --json holds")
    group.add_argument(
        "--record",
        type=Path,
        metavar="OUT",
        help="instead of measuring, record what each drafter would propose at each place, for mlx-spec replay",
    )
    command.set_defaults(run=_run("mlx_spec.bench.command"))


def _replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "replay",
        help="compare policies of drafting over recorded replies, without a model",
        description="Play the controller, fixed lengths and the best choice in hindsight over a record.",
    )
    command.add_argument("file", type=Path, metavar="FILE", help="what bench --record wrote")
    command.add_argument("--policies", type=_names, default=(), metavar="NAMES", help="only these (default: all)")
    command.set_defaults(run=_run("mlx_spec.bench.replay"))


def _layers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "layers",
        help="find the layers that a model's own drafts can do without",
        description="Search which layers a model can leave out when it drafts for itself (the drafter layer_skip). "
        "Once is enough: the result is kept.",
    )
    _add_loading(command)
    command.set_defaults(run=_run(".layers"))


def _train(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "train",
        help="make a drafter for a model, on this machine",
        description="Train a small head (EAGLE-3 or Medusa) that drafts for a model, on what the model itself writes. "
        "It is used from the next load on. A run that was broken off goes on where it was.",
    )
    command.add_argument("--model", required=True, metavar="M", help=MODEL_HELP)
    command.add_argument("--dtype", choices=("stored", "float32"), help="of the model's weights, as for generate")
    group = command.add_argument_group("training")
    group.add_argument(
        "--kind",
        choices=("eagle3", "medusa"),
        default="eagle3",
        help="of head: eagle3 drafts token after token and guesses better, medusa drafts them all at once and costs "
        "less; both learn from the same answers (default: eagle3)",
    )
    group.add_argument(
        "--minutes", type=float, default=120.0, metavar="N", help="time for all of it, answers included (default: 120)"
    )
    group.add_argument(
        "--prompts", type=Path, metavar="FILE", help="questions to ask the model besides ours, one a line"
    )
    group.add_argument(
        "--texts",
        type=Path,
        metavar="PATH",
        help="texts to learn from besides the answers: a folder of .txt and .md files, or chats as JSON lines, each "
        '{"messages": [{"role": ..., "content": ...}, ...]}',
    )
    group.add_argument("--disk", type=float, default=8.0, metavar="GB", help="room for the model's states (default: 8)")
    group.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where the head goes; one of kind medusa to FOLDER-medusa (default: where it is found)",
    )
    group.add_argument("--again", action="store_true", help="forget an earlier run, and start anew")
    group.add_argument("--on-battery", action="store_true", help="go on without mains (default: wait for it)")
    group.add_argument(
        "--json", action="store_true", help="print progress and result as JSON, one object a line, for a program"
    )
    command.set_defaults(run=_run(".train"))
