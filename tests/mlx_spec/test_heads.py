"""Which head belongs to which model: by its mark, by its sizes, and where it has no mark by what it guesses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache

from mlx_spec import heads
from mlx_spec.anatomy import Anatomy, dissect
from mlx_spec.drafters import eagle_files, medusa_files
from mlx_spec.drafters.medusa import MedusaHead, MedusaHeads
from mlx_spec.engine import load_engine
from mlx_spec.events import Problem
from mlx_spec.target import Target

from . import zoo
from .test_eagle import VOCABULARY, make_head
from .tiny import tiny_llama, tiny_model

LAYERS = 6


def model(seed: int = 1) -> Any:
    """A tiny model with a final norm of its own, as every trained one has."""
    made = tiny_model(seed, layers=LAYERS)
    made.model.norm.weight = 1 + mx.random.normal((64,), key=mx.random.key(seed))
    return made


def parts(model: nn.Module) -> Anatomy:
    anatomy = dissect(model)
    assert anatomy is not None
    return anatomy


def folder_of(model: Any, folder: Path) -> Path:
    """The model as an mlx-lm folder."""
    tiny_llama(folder, layers=LAYERS)
    tensors: Any = mx.load(str(folder / "model.safetensors"))
    tensors["model.norm.weight"] = model.model.norm.weight
    mx.save_safetensors(str(folder / "model.safetensors"), tensors, {"format": "mlx"})
    return folder


def eagle_head(folder: Path, marked: Sequence[Any] | None = None) -> Path:
    head = make_head(folder)
    about = {} if marked is None else {"outrider": {"mark": list(marked)}}
    ids = np.sort(np.random.default_rng(3).permutation(VOCABULARY)[:200])
    eagle_files.write(folder, head, ids, VOCABULARY, about)
    return folder


def medusa_heads(folder: Path, marked: Sequence[float] | None = None) -> Path:
    made = MedusaHeads([MedusaHead(64, 1, turn=True) for _ in range(2)])
    about = {} if marked is None else {"outrider": {"mark": list(marked)}}
    medusa_files.write(folder, made, None, VOCABULARY, about)
    return folder


# ------------------------------------------------------------------------------------------------------------- the mark


def test_a_mark_tells_models_apart_and_outlives_quantization() -> None:
    ours = heads.mark(parts(model(1)))
    assert len(ours) == heads.MARK
    assert ours != heads.mark(parts(model(2)))
    few_bits = model(1)
    nn.quantize(few_bits, group_size=64, bits=4)
    assert heads.mark(parts(few_bits)) == ours


def test_a_model_without_the_usual_norm_has_none() -> None:
    anatomy = parts(zoo.build("phi"))  # its norm is named otherwise
    assert heads.mark(anatomy) == []


def test_whom_a_head_was_made_for(tmp_path: Path) -> None:
    ours, theirs = parts(model(1)), parts(model(2))
    head = eagle_head(tmp_path / "ours", heads.mark(ours))
    assert heads.made_for(head, ours) is True
    assert heads.made_for(head, theirs) is False
    # Weights stored in 16 bits are a little off, another model's are not a little.
    stored = model(1)
    stored.model.norm.weight = stored.model.norm.weight.astype(mx.bfloat16)
    assert heads.made_for(head, parts(stored)) is True
    assert heads.made_for(eagle_head(tmp_path / "short", heads.mark(ours)[:4]), ours) is False
    assert heads.made_for(eagle_head(tmp_path / "unmarked"), ours) is None
    assert heads.made_for(tmp_path / "nothing", ours) is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"outrider": 3}',
        '{"outrider": {}}',
        '{"outrider": {"mark": 5}}',
        '{"outrider": {"mark": ["a"]}}',
    ],
)
def test_settings_that_say_nothing_are_no_mark(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    assert heads.made_for(tmp_path, parts(model(1))) is None


# ---------------------------------------------------------------------------------------------------- found, and loaded


def test_of_each_kind_the_first_that_was_made_for_it(tmp_path: Path) -> None:
    anatomy = parts(model(1))
    ours, theirs = heads.mark(anatomy), heads.mark(parts(model(2)))
    own, shipped = tmp_path / "own", tmp_path / "shipped"
    eagle_head(own / "a-foreign", theirs)
    eagle_head(own / "b-unmarked")
    (own / "c-empty").mkdir()
    eagle_head(own / "d", ours)
    eagle_head(own / "e", ours)
    eagle_head(shipped / "a", ours)
    medusa_heads(shipped / "m", ours)
    assert heads.find([own, shipped], anatomy) == {"eagle3": own / "d", "medusa": shipped / "m"}
    assert heads.find([shipped, own], anatomy)["eagle3"] == shipped / "a"
    assert heads.find([tmp_path / "nowhere"], anatomy) == {}
    assert (heads.kind(own / "b-unmarked"), heads.kind(shipped / "m")) == ("eagle3", "medusa")
    with pytest.raises(Problem, match=r"config\.json cannot be read"):
        heads.kind(own / "c-empty")


def test_a_head_of_another_model_is_refused_by_name(tmp_path: Path) -> None:
    target = Target(model(1))
    anatomy = parts(target.model)
    foreign = eagle_head(tmp_path / "foreign", heads.mark(parts(model(2))))
    with pytest.raises(Problem, match="was made for another model") as refused:
        heads.load(foreign, target, anatomy)
    assert str(foreign) in refused.value.message
    assert target.hidden is None  # nothing is kept for it
    drafter = heads.load(eagle_head(tmp_path / "ours", heads.mark(anatomy)), target, anatomy)
    assert drafter.name == "eagle3"
    assert target.hidden is not None
    target.hidden.remove()


def test_states_are_wanted_by_several(tmp_path: Path) -> None:
    target = Target(model(1))
    anatomy = parts(target.model)
    first = heads.want(target, anatomy, (0, 2))
    assert heads.want(target, anatomy, (2,)) is first
    both = heads.want(target, anatomy, (4,))
    assert both is target.hidden
    assert both.wanted == (0, 2, 4)
    list(target.prefill([3, 4, 5]))
    assert [s.shape for s in both.rows(0, 3, (4, 0))] == [(3, 64)] * 2
    both.remove()


# ----------------------------------------------------------------------------------------------------------- the engine


def test_asked_for_by_name_it_is_an_error_found_it_is_passed_over(tmp_path: Path) -> None:
    ours = model(1)
    folder = folder_of(ours, tmp_path / "target")
    foreign = eagle_head(tmp_path / "heads" / "foreign", heads.mark(parts(model(2))))
    with pytest.raises(Problem, match="was made for another model"):
        load_engine(folder, head=foreign)
    engine = load_engine(folder, heads=[tmp_path / "heads"])
    assert "eagle3" not in engine.drafters
    assert engine.notices() == []
    eagle_head(tmp_path / "heads" / "ours", heads.mark(parts(ours)))
    engine = load_engine(folder, heads=[tmp_path / "heads"])
    assert "eagle3" in engine.drafters
    assert engine.notices() == []


def test_a_head_that_is_damaged_is_told_of_and_left_out(tmp_path: Path) -> None:
    ours = model(1)
    folder = folder_of(ours, tmp_path / "target")
    head = eagle_head(tmp_path / "heads" / "ours", heads.mark(parts(ours)))
    whole = (head / "model.safetensors").read_bytes()
    (head / "model.safetensors").write_bytes(whole[:-100])
    engine = load_engine(folder, heads=[tmp_path / "heads"])
    assert "eagle3" not in engine.drafters
    (told,) = engine.notices()
    assert str(head) in told
    assert "Drafting goes on without it." in told
    with pytest.raises(Problem, match="cannot be read"):
        load_engine(folder, head=head)
    # Where there is a sound one it drafts, and nothing need be said.
    eagle_head(tmp_path / "heads" / "sound", heads.mark(parts(ours)))
    engine = load_engine(folder, heads=[tmp_path / "heads"])
    assert "eagle3" in engine.drafters
    assert engine.notices() == []


def test_a_head_from_elsewhere_that_guesses_nothing_is_doubted(tmp_path: Path) -> None:
    folder = folder_of(model(1), tmp_path / "target")
    stranger = eagle_head(tmp_path / "stranger")
    engine = load_engine(folder, head=stranger)
    assert "eagle3" in engine.drafters  # it was asked for; it may draft all the same
    (told,) = engine.notices()
    assert told.startswith(f"Of the first guesses of the drafter in {stranger} only ")
    assert "was made for another model" in told
    # One of ours is not asked again.
    marked = eagle_head(tmp_path / "marked", heads.mark(parts(engine.target.model)))
    assert load_engine(folder, head=marked).notices() == []


def test_a_head_from_elsewhere_that_guesses_well_is_not_doubted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "agreement", lambda *told: 0.4)
    engine = load_engine(folder_of(model(1), tmp_path / "target"), head=eagle_head(tmp_path / "stranger"))
    assert engine.notices() == []


# ------------------------------------------------------------------------------------------------------------ agreement


class Oracle:
    """Guesses what the target writes at some places, and something else at the others."""

    name, stops, cost_hint, taps = "oracle", True, 0.1, (LAYERS,)

    def __init__(self, model: nn.Module, every: int) -> None:
        self.model, self.every = model, every
        self.right = self.places = 0

    def guesses(self, ids: Sequence[int], states: Sequence[mx.array]) -> mx.array:
        assert [s.shape for s in states] == [(len(ids), 64)]
        said = mx.argmax(self.model(mx.array([list(ids)]), cache=make_prompt_cache(self.model))[0, 1:], axis=-1)
        right = mx.arange(len(ids) - 1) % self.every == 0
        self.right += int(mx.sum(right).item())
        self.places += len(ids) - 1
        return mx.where(right, said, (said + 1) % VOCABULARY)


@pytest.mark.parametrize("every", [1, 3])
def test_agreement_is_the_share_of_right_guesses(tmp_path: Path, every: int) -> None:
    engine = load_engine(folder_of(model(1), tmp_path / "target"))
    before = [type(layer) for layer in engine.target.model.layers]
    oracle: Any = Oracle(engine.target.model, every)
    share = heads.agreement(oracle, engine.target, engine.tokenizer, engine.anatomy)
    assert share == pytest.approx(oracle.right / oracle.places)
    assert oracle.places > 15 * len(heads.TEXTS)
    assert [type(layer) for layer in engine.target.model.layers] == before
    assert engine.target.tokens == []  # the conversation knows nothing of it
    suffix = engine.drafters["suffix"]
    assert heads.agreement(suffix, engine.target, engine.tokenizer, engine.anatomy) is None
    assert heads.agreement(oracle, engine.target, engine.tokenizer, None) is None
