from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlx_spec import engine
from mlx_spec.events import Problem
from models import check_folder, check_pair, locate, memory
from tests.mlx_spec.tiny import tiny_llama


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_llama(tmp_path / "tiny")


def test_a_good_folder_passes(folder: Path) -> None:
    check_folder(folder)
    assert locate(str(folder)) == folder


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("config.json", None, "no config.json"),
        ("config.json", "{", "cannot be read as JSON"),
        ("config.json", "{}", "model_type"),
        ("model.safetensors", None, "no weights"),
        ("model.safetensors", "cut", "cut off"),
        ("tokenizer.json", None, "no tokenizer"),
        ("model.safetensors.index.json", '{"weight_map": {"a": "model-2.safetensors"}}', "lacks 1 of its 1 shards"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, name: str, content: str | None, says: str) -> None:
    path = folder / name
    if content is None:
        path.unlink()
    elif content == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        path.write_text(content)
    with pytest.raises(Problem, match=says) as e:
        check_folder(folder)
    assert str(folder) in e.value.message
    assert e.value.remedy


def test_equal_tokenizers_make_a_pair(folder: Path, tmp_path: Path) -> None:
    report = check_pair(folder, tiny_llama(tmp_path / "draft", layers=1))
    assert report.ok
    assert not report.reasons


def change(folder: Path, **tokens: int | None) -> None:
    data = json.loads((folder / "tokenizer.json").read_text())
    vocab = data["model"]["vocab"]
    for token, number in tokens.items():
        if number is None:
            del vocab[token]
        else:
            vocab[token] = number
    (folder / "tokenizer.json").write_text(json.dumps(data))


def test_differences_are_named(folder: Path, tmp_path: Path) -> None:
    draft = tiny_llama(tmp_path / "draft")
    change(draft, a=None, zebra=json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]["a"])
    report = check_pair(folder, draft)
    assert not report.ok
    assert "is a in the target and zebra in the draft" in report.reasons[0]
    other = tiny_llama(tmp_path / "other")
    change(other, extra=999)
    report = check_pair(folder, other)
    assert report.ok
    assert "token 999 is extra in the draft and missing in the target" in report.notes[0]


def test_memory_need_counts_weights_and_caches(folder: Path) -> None:
    stored = memory.need(folder, None, 100)
    assert stored.weights == sum(
        2 * 2 * n for n in [(320 * 64 + 64 + 2 * (2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 128))]
    )
    assert memory.need(folder, folder, 100).draft_weights == stored.weights
    # two layers, keys and values, two heads of 16, 100 tokens, two bytes
    assert stored.kv == 2 * 2 * 2 * 16 * 100 * 2
    assert memory.need(folder, None, 100, "float32").kv == 2 * stored.kv


def test_keys_and_values_in_few_bits_take_less_once_there_are_many(folder: Path) -> None:
    plain = memory.need(folder, None, 10_000)
    assert memory.need(folder, None, 10_000, None, 8).kv == plain.kv * (8 + 32 / 64) / 16
    assert memory.need(folder, None, 10_000, None, 4).kv == plain.kv * (4 + 32 / 64) / 16
    assert memory.need(folder, folder, 10_000, None, 4).draft_kv == plain.kv
    assert memory.need(folder, None, 5_000, None, 4).kv == memory.need(folder, None, 5_000).kv
    assert memory.KV_START == engine.KV_START


def test_few_bits_are_offered_where_they_would_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: memory.need(folder, None, 100_000, None, 4).total)
    memory.check(folder, None, 100_000, None, 4)
    with pytest.raises(Problem) as e:
        memory.check(folder, None, 100_000)
    assert "4 or 8 bits" in e.value.remedy


def test_no_room_is_a_sentence_with_figures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.check(folder, None, 100)
    monkeypatch.setattr(memory, "available", lambda: 1_000_000)
    with pytest.raises(Problem, match="not enough memory") as e:
        memory.check(folder, folder, 10_000)
    assert "context of 10,000 tokens" in e.value.message
    assert "smaller model" in e.value.remedy


def test_available_is_plausible() -> None:
    assert 100_000_000 < memory.available() < 1 << 50
