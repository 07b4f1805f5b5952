"""Searching a hub that answers well, badly or not at all."""

from __future__ import annotations

import pytest

from mlx_spec.__main__ import main
from mlx_spec.events import Problem
from models import hub as asking
from models.hub_token import Token, token
from models.search import gguf_label, quantization_of, read_entry, search
from tests.models.hub_stand_in import HubStandIn, mlx_about, model_files


def test_a_search_says_what_a_person_wants_to_know(hub: HubStandIn) -> None:
    hub.add("mlx-community/Qwen3-4B-4bit", model_files(), **mlx_about(500_000_000))
    hub.add("someone/else", model_files(), **mlx_about())
    (found,) = search("qwen3 4b")
    assert found.repo == "mlx-community/Qwen3-4B-4bit"
    assert found.form == "mlx"
    assert found.bytes == 4 * 500_000_000 + 20
    assert (found.licence, found.quantization) == ("apache-2.0", "4-bit")
    assert (found.downloads, found.likes, found.updated) == (1234, 5, "2026-05-04")
    assert not found.why_not
    _, query, headers = hub.asked[-1]
    assert query["filter"] == ["mlx"]
    assert query["sort"] == ["downloads"]
    assert "Authorization" not in headers


def test_what_cannot_be_used_is_explained(hub: HubStandIn) -> None:
    kinds = {
        "a/heads": (
            {"tags": ["safetensors"], "config": {"architectures": ["LlamaForCausalLMEagle3"]}},
            "a head that drafts",
        ),
        "a/speech": ({"tags": ["mlx", "safetensors", "automatic-speech-recognition"]}, "It writes no text."),
        "a/adapter": ({"tags": ["safetensors", "peft"]}, "adapter"),
        "a/new": ({"tags": ["mlx", "safetensors"], "config": {"model_type": "neverheard"}}, '"neverheard"'),
        "a/phi-GGUF": ({"tags": ["gguf"], "gguf": {"architecture": "phi3"}}, '"phi3" cannot be imported'),
        "a/torch": ({"tags": ["pytorch"]}, "neither weights"),
    }
    for repo, (about, _) in kinds.items():
        hub.add(repo, {}, **about)
    found = {one.repo: one.why_not for one in search("", "all")}
    for repo, (_, why) in kinds.items():
        assert why in found[repo], repo


def test_entries_that_are_none_are_left_out(hub: HubStandIn) -> None:
    hub.answers["/api/models"] = b'[17, {"id": "../../etc"}, {"id": "a/b", "tags": 5}, {"id": "a/good"}, {}]'
    assert [one.repo for one in search("x")] == ["a/good"]
    assert read_entry({"id": "a/b", "downloads": "many"}) is None
    assert read_entry({"id": "a/b", "safetensors": {"parameters": {"BF16": None}}, "tags": ["safetensors"]}) is None


@pytest.mark.parametrize("body", [b"<html>Log in to the hotel</html>", b'{"a": 1}', b"[1, 2]", b"\xff\xfe", b""])
def test_a_hub_that_answers_garbage(hub: HubStandIn, body: bytes) -> None:
    hub.answers["/api/models"] = body
    with pytest.raises(Problem, match="something that is not a list of models") as e:
        search("x")
    assert "HF_ENDPOINT" in e.value.remedy


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (401, "sign in"),
        (403, "does not open"),
        (404, "has no"),
        (429, "too often"),
        (500, "trouble of its own"),
        (503, "trouble of its own"),
        (418, "refused"),
    ],
)
def test_each_refusal_is_one_sentence(hub: HubStandIn, code: int, said: str) -> None:
    hub.statuses["/api/models"] = code
    with pytest.raises(Problem, match=said) as e:
        search("x")
    assert f"({code})" in e.value.message
    assert e.value.message.count(". ") == 0
    assert e.value.remedy
    if code == 429:
        assert "in 7 seconds" in e.value.remedy
    assert len(hub.asked) == 1  # a person is not kept waiting by repetitions


def test_no_line_and_offline(hub: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(Problem, match=r"no connection to 127\.0\.0\.1:9"):
        search("x")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Problem, match="HF_HUB_OFFLINE is set"):
        search("x")
    assert not hub.asked


def test_a_hub_that_does_not_answer(hub: HubStandIn) -> None:
    class ReadTimeout(Exception): ...

    class ProxyError(Exception): ...

    assert "does not answer" in asking.no_connection(ReadTimeout()).message
    assert "proxy" in asking.no_connection(ProxyError()).message.lower()


def test_a_token_goes_along_and_is_told_of(hub: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    assert token().value is None
    assert "set HF_TOKEN" in token().origin or "public models only" in token().origin
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
    assert token() == Token("hf_secretsecret", "The token is that of HF_TOKEN in the environment.")
    assert "secret" not in repr(token())
    search("x")
    assert hub.asked[-1][2]["authorization"] == "Bearer hf_secretsecret"
    hub.statuses["/api"] = 401
    with pytest.raises(Problem, match="does not take the token"):
        search("x")


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Qwen3-8B-Q4_K_M.gguf", "Q4_K_M"),
        ("model.Q8_0.gguf", "Q8_0"),
        ("foo-f16.gguf", "F16"),
        ("x-IQ4_XS.gguf", "IQ4_XS"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("plain.gguf", ""),
    ],
)
def test_kinds_of_gguf_by_name(name: str, label: str) -> None:
    assert gguf_label(name) == label


def test_quantization_by_config_then_by_name() -> None:
    assert quantization_of("a/b-8bit", "mlx", {"quantization": {"bits": 3}}) == "3-bit"
    assert (
        quantization_of("a/b", "weights", {"quantization_config": {"quant_method": "gptq", "bits": 4}}) == "4-bit gptq"
    )
    assert quantization_of("a/b-8bit", "mlx", {}) == "8-bit"
    assert quantization_of("a/gpt-oss-20b-mxfp4", "mlx", {}) == "mxfp4"
    assert quantization_of("a/b-bf16", "mlx", {}) == "bf16"
    assert quantization_of("a/b", "weights", {}) == "16-bit"


def test_the_command(hub: HubStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    hub.add("mlx-community/Tiny-4bit", model_files(), **mlx_about(1_000_000))
    hub.add("mlx-community/Tiny-huge", model_files(), **mlx_about(10**12, gated="auto"))
    assert main(["models", "search", "tiny"]) == 0
    small, huge, *_ = capsys.readouterr().out.splitlines()
    assert "4 MB  fits" in small
    assert "4-bit, apache-2.0, 1,234 downloads" in small
    assert "too large" in huge
    assert "must be accepted" in huge
    assert main(["models", "search", "nothing", "here"]) == 0
    assert 'nothing for "nothing here"' in capsys.readouterr().out
    hub.statuses["/api"] = 429
    assert main(["models", "search", "tiny"]) == 1
    assert "asked too often" in capsys.readouterr().err


def test_the_command_without_words_recommends_and_asks_nobody(
    hub: HubStandIn, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.recommended.available", lambda: 12 * 10**9)
    assert main(["models", "search"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[1].startswith("mlx-community/Qwen3-8B-4bit")
    assert not hub.asked
