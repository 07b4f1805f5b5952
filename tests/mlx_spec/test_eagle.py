"""EAGLE-3 heads: the text stays plain decoding's, rows belong to their places, the maths is the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache

from mlx_spec import heads, target
from mlx_spec.anatomy import Taps
from mlx_spec.drafters import eagle_files
from mlx_spec.drafters.eagle_head import EagleHead, Shape
from mlx_spec.drafters.feature import FeatureDrafter
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import DrafterSettings, Message, Round, SamplingSettings
from mlx_spec.hidden import Hidden

from .tiny import tiny_llama

PROMPT = [Message("user", "one two three four five")]
VOCABULARY = 320


def shape(**more: object) -> Shape:
    sizes = {
        "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate": 96, "vocabulary": 200,
        "target_hidden": 64, "taps": (0, 2, 4),
    }  # fmt: skip
    return Shape(**{**sizes, **more})  # type: ignore[arg-type]


def make_head(folder: Path, seed: int = 3, bits: int | None = None, **more: object) -> EagleHead:
    """Write a random head that says every token but some."""
    mx.random.seed(seed)
    head = EagleHead(shape(**more))
    ids = np.sort(np.random.default_rng(seed).permutation(VOCABULARY)[:200])
    eagle_files.write(folder, head, ids, VOCABULARY, {}, bits)
    return head


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    make_head(tmp_path / "head")
    yield load_engine(tiny_llama(tmp_path / "target", layers=6), head=tmp_path / "head")
    mx.clear_cache()


def write(engine: Engine, sampling: SamplingSettings, settings: DrafterSettings) -> list[Round]:
    return [e for e in engine.generate(PROMPT, sampling, settings) if isinstance(e, Round)]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("adaptive", [False, True])
def test_the_text_is_plain_decodings(engine: Engine, temperature: float, adaptive: bool) -> None:
    sampling = SamplingSettings(max_tokens=60, seed=4, temperature=temperature, repetition_penalty=1.1)
    plain = [t for r in write(engine, sampling, DrafterSettings(())) for t in r.tokens]
    engine.reset()
    rounds = write(engine, sampling, DrafterSettings(("eagle3",), adaptive=adaptive, max_draft=4))
    assert [t for r in rounds for t in r.tokens] == plain
    assert any(r.drafter == "eagle3" for r in rounds)


def test_rows_are_those_of_a_fresh_read(engine: Engine) -> None:
    """After accepted and rejected drafts the head's cache holds what reading the whole text at once gives."""
    sampling = SamplingSettings(max_tokens=40, seed=4)
    write(engine, sampling, DrafterSettings(("eagle3",), adaptive=False, max_draft=3))
    drafter = engine.drafters["eagle3"]
    assert isinstance(drafter, FeatureDrafter)
    places, known = drafter._places, drafter._known
    assert places == list(range(len(places)))
    assert len(places) > 40
    anatomy, head = engine.anatomy, drafter.head
    assert anatomy is not None
    hidden = engine.target.hidden
    assert hidden is not None
    states = hidden.rows(0, len(places), head.taps)
    fresh = [KVCache()]
    head(head.embed(mx.array([known[1 : len(places) + 1]])), head.fuse([s[None] for s in states]), fresh)
    n = len(places)
    np.testing.assert_allclose(
        np.array(drafter._caches[0].keys[..., :n, :]), np.array(fresh[0].keys[..., :n, :]), atol=1e-4
    )
    # And the states are those of a fresh pass of the target.
    taps = Taps(anatomy, head.taps)
    engine.target.model(mx.array([known[:n]]))
    for ours, theirs in zip(states, taps.take(), strict=True):
        np.testing.assert_allclose(np.array(ours), np.array(theirs[0]), atol=2e-3, rtol=1e-3)


def test_a_conversation_goes_on(engine: Engine) -> None:
    """A second turn, and an edited first one: the rows that the texts share are kept, the others go."""
    sampling = SamplingSettings(max_tokens=20, seed=4)
    eagle = DrafterSettings(("eagle3",), adaptive=False, max_draft=3)
    drafter = engine.drafters["eagle3"]
    assert isinstance(drafter, FeatureDrafter)
    first = [*PROMPT, Message("assistant", "six seven"), Message("user", "and then")]
    edited = [Message("user", "one two nine"), Message("assistant", "ten"), Message("user", "and then")]
    for messages in (PROMPT, first, edited):
        drafted = [t for e in engine.generate(messages, sampling, eagle) if isinstance(e, Round) for t in e.tokens]
        assert drafter._places == list(range(len(drafter._places)))
        again = Engine(engine.target.model, engine.tokenizer)
        plain = again.generate(messages, sampling, DrafterSettings(()))
        assert drafted == [t for e in plain if isinstance(e, Round) for t in e.tokens]


def test_old_rows_may_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long text only the last states are kept: the head reads from there on, and the text stays."""
    monkeypatch.setattr(heads, "Hidden", partial(Hidden, most=40))
    monkeypatch.setattr(target.Target.prefill, "__defaults__", (16,))
    make_head(tmp_path / "head")
    engine = load_engine(tiny_llama(tmp_path / "target", layers=6), head=tmp_path / "head")
    prompt = [5 + i % 90 for i in range(150)]
    sampling = SamplingSettings(max_tokens=40, seed=4)

    def write(names: tuple[str, ...]) -> list[int]:
        engine.reset()
        events = engine.generate(prompt, sampling, DrafterSettings(names, adaptive=False, max_draft=3))
        return [t for e in events if isinstance(e, Round) for t in e.tokens]

    assert write(("eagle3",)) == write(())
    engine.reset()
    write(("eagle3",))
    drafter = engine.drafters["eagle3"]
    assert isinstance(drafter, FeatureDrafter)
    assert drafter._places[0] > 90
    hidden = engine.target.hidden
    assert hidden is not None
    assert hidden.stop - hidden.start < 60
    with pytest.raises(LookupError, match="not known"):
        hidden.rows(0, 4, hidden.wanted)
