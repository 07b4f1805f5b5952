"""What a repository holds, whether it fits, and fetching it from a hub that cuts, lies and refuses."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlx_spec.__main__ import main
from mlx_spec.events import Problem
from models import fetch, locate
from models.download import stream
from models.folder import check_folder
from models.local import hub_models
from models.repo import Plan, best_variant, details, file_plan, fit, folder_plan, in_memory, read_files
from tests.models.hub_stand_in import COMMIT, HubStandIn, mlx_about, model_files

REPO = "mlx-community/Tiny-4bit"


def quiet(*_: Any) -> None: ...


@pytest.fixture
def tiny(hub: HubStandIn) -> HubStandIn:
    hub.add(REPO, model_files(), **mlx_about())
    return hub


def left_over(hub_home: Path) -> list[str]:
    return sorted(p.name for p in hub_home.rglob("*") if p.name.endswith((".outrider", ".lock")))


# --------------------------------------------------------------------------------------------- what it holds


def test_the_plan_has_what_mlx_reads_and_nothing_that_runs(tiny: HubStandIn) -> None:
    plan = folder_plan(REPO)
    assert {f.path for f in plan.files} == {"config.json", "model.safetensors", "tokenizer.json"}
    assert plan.commit == COMMIT
    assert plan.source == REPO
    known = details(REPO)
    assert known.config["num_hidden_layers"] == 2
    assert best_variant(known, 10**12) == known.variants[0]


def test_files_without_a_hash_or_outside_the_folder_are_left_out() -> None:
    good = {"rfilename": "config.json", "size": 5, "blobId": "a" * 40}
    bad: list[Any] = [
        {**good, "rfilename": "../../.ssh/config"},
        {**good, "rfilename": "/etc/passwd"},
        {**good, "blobId": "../x"},
        {**good, "lfs": {"sha256": "short"}},
        {**good, "size": None},
        {**good, "size": -1},
        {"rfilename": "x"},
        7,
    ]
    assert [f.path for f in read_files({"siblings": [*bad, good]})] == ["config.json"]


def test_what_cannot_be_used_is_a_problem_before_anything_is_fetched(hub: HubStandIn) -> None:
    files = model_files()
    hub.add("a/empty", {"README.md": b"x"}, tags=["safetensors"])
    hub.add("a/untokenized", {k: v for k, v in files.items() if "token" not in k}, **mlx_about())
    hub.add("a/new", model_files(model_type="neverheard"), **mlx_about())
    hub.add("a/packed", model_files(quantization_config={"quant_method": "exl3"}), **mlx_about())
    broken = json.loads(files["config.json"])
    del broken["quantization"]
    hub.models["a/packed"]["config.json"] = json.dumps(
        {**broken, "quantization_config": {"quant_method": "exl3"}}
    ).encode()
    for repo, why in (
        ("a/empty", "neither weights"),
        ("a/untokenized", "no tokenizer"),
        ("a/new", '"neverheard"'),
        ("a/packed", '"exl3"'),
    ):
        with pytest.raises(Problem, match=why):
            folder_plan(repo)
    assert not any("safetensors" in path for path in hub.paths())


@pytest.mark.parametrize(
    ("key", "body"),
    [
        ("/api/models/" + REPO, b"[]"),
        ("/api/models/" + REPO, b'{"id": "a/b"}'),
        (f"/{REPO}/resolve/{COMMIT}/config.json", b"[1]"),
    ],
)
def test_garbage_about_a_repository(tiny: HubStandIn, key: str, body: bytes) -> None:
    tiny.answers[key] = body
    with pytest.raises(Problem, match="something that is not"):
        details(REPO)


def test_gguf_files_are_told_apart(hub: HubStandIn) -> None:
    names = ("m-Q4_0.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-f16-00001-of-00002.gguf", "mmproj-f16.gguf")
    sizes = dict(zip(names, (560, 600, 1060, 2000, 100), strict=True))
    hub.add(
        "a/m-GGUF",
        {n: bytes(s) for n, s in sizes.items()},
        tags=["gguf"],
        gguf={"architecture": "qwen3", "total": 1000},
    )
    known = details("a/m-GGUF")
    by_name = {v.plan.file: v for v in known.variants}
    assert "several parts" in by_name["m-f16-00001-of-00002.gguf"].why_not
    assert "no model by itself" in by_name["mmproj-f16.gguf"].why_not
    assert by_name["m-Q4_K_M.gguf"].weights == 2000
    assert "unpacked to 16 bits" in by_name["m-Q4_K_M.gguf"].note
    assert by_name["m-Q8_0.gguf"].weights < 1200
    room = 10**9
    best = best_variant(known, room)
    assert best is not None
    assert best.plan.file == "m-Q8_0.gguf"
    assert file_plan("a/m-GGUF", "m-Q4_0.gguf").source == "a/m-GGUF/m-Q4_0.gguf"
    with pytest.raises(Problem, match="name one of them") as e:
        folder_plan("a/m-GGUF")
    assert "a/m-GGUF/m-Q4_0.gguf" in e.value.remedy
    with pytest.raises(Problem, match="has no file"):
        file_plan("a/m-GGUF", "other.gguf")


def test_memory_of_gguf_kinds() -> None:
    assert in_memory(180, "Q4_0")[0] == 200
    assert in_memory(100, "F16") == (100, "")
    assert in_memory(100, "Q5_K_M")[0] > 250
    assert in_memory(100, "GGUF", 1000)[0] == 2000


# ------------------------------------------------------------------------------------------------------ fit

CONFIG = {
    "num_hidden_layers": 10, "num_key_value_heads": 2, "head_dim": 50, "max_position_embeddings": 100_000,
    "intermediate_size": 10, "vocab_size": 10,
}  # fmt: skip  # caches: 4,000 bytes a token


def test_target_draft_and_both_caches_are_counted() -> None:
    alone = fit(CONFIG, 10**9, context=10_000, free=2 * 10**9)
    assert alone.need is not None
    assert alone.need.kv == 40_000_000
    assert alone.verdict == "fits"
    pair = fit(CONFIG, 10**9, 5 * 10**8, CONFIG, 10_000, 2 * 10**9)
    assert pair.need is not None
    assert pair.need.total == alone.need.total + 5 * 10**8 + 40_000_000
    assert "0.5 GB draft model" in pair.words
    assert fit(CONFIG, 10**9, context=10_000, free=11 * 10**8).verdict == "tight"


def test_a_shorter_context_is_named_where_that_would_do() -> None:
    verdict = fit(CONFIG, 10**9, context=100_000, free=12 * 10**8)
    assert verdict.verdict == "too large"
    assert 48_000 < verdict.longest < 50_000
    assert f"at most {verdict.longest:,} tokens" in verdict.words
    hopeless = fit(CONFIG, 10**9, free=10**6)
    assert hopeless.longest == 0
    assert "It would" not in hopeless.words


def test_what_is_not_known_is_not_claimed() -> None:
    assert fit({}, None, free=1).verdict == "unknown"
    assert fit({**CONFIG, "num_hidden_layers": "many"}, 10, free=10**9).verdict == "unknown"
    assert fit({}, 10**9, free=10**10).verdict == "fits"
    assert fit({"max_position_embeddings": 512}, 10, free=10**9).context == 512


# -------------------------------------------------------------------------------------------------- fetching


def test_a_model_lands_in_the_hubs_cache_and_loads_from_there(tiny: HubStandIn, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    folder = fetch.fetch(folder_plan(REPO), lambda stage, _what, done, total: seen.append((stage, done, total)))
    check_folder(folder)
    assert folder == tmp_path / "hub" / "models--mlx-community--Tiny-4bit" / "snapshots" / COMMIT
    assert [m.name for m in hub_models()] == [REPO]
    assert fetch.cached(REPO) == folder
    total = sum(len(d) for n, d in tiny.models[REPO].items() if n.endswith(("json", "safetensors")))
    assert seen[-1][2] == total
    assert max(done for _, done, _ in seen) == total
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert {stage for stage, *_ in seen} == {"download", "check"}
    before = len(tiny.asked)
    assert locate(REPO) == folder  # without asking anybody
    assert len(tiny.asked) == before
    assert left_over(tmp_path / "hub") == []


def test_the_hubs_own_client_finds_it(tiny: HubStandIn, tmp_path: Path) -> None:
    import huggingface_hub

    folder = fetch.fetch(folder_plan(REPO), quiet)
    found = huggingface_hub.snapshot_download(REPO, cache_dir=tmp_path / "hub", local_files_only=True)
    assert Path(found) == folder


def test_a_cut_line_is_taken_up_and_what_came_is_kept(tiny: HubStandIn, tmp_path: Path) -> None:
    tiny.cuts = [30_000, 20_000]
    check_folder(fetch.fetch(folder_plan(REPO), quiet))
    tiny.add("a/other", model_files(bytes(90_001)), **mlx_about())
    tiny.cuts = [10_000] * 6
    plan = folder_plan("a/other")
    with pytest.raises(Problem, match="again and again"):
        fetch.fetch(plan, quiet)
    assert fetch.here(plan) > 60_000
    assert fetch.cached("a/other") is None
    tiny.cuts = []
    asked = len(tiny.asked)
    check_folder(fetch.fetch(plan, quiet))
    (resumed,) = [h for path, _, h in tiny.asked[asked:] if path.endswith("safetensors")]
    assert resumed["Range"] == "bytes=60000-"


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_wrong_hash_is_refused_and_the_next_try_is_a_new_one(tiny: HubStandIn, tmp_path: Path, name: str) -> None:
    plan = folder_plan(REPO)
    tiny.lies = {name}
    with pytest.raises(Problem, match=f"{name} of {REPO} came damaged"):
        fetch.fetch(plan, quiet)
    assert left_over(tmp_path / "hub") == []
    assert fetch.cached(REPO) is None
    tiny.lies = set()
    check_folder(fetch.fetch(plan, quiet))


@pytest.mark.parametrize(
    ("code", "said"), [(401, "sign in"), (403, "accept the licence"), (404, "has no"), (429, "too often")]
)
def test_a_refusal_of_a_file(tiny: HubStandIn, code: int, said: str) -> None:
    plan = folder_plan(REPO)
    tiny.statuses["model.safetensors"] = code
    with pytest.raises(Problem, match=said) as e:
        fetch.fetch(plan, quiet)
    assert f"({code})" in e.value.message
    tiny.statuses.clear()
    check_folder(fetch.fetch(plan, quiet))


def test_a_full_disk_is_said_before_and_while(tiny: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = folder_plan(REPO)
    usage = shutil._ntuple_diskusage(10**12, 10**12, 1000)  # type: ignore[attr-defined]
    with monkeypatch.context() as m:
        m.setattr(shutil, "disk_usage", lambda _: usage)
        with pytest.raises(Problem, match="too full"):
            fetch.fetch(plan, quiet)
    assert not any("safetensors" in p for p in tiny.paths())

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(Problem, match="too full"):
        fetch.fetch(plan, lambda stage, *_: full() if stage == "check" else None)


def test_two_programs_do_not_write_the_same_file(tiny: HubStandIn) -> None:
    plan = folder_plan(REPO)
    big = next(f for f in plan.files if f.sha256)
    part = fetch.partial(plan, big)
    part.parent.mkdir(parents=True)
    with fetch.alone(part, REPO), pytest.raises(Problem, match="being downloaded already"):
        fetch.fetch(plan, quiet)
    check_folder(fetch.fetch(plan, quiet))


def test_the_token_stays_with_the_hub(tiny: HubStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
    elsewhere = HubStandIn()
    elsewhere.models = tiny.models
    tiny.moved_to = elsewhere.url
    try:
        check_folder(fetch.fetch(folder_plan(REPO), quiet))
    finally:
        elsewhere.close()
    assert any("Authorization" in h or "authorization" in h for _, _, h in tiny.asked)
    assert elsewhere.asked
    assert not any(k.lower() == "authorization" for _, _, h in elsewhere.asked for k in h)


def test_a_token_goes_on_where_a_repository_was_renamed(tiny: HubStandIn, tmp_path: Path) -> None:
    tiny.moved_to = tiny.url + "/new"
    with pytest.raises(Problem):  # the stand-in has nothing there; what counts is what it was asked
        stream(
            f"{tiny.url}/{REPO}/resolve/main/tokenizer.json", tmp_path / "x", "x", quiet, {"Authorization": "Bearer t"}
        )
    assert tiny.asked[-1][0].startswith("/new/")
    assert tiny.asked[-1][2]["Authorization"] == "Bearer t"


def test_what_was_given_up_leaves_nothing(tiny: HubStandIn, tmp_path: Path) -> None:
    plan = folder_plan(REPO)
    tiny.cuts = [10_000] * 6
    with pytest.raises(Problem):
        fetch.fetch(plan, quiet)
    fetch.forget(plan)
    assert not (tmp_path / "hub" / "models--mlx-community--Tiny-4bit").exists()
    done = fetch.fetch(plan, quiet)
    fetch.forget(plan)
    check_folder(done)  # what is whole stays


def test_an_empty_file_is_no_trouble(tiny: HubStandIn) -> None:
    tiny.models[REPO]["extra.json"] = b""
    assert (fetch.fetch(folder_plan(REPO), quiet) / "extra.json").read_bytes() == b""


def test_a_name_that_the_hub_does_not_have(hub: HubStandIn) -> None:
    with pytest.raises(Problem, match="has no some/thing"):
        locate("some/thing")
    with pytest.raises(Problem, match="has no some/thing"):
        locate("some/thing/x.gguf")


def test_the_command_shows_and_fetches(tiny: HubStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "show", REPO]) == 0
    said = capsys.readouterr().out
    assert "Fits here" in said
    assert "No published drafter is known" in said
    assert f"mlx-spec models get {REPO}" in said
    assert main(["models", "get", REPO]) == 0
    assert capsys.readouterr().out.strip().endswith(COMMIT)


def test_plans_are_plain(tiny: HubStandIn) -> None:
    plan = folder_plan(REPO)
    assert Plan(plan.repo, plan.commit, plan.files) == plan
    assert plan.bytes == sum(f.bytes for f in plan.files)


def test_a_proxy_and_a_mirror_are_honoured(tiny: HubStandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The hub's name cannot be looked up here: all goes through the proxy, or not at all."""
    from huggingface_hub import close_session

    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://hub.invalid")
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, tiny.url)
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    close_session()
    try:
        check_folder(fetch.fetch(folder_plan(REPO), quiet))
    finally:
        close_session()
    assert len(tiny.asked) > 3


def test_the_environment_names_the_hub(tiny: HubStandIn, tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    said = subprocess.run(
        [sys.executable, "-m", "mlx_spec", "models", "search", "tiny", "--json"],
        env={**os.environ, "HF_ENDPOINT": tiny.url, "HF_TOKEN": "hf_secretsecret", "HF_HUB_OFFLINE": "0"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said.stderr == ""
    assert [row["repo"] for row in json.loads(said.stdout)] == [REPO]
    assert tiny.asked[-1][2]["authorization"] == "Bearer hf_secretsecret"


def test_a_disk_that_knows_no_links(tiny: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    plan = folder_plan(REPO)
    check_folder(fetch.fetch(plan, quiet))
    asked = len(tiny.asked)
    fetch.fetch(plan, quiet)
    assert len(tiny.asked) == asked


@pytest.mark.parametrize("name", ["../../etc", "a", "a/b/c", "a b/c", "http://a/b"])
def test_what_is_no_hub_id_is_not_asked_for(hub: HubStandIn, name: str) -> None:
    with pytest.raises(Problem, match="no hub id"):
        details(name)
    assert not hub.asked


def test_gguf_files_of_the_hub_and_of_other_programs_are_imported_where_they_are(
    hub: HubStandIn, tmp_path: Path
) -> None:
    from models.on_disk import on_disk
    from tests.models.test_gguf_import import write_gguf

    write_gguf(tmp_path / "made.gguf", "qwen2")
    data = (tmp_path / "made.gguf").read_bytes()
    hub.add("a/m-GGUF", {"m-F32.gguf": data}, tags=["gguf"], gguf={"architecture": "qwen2", "total": 1000})
    check_folder(locate("a/m-GGUF/m-F32.gguf"))
    asked = len(hub.asked)
    check_folder(locate("a/m-GGUF/m-F32.gguf"))
    assert len(hub.asked) == asked
    blob = tmp_path / ".ollama" / "models" / "blobs" / ("sha256-" + "cd" * 32)
    manifest = tmp_path / ".ollama" / "models" / "manifests" / "registry.ollama.ai" / "library" / "tiny" / "latest"
    for file in (blob, manifest):
        file.parent.mkdir(parents=True)
    blob.write_bytes(data)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": blob.name.replace("-", ":", 1)}
    manifest.write_text(json.dumps({"layers": [layer]}))
    (theirs,) = [one for one in on_disk() if one.place == "ollama"]
    check_folder(locate(theirs.source))
    assert blob.read_bytes() == data
