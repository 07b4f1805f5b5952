"""Models of other programs: found, explained, and never deleted; ours and the cache's can be."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from mlx_spec.__main__ import main
from mlx_spec.events import Problem
from models import fetch, paths
from models.drafting_words import explain
from models.gguf_head import read_head
from models.loadable import architectures, why_not
from models.on_disk import OnDisk, on_disk
from models.recommended import ALL, recommended
from models.remove import delete, what_goes
from models.repo import folder_plan
from tests.models.hub_stand_in import HubStandIn, mlx_about, model_files

DIGEST = "ab" * 32


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def write_gguf(path: Path, kind: str = "llama", name: str = "Tiny", more: bytes = b"", count: int = 3) -> Path:
    """A GGUF file's first lines, and a vocabulary that is not to be read."""
    facts = text("general.architecture") + struct.pack("<I", 8) + text(kind)
    facts += text("general.name") + struct.pack("<I", 8) + text(name)
    facts += text("general.file_type") + struct.pack("<II", 4, 15) + more
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, count) + facts + b"\xff" * 1000)
    return path


def folder(path: Path, **config: Any) -> Path:
    path.mkdir(parents=True)
    for name, data in model_files(**config).items():
        (path / name).write_bytes(data)
    return path


def found() -> dict[str, OnDisk]:
    return {one.title: one for one in on_disk()}


@pytest.fixture(autouse=True)
def _no_other_program(hub: HubStandIn) -> None:
    """The fixture points everything into the test's own folder."""


def test_lm_studio(tmp_path: Path) -> None:
    base = tmp_path / ".lmstudio" / "models"
    mlx = folder(base / "mlx-community" / "Tiny-4bit")
    write_gguf(base / "owner" / "Good-GGUF" / "good-Q4_K_M.gguf")
    write_gguf(base / "owner" / "Good-GGUF" / "mmproj-f16.gguf")
    write_gguf(base / "owner" / "Phi-GGUF" / "phi.gguf", "phi3")
    folder(base / "owner" / "New", model_type="neverheard")
    (base / "owner" / "New" / "note.txt").write_text("x")
    seen = found()
    assert set(seen) == {
        "mlx-community/Tiny-4bit",
        "owner/Good-GGUF · good-Q4_K_M.gguf",
        "owner/Phi-GGUF · phi.gguf",
        "owner/New",
    }
    one = seen["mlx-community/Tiny-4bit"]
    assert (one.source, one.place, one.form, one.why_not, one.ours) == (str(mlx), "lmstudio", "folder", "", False)
    good = seen["owner/Good-GGUF · good-Q4_K_M.gguf"]
    assert good.quantization == "Q4_K_M"
    assert "stays where it is" in good.note
    assert '"phi3"' in seen["owner/Phi-GGUF · phi.gguf"].why_not
    assert '"neverheard"' in seen["owner/New"].why_not
    with pytest.raises(Problem, match="belongs to LM Studio"):
        delete(one)
    assert mlx.exists()


def test_lm_studio_in_a_place_of_its_own(tmp_path: Path) -> None:
    (tmp_path / ".lmstudio").mkdir()
    (tmp_path / ".lmstudio" / "settings.json").write_text(json.dumps({"downloadsFolder": str(tmp_path / "elsewhere")}))
    folder(tmp_path / "elsewhere" / "a" / "b")
    assert set(found()) == {"a/b"}
    (tmp_path / ".lmstudio" / "settings.json").write_text("[broken")
    assert found() == {}


def test_ollama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path / "store"
    monkeypatch.setenv("OLLAMA_MODELS", str(base))
    blob = write_gguf(base / "blobs" / f"sha256-{DIGEST}", "qwen2")
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{DIGEST}"}
    manifests = base / "manifests" / "registry.ollama.ai"
    for owner, name, tag, said in (
        ("library", "qwen2.5", "7b", {"layers": [{"mediaType": "x", "digest": "y"}, layer]}),
        ("library", "evil", "1", {"layers": [{**layer, "digest": "sha256:../../../etc/passwd"}]}),
        ("library", "gone", "1", {"layers": [{**layer, "digest": "sha256:" + "00" * 32}]}),
        ("library", "odd", "1", {"layers": [7]}),
        ("library", "odd", "2", []),
    ):
        file = manifests / owner / name / tag
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(said))
    seen = found()
    assert set(seen) == {"qwen2.5:7b"}
    assert seen["qwen2.5:7b"].path == blob
    assert seen["qwen2.5:7b"].place == "ollama"
    with pytest.raises(Problem, match="belongs to Ollama"):
        what_goes(seen["qwen2.5:7b"])


def test_the_cache_can_be_deleted_from(hub: HubStandIn) -> None:
    hub.add("a/one", model_files(), **mlx_about())
    hub.add("a/two", model_files(), **mlx_about())
    for name in ("a/one", "a/two"):
        fetch.fetch(folder_plan(name), lambda *_: None)
    size = delete(found()["a/one"])
    assert size > 100_000
    assert set(found()) == {"a/two"}
    assert not fetch.repo_dir("a/one").exists()


def test_one_gguf_of_several_goes_alone(hub: HubStandIn) -> None:
    base = fetch.repo_dir("a/m")
    for name in ("x", "y"):
        blob = write_gguf(base / "blobs" / name)
        link = base / "snapshots" / "c" / f"{name}.gguf"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    assert delete(found()["m · x.gguf"]) > 1000
    assert sorted(p.name for p in base.rglob("*") if not p.is_dir()) == ["y", "y.gguf"]
    delete(found()["m · y.gguf"])
    assert not base.exists()


def test_our_own_can_be_deleted_and_nothing_beside(tmp_path: Path) -> None:
    mine = folder(paths.models_dir() / "mine")
    (one,) = found().values()
    strange = OnDisk(str(tmp_path), "x", tmp_path, 0, "imported", "folder", ours=True)
    with pytest.raises(Problem, match="not one of Outrider's own"):
        delete(strange)
    assert delete(one) > 100_000
    assert not mine.exists()


def test_a_folder_that_is_cut_off_is_explained() -> None:
    broken = folder(paths.models_dir() / "mine")
    (broken / "model.safetensors").write_bytes(b"short")
    (one,) = found().values()
    assert "safetensors" in one.why_not


def test_the_head_of_a_gguf_file(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "x.gguf", more=text("list") + struct.pack("<IIQ", 9, 8, 1 << 40), count=9)
    assert read_head(file) == {"general.architecture": "llama", "general.name": "Tiny", "general.file_type": 15}
    for name, data in {
        "none": b"",
        "other": b"PK\x03\x04" * 10,
        "short": b"GGUF\x03\x00",
        "old": b"GGUF" + struct.pack("<IQQ", 1, 1, 1),
        "long": b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + struct.pack("<Q", 1 << 60),
        "odd": b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("a") + struct.pack("<I", 77),
    }.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(Problem):
            read_head(tmp_path / name)
    with pytest.raises(Problem, match="cannot be read"):
        read_head(tmp_path / "nowhere")


def test_the_command_lists_and_deletes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gguf(tmp_path / ".lmstudio" / "models" / "o" / "m" / "good.gguf")
    mine = folder(paths.models_dir() / "mine")
    assert main(["models", "list"]) == 0
    said = capsys.readouterr().out
    assert "LM Studio" in said
    assert "Imported at its first use" in said
    assert main(["models", "list", "--json"]) == 0
    assert "lmstudio" in {row["kind"] for row in json.loads(capsys.readouterr().out)}
    monkeypatch.setattr("sys.stdin.readline", lambda: "no\n", raising=False)
    assert main(["models", "delete", str(mine)]) == 1
    assert mine.exists()
    assert main(["models", "delete", str(mine), "--yes"]) == 0
    assert not mine.exists()
    assert main(["models", "delete", "nothing"]) == 1
    assert "no model" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- advice


def test_what_suits_a_machine() -> None:
    gb = 10**9
    assert [one.target.repo for one in recommended(1)] == [ALL[0].target.repo]
    assert recommended(6 * gb)[0].target.repo.endswith("Qwen3-4B-4bit")
    large = recommended(48 * gb)[0]
    assert large.draft is not None
    fit = large.fit(48 * gb)
    assert fit.need is not None
    assert fit.need.draft_kv > 0
    assert fit.need.draft_weights > 0
    assert recommended(96 * gb)[0].target.repo.startswith("mlx-community/Llama-3.3-70B")


def test_drafters_are_explained_in_words() -> None:
    known = explain("mlx-community/Qwen3-32B-4bit")
    assert [d.id for d in known.models] == ["mlx-community/Qwen3-0.6B-4bit"]
    assert any(line.startswith("An EAGLE-3 head: ") for line in known.lines)
    small = explain("mlx-community/Qwen3-0.6B-4bit")
    assert not small.models
    assert any("No small model drafts for it" in line for line in small.lines)
    assert "No published drafter is known" in explain("some/thing").lines[0]
    shaped = explain(
        "some/thing", {"model_type": "qwen3", "hidden_size": 5120, "num_hidden_layers": 64, "vocab_size": 151936}
    )
    assert shaped.lines[0] == "By its shape it may be Qwen3 32B."


def test_what_mlx_can_run_is_told_by_its_files() -> None:
    assert {"llama", "qwen3", "mistral", "gpt_oss"} <= architectures()
    assert why_not({"model_type": "llama"}) == ""
    assert "no language model" in why_not({})
    assert "head that drafts" in why_not({"model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"]})
    assert "does not read" in why_not({"model_type": "llama", "quantization_config": {"quant_method": "hqq"}})
    assert why_not({"model_type": "llama", "quantization_config": {"quant_method": "awq"}}) == ""
