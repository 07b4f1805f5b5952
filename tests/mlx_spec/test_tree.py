"""Trees of guesses: a pass over one gives what chains give, the path that held is kept, the text stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from mlx_spec import tree
from mlx_spec.controller import Average, Choice, Controller
from mlx_spec.drafters.base import Draft
from mlx_spec.drafters.guard import tame
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import DrafterSettings, Message, Round, SamplingSettings
from mlx_spec.target import Target

from . import zoo
from .test_eagle import make_head
from .tiny import tiny_llama, tiny_model

PROMPT = [Message("user", "one two three four five")]


def test_the_shape_of_a_tree() -> None:
    parents = [-1, 0, 1, 0, 3]
    assert tree.depths(parents) == [0, 1, 2, 1, 2]
    seen = tree.ancestry(parents)
    assert seen[4].tolist() == [True, False, False, True, True]
    assert tree.follow(parents, [9, 5, 6, 7, 8], [7, 0, 0, 8, 3]) == [0, 3, 4]
    assert tree.follow(parents, [9, 5, 6, 7, 8], [1, 0, 0, 8, 3]) == [0]
    draft = Draft(mx.array([5, 6, 7, 8]), sides=((0, 0.3), (1, 0.2)))
    assert draft.chain == 2
    assert draft.parents == [-1, 0, 1, 0, 1]


def test_which_models_check_trees() -> None:
    assert tree.able(Target(tiny_model()))
    few_bits = Target(tiny_model())
    few_bits.kv_bits = 8
    assert not tree.able(few_bits)
    for name in ("mamba", "qwen3_next", "gpt_oss"):
        assert not tree.able(Target(zoo.build(name)))
    for name in ("qwen3", "phi3", "olmo2"):
        assert tree.able(Target(zoo.build(name))), name


def test_the_kept_rows_are_those_of_the_path() -> None:
    target = Target(tiny_model())
    list(target.prefill([3, 4, 5]))
    with tree.shaped([-1, 0, 1, 0, 3]):
        mx.eval(target.run(mx.array([9, 5, 6, 7, 8]), [9, 5, 6, 7, 8]))
    target.pick(3, [0, 3, 4])
    target.keep(6, [9, 7, 8])
    assert target.tokens == [3, 4, 5, 9, 7, 8]
    fresh = Target(target.model)
    list(fresh.prefill(target.tokens))
    for ours, theirs in zip(target.caches.layers, fresh.caches.layers, strict=True):
        assert ours.offset == theirs.offset == 6
        np.testing.assert_allclose(np.array(ours.keys[..., :6, :]), np.array(theirs.keys[..., :6, :]), atol=1e-5)
        np.testing.assert_allclose(np.array(ours.values[..., :6, :]), np.array(theirs.values[..., :6, :]), atol=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_text_is_plain_decodings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temperature: float) -> None:
    make_head(tmp_path / "head")
    engine: Engine = load_engine(tiny_llama(tmp_path / "target", layers=6), head=tmp_path / "head")
    assert engine.target.trees
    sampling = SamplingSettings(max_tokens=80, seed=4, temperature=temperature)

    def write(names: tuple[str, ...]) -> list[Round]:
        engine.reset()
        settings = DrafterSettings(names, max_draft=4)
        return [e for e in engine.generate(PROMPT, sampling, settings) if isinstance(e, Round)]

    plain = [t for r in write(()) for t in r.tokens]
    # Every second token is taken along, whatever it costs; and drafting goes on whatever it gains.
    monkeypatch.setattr(Controller, "sides", lambda self, name, sure, others: list(others))
    monkeypatch.setattr(Controller, "goes_on", lambda self, name, sure: True)
    monkeypatch.setattr("mlx_spec.controller.OVERDRAFT", 100.0)
    monkeypatch.setattr("mlx_spec.controller.PRIOR", 1.0)
    monkeypatch.setattr("mlx_spec.controller.PRIOR_WEIGHT", 1e9)
    rounds = write(("eagle3",))
    assert [t for r in rounds for t in r.tokens] == plain
    trees = [r for r in rounds if r.width > 2 and len(r.drafted) % 2 == 0 and r.drafted]
    assert len(trees) > 5
    drafter = engine.drafters["eagle3"]
    places: Sequence[int] = drafter._places  # type: ignore[attr-defined]
    assert list(places) == list(range(len(places)))
    # The states that the head read are those of a fresh pass, after paths that left the chain, too.
    hidden = engine.target.hidden
    assert hidden is not None
    length = len(engine.target.tokens)
    kept = hidden.rows(0, length, hidden.wanted)
    fresh = Target(engine.target.model)
    fresh.hidden = hidden
    hidden.keep(0)
    list(fresh.prefill(engine.target.tokens))
    for ours, theirs in zip(kept, hidden.rows(0, length, hidden.wanted), strict=True):
        np.testing.assert_allclose(np.array(ours), np.array(theirs), atol=2e-3, rtol=1e-3)


def test_sampled_trees_are_judged_by_their_laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule `rejection`: the first tokens of many seeds have the law that plain decoding has."""
    make_head(tmp_path / "head")
    engine = load_engine(tiny_llama(tmp_path / "target", layers=6), head=tmp_path / "head")
    monkeypatch.setattr(Controller, "sides", lambda self, name, sure, others: list(others))
    monkeypatch.setattr(Controller, "goes_on", lambda self, name, sure: True)
    monkeypatch.setattr(
        Controller, "choose", lambda self, found, *more: (found[0] if found else None, Choice(1, 2.0, ""))
    )
    counts: dict[tuple[str, ...], Counter[int]] = {}
    for names in ((), ("eagle3",)):
        trees = 0
        counts[names] = Counter()
        for seed in range(150):
            sampling = SamplingSettings(max_tokens=3, seed=seed, temperature=0.9, top_k=3)
            settings = DrafterSettings(names, rule="rejection", max_draft=1)
            rounds = [e for e in engine.generate(PROMPT, sampling, settings) if isinstance(e, Round)]
            trees += any(len(r.drafted) == 2 for r in rounds)
            counts[names][rounds[0].tokens[0]] += 1
        assert bool(names) == (trees > 40)
    plain, drafted = counts[()], counts["eagle3",]
    assert max(abs(plain[t] - drafted[t]) for t in plain.keys() | drafted.keys()) < 3.5 * np.sqrt(2 * 150 / 4)


def test_a_side_that_holds_is_counted_and_learned() -> None:
    controller = Controller()
    sides = ((0, 0.3), (1, 0.3))
    for _ in range(20):
        controller.learn_sides("eagle3", sides, 0, 0)
    for width, cost in ((2, 1.0), (3, 1.2)):
        controller._relative[0, width] = Average(cost, 5)
    assert controller.sides("eagle3", (0.5,), [(0, 0.3)]) == [(0, 0.3)]
    for _ in range(200):
        controller.learn_sides("eagle3", sides, 0, None)
    assert controller.sides("eagle3", (0.5,), [(0, 0.3)]) == []


def test_a_tree_that_is_none_is_not_believed() -> None:
    tokens = mx.array([1, 2, 3])
    with pytest.raises(ValueError, match="its tree is none"):
        tame(Draft(tokens, sides=((2, 0.1),)), 4, 10)
    with pytest.raises(ValueError, match="its tree is none"):
        tame(Draft(tokens, sides=((0, 0.1),)), 1, 10)
    assert tame(Draft(tokens, sides=((1, 0.1),)), 2, 10)[0].chain == 2
