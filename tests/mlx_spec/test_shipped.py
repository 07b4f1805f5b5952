"""The head that comes along for the starter: found without being named, really its own, and worth its rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from mlx_spec import heads
from mlx_spec.drafters.feature import spread
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import DrafterSettings, Message, Problem, Round, SamplingSettings
from models import paths

pytestmark = pytest.mark.starter

Change = Callable[[dict[str, Any]], dict[str, Any]]
SHIPPED = paths.heads()[-1]
MOST_BYTES = 20e6
QUESTIONS = (
    "What is the difference between a lake and a pond?",
    "Write a short story about a lighthouse keeper.",
    "How do I learn to play the guitar?",
    "Explain how a bicycle stays upright.",
)


@pytest.fixture(scope="module")
def engine(starter_model: Path) -> Iterator[Engine]:
    made = load_engine(starter_model, heads=[SHIPPED])
    yield made
    made.reset()
    mx.clear_cache()


def test_it_is_small_and_found(engine: Engine) -> None:
    assert "eagle3" in engine.drafters
    assert engine.notices() == []
    assert engine.anatomy is not None
    folder = heads.find([SHIPPED], engine.anatomy)["eagle3"]
    assert sum(f.stat().st_size for f in folder.iterdir()) < MOST_BYTES
    share = heads.agreement(engine.drafters["eagle3"], engine.target, engine.tokenizer, engine.anatomy)
    assert share is not None
    assert share > 1.2 * heads.LEAST_AGREEMENT


def test_it_saves_passes_and_leaves_the_text(engine: Engine) -> None:
    tokens = passes = 0
    for question in QUESTIONS:
        written = {}
        for names in ((), ("eagle3",)):
            engine.reset()
            settings = DrafterSettings(names, adaptive=False, max_draft=3)
            rounds = [
                e
                for e in engine.generate([Message("user", question)], SamplingSettings(max_tokens=40), settings)
                if isinstance(e, Round)
            ]
            written[names] = [t for r in rounds for t in r.tokens]
        assert written[()] == written["eagle3",]
        tokens += len(written["eagle3",])
        passes += len(rounds)
    assert tokens / passes > 1.5


def changed(folder: Path, place: Path, config: Change = dict, tensors: Change = dict) -> Path:
    """A copy of a head with other settings or tensors."""
    place.mkdir()
    settings = config(json.loads((folder / "config.json").read_text("utf-8")))
    settings["outrider"].pop("mark")  # as a head from elsewhere: nobody vouches for it
    (place / "config.json").write_text(json.dumps(settings), "utf-8")
    loaded: Any = mx.load(str(folder / "model.safetensors"))
    mx.save_safetensors(str(place / "model.safetensors"), tensors(loaded), {"format": "mlx"})
    return place


def other_layers(settings: dict[str, Any]) -> dict[str, Any]:
    """The same numbers, counted as speculators does: each layer one too early."""
    listed = settings.pop("eagle_config")["eagle_aux_hidden_state_layer_ids"]
    return {**settings, "eagle_aux_hidden_state_layer_ids": listed}


def hidden_first(tensors: dict[str, Any]) -> dict[str, Any]:
    """[hidden; embedding] where the network reads [embedding; hidden]."""

    def swapped(x: mx.array) -> mx.array:
        half = x.shape[-1] // 2
        return mx.concatenate([x[:, half:], x[:, :half]], axis=-1)

    reading = ("q_proj", "k_proj", "v_proj")
    return {n: swapped(v) if any(r in n for r in reading) else v for n, v in tensors.items()}


def absolute(tensors: dict[str, Any]) -> dict[str, Any]:
    """The target's ids themselves, where d2t has each less its place."""
    return {**tensors, "d2t": tensors["d2t"] + mx.arange(tensors["d2t"].shape[0])}


def test_what_is_read_wrongly_agrees_less(engine: Engine, tmp_path: Path) -> None:
    """None of these mistakes fails; they cost acceptance, and the check of a head from elsewhere sees it. States of one
    layer before are so like the right ones, in a model of thirty, that the first guesses hardly tell."""
    assert engine.anatomy is not None
    folder = heads.find([SHIPPED], engine.anatomy)["eagle3"]

    def share(place: Path, offsets_are_ids: bool = False) -> float:
        drafter: Any = heads.load(place, engine.target, engine.anatomy)
        if offsets_are_ids:
            offsets: Any = mx.load(str(folder / "model.safetensors"))
            drafter.head._spread = spread(offsets["d2t"], engine.target.vocabulary)
        found = heads.agreement(drafter, engine.target, engine.tokenizer, engine.anatomy)
        assert found is not None
        return found

    right = share(changed(folder, tmp_path / "right"))
    wrong = {
        "layers": share(changed(folder, tmp_path / "layers", config=other_layers)),
        "order": share(changed(folder, tmp_path / "order", tensors=hidden_first)),
        "offsets": share(folder, offsets_are_ids=True),
    }
    assert wrong["layers"] < right + 0.02, (right, wrong)
    assert wrong["order"] < 0.5 * right
    assert wrong["offsets"] < 0.5 * right
    with pytest.raises(Problem, match="d2t"):  # a file that has ids there is not read at all
        share(changed(folder, tmp_path / "ids", tensors=absolute))


def test_a_head_that_is_read_wrongly_is_told_of(starter_model: Path, engine: Engine, tmp_path: Path) -> None:
    assert engine.anatomy is not None
    folder = heads.find([SHIPPED], engine.anatomy)["eagle3"]
    fine = load_engine(starter_model, head=changed(folder, tmp_path / "fine"))
    assert fine.notices() == []
    wrong = load_engine(starter_model, head=changed(folder, tmp_path / "wrong", tensors=hidden_first))
    assert any("of the first guesses" in n.lower() for n in wrong.notices())
