"""The catalogue of drafters: whole, honest about what it does not know, and matched to a model by facts, then name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlx_spec.__main__ import main
from mlx_spec.events import Problem
from models import drafters
from models.drafters import KINDS, KnownTarget, drafters_for, is_named, known_targets, matches, name_of
from models.local import LocalModel
from models.locate import HUB_ID
from models.pair import propose

DATA = json.loads(Path(drafters.__file__).with_name("drafters.json").read_text("utf-8"))
TARGETS = {t.title: t for t in known_targets()}


def titles(name: str, config: dict[str, Any] | None = None) -> list[str]:
    return [t.title for t in matches(name, config)]


def config_of(target: KnownTarget) -> dict[str, Any]:
    return {
        "model_type": target.model_types[0],
        "hidden_size": target.hidden_size,
        "num_hidden_layers": target.layers,
        "vocab_size": target.vocabulary,
    }


def folder_of(path: Path, config: dict[str, Any], tokens: list[str] | None = None) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    if tokens is not None:
        vocabulary = {token: i for i, token in enumerate(tokens)}
        (path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": []}))
    return path


# -------------------------------------------------------------------------------------------------- the data


def test_the_popular_targets_are_there_once() -> None:
    entries = [e for f in DATA["families"] for e in f["targets"]]
    assert len(TARGETS) == len(entries)
    for title in (
        *("Qwen3 0.6B", "Qwen3 32B", "Qwen3 30B-A3B", "Qwen3 Coder 30B-A3B", "Qwen3-Next 80B-A3B", "Qwen3.5 9B"),
        *("Qwen3.6 27B", "Qwen3.8 27B", "Llama 3.1 8B", "Llama 3.2 1B", "Llama 3.3 70B", "Gemma 3 12B", "Gemma 4 31B"),
        *("gpt-oss 20B", "gpt-oss 120B", "Mistral Small 24B", "GLM-4.5-Air", "GLM-4.7-Flash", "LFM2.5 1.2B"),
        *("SmolLM2 135M", "SmolLM3 3B", "Qwen2.5 7B", "Qwen2.5 Coder 7B"),
    ):
        assert title in TARGETS


@pytest.mark.parametrize("target", known_targets(), ids=lambda t: t.title)
def test_every_entry_is_complete(target: KnownTarget) -> None:
    assert target.names
    assert all(name == name.lower() for name in target.names)
    assert target.model_types
    there = [d.kind for d in target.drafters]
    for kind in KINDS:  # either a drafter or the reason why there is none
        assert (kind in there) != (kind in target.why_not)
    for reason in target.why_not.values():
        assert reason.endswith(".")
        assert len(reason) > 20
    assert len({d.id for d in target.drafters}) == len(there)
    for drafter in target.drafters:
        assert drafter.kind in KINDS
        assert drafter.variant in drafters.VARIANTS
        assert drafter.source in drafters.SOURCES
        assert HUB_ID.fullmatch(drafter.id) if drafter.source != "ours" else drafter.id == ""
        assert drafter.gb is None or 0 < drafter.gb < 10
        assert drafter.licence
        assert drafter.known.endswith(".")


def test_no_reason_is_given_twice_for_what_is_there() -> None:
    for family in DATA["families"]:
        for entry in family["targets"]:
            assert not {d["kind"] for d in entry["drafters"]} & set(entry["why_not"])


def test_licences_are_only_stated_where_they_are_known() -> None:
    """Of published heads none was read; a draft model's licence is that of a model of its own."""
    for target in known_targets():
        for drafter in target.drafters:
            if drafter.kind in ("eagle", "eagle3", "dflash", "medusa") and drafter.source != "ours":
                assert drafter.licence == "see the hub"


# -------------------------------------------------------------------------------------------------- matching


@pytest.mark.parametrize("target", known_targets(), ids=lambda t: t.title)
def test_each_target_is_found_by_each_of_its_names(target: KnownTarget) -> None:
    for name in target.names:
        for called in (name, f"mlx-community/{name}-4bit", f"{name.upper()}-Instruct", f"{name}.Q4_K_M.gguf"):
            assert titles(called) == [target.title]
            assert titles(called, config_of(target)) == [target.title]


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("mlx-community/Meta-Llama-3.1-8B-Instruct-4bit", "Llama 3.1 8B"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen3 30B-A3B"),
        ("qwen3_coder 30B a3b".replace(" ", "_"), "Qwen3 Coder 30B-A3B"),
        ("mlx-community/gemma-3-text-27b-it-4bit", "Gemma 3 27B"),
        ("google/gemma-4-E2B-it", "Gemma 4 E2B"),
        ("Mistral-Small-3.2-24B-Instruct-2506-4bit", "Mistral Small 24B"),
        ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "Qwen2.5 Coder 1.5B"),
    ],
)
def test_names_as_people_meet_them(name: str, title: str) -> None:
    assert titles(name) == [title]


@pytest.mark.parametrize("name", ["", "foo", "qwen3", "my-qwen3-80b", "xqwen3-8b", "Qwen3-8B1", "Qwen2.5-VL-7B"])
def test_other_names_are_no_match(name: str) -> None:
    assert titles(name) == []


def test_a_config_overrules_a_name() -> None:
    small = config_of(TARGETS["Qwen3 0.6B"])
    assert titles("Qwen3-8B-draft", small) == ["Qwen3 0.6B"]
    assert titles("Qwen3-8B", {**small, "hidden_size": 999}) == []
    assert titles("Llama-3.1-8B", {**config_of(TARGETS["Llama 3.1 8B"]), "vocab_size": 32000}) == []
    assert titles("Qwen3-8B", {"model_type": "bert"}) == []


def test_without_a_telling_name_all_of_the_shape_are_named() -> None:
    assert titles("mine", config_of(TARGETS["Qwen3 14B"])) == ["Qwen3 14B"]
    assert titles("mine", config_of(TARGETS["Qwen3.6 27B"])) == ["Qwen3.5 27B", "Qwen3.6 27B", "Qwen3.8 27B"]
    assert titles("mine", {"model_type": "qwen3"}) == []  # a kind of model is no shape


def test_the_sizes_may_be_in_the_text_part() -> None:
    config = {"model_type": "qwen3_5", "text_config": {"hidden_size": 4096, "num_hidden_layers": 32}}
    assert titles("mine", config) == ["Qwen3.5 9B"]
    text = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 3840}}
    assert titles("gemma-3-12b-it", text) == ["Gemma 3 12B"]
    assert titles("gemma-3-12b-it", {"model_type": "gemma3", "text_config": "x"}) == ["Gemma 3 12B"]
    assert titles("mine", {"model_type": "gemma3", "text_config": "x"}) == []


def test_a_folder_goes_by_its_hub_id_or_its_imported_name(tmp_path: Path) -> None:
    snapshot = folder_of(tmp_path / "models--mlx-community--Qwen3-8B-4bit" / "snapshots" / "0f3a", {})
    assert name_of(snapshot) == "mlx-community/Qwen3-8B-4bit"
    plain = folder_of(tmp_path / "mine", {})
    assert name_of(plain) == "mine"
    (plain / "outrider.json").write_text('{"name": "Qwen3 8B"}')
    assert name_of(plain) == "Qwen3 8B"
    assert is_named(TARGETS["Qwen3 8B"], name_of(plain))


def test_what_a_person_may_type(tmp_path: Path) -> None:
    assert [t.title for t in drafters_for("starter")] == ["SmolLM2 135M"]
    assert [t.title for t in drafters_for("mlx-community/Qwen3-4B-4bit")] == ["Qwen3 4B"]
    folder = folder_of(tmp_path / "anything", config_of(TARGETS["gpt-oss 20B"]))
    assert [t.title for t in drafters_for(str(folder))] == ["gpt-oss 20B"]
    file = tmp_path / "Llama-3.2-3B-Instruct-Q4_K_M.gguf"
    file.write_bytes(b"GGUF")
    assert [t.title for t in drafters_for(str(file))] == ["Llama 3.2 3B"]
    (folder / "config.json").write_text("{")
    with pytest.raises(Problem, match=r"config\.json cannot be read"):
        drafters_for(str(folder))


# ------------------------------------------------------------------------------------------------- proposing


def local(name: str, path: Path | None) -> LocalModel:
    return LocalModel(name, name, path, 1, "hub")


def test_a_draft_model_on_the_disk_is_proposed_before_one_to_fetch(tmp_path: Path) -> None:
    target = folder_of(tmp_path / "Qwen3-32B-4bit", config_of(TARGETS["Qwen3 32B"]), ["a", "b"])
    other = folder_of(tmp_path / "other", {}, ["a", "b"])
    stranger = folder_of(tmp_path / "stranger", {}, ["a", "c"])
    found = propose(str(target), target, [local("Qwen/Qwen3-0.6B", other)])
    assert found is not None
    assert (found.source, found.here) == ("Qwen/Qwen3-0.6B", True)
    for here in ([], [local("Qwen/Qwen3-0.6B", stranger)], [local("Qwen/Qwen3-1.7B", other)], [local("x", None)]):
        found = propose(str(target), target, here)
        assert found is not None
        assert (found.source, found.here) == ("mlx-community/Qwen3-0.6B-4bit", False)


def test_nothing_is_proposed_where_nothing_pays(tmp_path: Path) -> None:
    for title in ("Qwen3 0.6B", "Gemma 4 31B"):
        target = folder_of(tmp_path / TARGETS[title].names[0], config_of(TARGETS[title]), ["a"])
        assert propose(str(target), target, []) is None
    unknown = folder_of(tmp_path / "unknown", {"model_type": "llama"}, ["a"])
    assert propose(str(unknown), unknown, []) is None


# ----------------------------------------------------------------------------------------------- the command


def test_the_command_names_them_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "drafters", "mlx-community/Llama-3.1-8B-Instruct-4bit"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Llama 3.1 8B\n  1. eagle3  yuhuili/EAGLE3-LLaMA3.1-Instruct-8B\n")
    assert "about 850 MB, licence: see the hub" in said
    assert "5. model  mlx-community/Llama-3.2-1B-Instruct-4bit" in said
    assert "Reported slower than plain" in said
    assert "no mtp: Llama 3 was trained without multi-token heads." in said
    assert "mlx-spec train --model mlx-community/Llama-3.1-8B-Instruct-4bit" in said
    assert "nothing was fetched" in said


def test_the_command_says_what_it_does_not_know(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["models", "drafters", "some/thing"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("No published drafter is known for some/thing.\n")
    assert "suffix, lookup and history" in said
    folder = folder_of(tmp_path / "mine", config_of(TARGETS["Qwen3.6 27B"]))
    assert main(["models", "drafters", str(folder)]) == 0
    said = capsys.readouterr().out
    assert f"{folder} has the shape of Qwen3.5 27B and Qwen3.6 27B and Qwen3.8 27B" in said
    assert said.count("1. mtp  ") == 3
    assert "the id is not verified" in said
    assert main(["models", "drafters", "SmolLM2-135M-Instruct"]) == 0
    said = capsys.readouterr().out
    assert "1. eagle3  comes along" in said
    assert "look at the hub" not in said


def test_the_command_says_what_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(drafters.NOT_READ) < set(drafters.VARIANTS)
    assert main(["models", "drafters", "gemma-4-31b-it-8bit"]) == 0
    said = capsys.readouterr().out
    assert "1. mtp  mlx-community/gemma-4-31B-it-assistant-bf16  (Gemma assistant)" in said
    assert said.count("this form is not read here yet") == 1


def test_the_command_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "drafters", "gpt-oss-20b", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["title"] == "gpt-oss 20B"
    assert found["drafters"][0]["id"] == "RedHatAI/gpt-oss-20b-speculator.eagle3"
    assert set(found["why_not"]) == {"mtp", "eagle", "medusa", "model"}
