"""DFlash, DSpark and DFlash 2: the text stays plain decoding's, the maths is plain numpy's, context rows are what a
fresh read gives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from mlx_spec import heads
from mlx_spec.anatomy import dissect
from mlx_spec.drafters import dflash, dflash_files
from mlx_spec.drafters.base import Context, Draft, Offer
from mlx_spec.drafters.dflash import DFlash, Rows, embedding_scale
from mlx_spec.drafters.dflash_net import default_taps
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import DrafterSettings, Message, Round, SamplingSettings
from mlx_spec.sampling import History
from mlx_spec.target import Target

from .. import zoo
from ..test_parity import PROMPT as IDS
from ..test_parity import write as decode
from ..tiny import tiny_llama, tiny_model
from . import published_dflash as published
from . import reference_dflash as reference
from .published_dflash import BLOCK, KINDS, MASK, VOCABULARY, WINDOW

Array = np.ndarray[Any, Any]
PROMPT = [Message("user", "one two three four five")]
TEXT = [3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26, 43]


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    yield
    mx.clear_cache()


def bind(folder: Path, target: Target) -> DFlash:
    anatomy = dissect(target.model)
    assert anatomy is not None
    drafter = heads.load(folder, target, anatomy)
    assert isinstance(drafter, DFlash)
    return drafter


def at(folder: Path, text: list[int] = TEXT, seed: int = 2) -> tuple[DFlash, Target]:
    """A drafter for a target that has read all of `text` but its newest token."""
    target = Target(tiny_model(seed=seed, layers=6))
    drafter = bind(folder, target)
    target.run(mx.array(text[:-1], mx.uint32), text[:-1])
    return drafter, target


def context(tokens: list[int], temperature: float = 0.0, coupled: bool = True, **more: Any) -> Context:
    sampling = SamplingSettings(temperature=temperature)
    return Context(History(tokens, VOCABULARY, sampling), sampling, 7, coupled, **more)


def write(engine: Engine, prompt: Any, sampling: SamplingSettings, settings: DrafterSettings) -> list[Round]:
    return [e for e in engine.generate(prompt, sampling, settings) if isinstance(e, Round)]


def tokens_of(rounds: list[Round]) -> list[int]:
    return [t for r in rounds for t in r.tokens]


# ------------------------------------------------------------------------------------------------------------ the text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_text_is_plain_decodings(tmp_path: Path, kind: str, temperature: float) -> None:
    head = published.make(tmp_path / "head", kind)
    engine = load_engine(tiny_llama(tmp_path / "target", layers=6), head=head)
    sampling = SamplingSettings(max_tokens=20, seed=4, temperature=temperature, repetition_penalty=1.1)
    plain = tokens_of(write(engine, PROMPT, sampling, DrafterSettings(())))
    for adaptive in (False, True):
        engine.reset()
        rounds = write(engine, PROMPT, sampling, DrafterSettings(("dflash",), adaptive=adaptive, max_draft=8))
        assert tokens_of(rounds) == plain
        drafted = [len(r.drafted) for r in rounds if r.drafter == "dflash"]
        # As many as a block has, but where the drafter itself expects that they do not hold.
        assert adaptive or drafted
        assert adaptive or max(drafted) <= BLOCK - (kind != "dspark")
        assert adaptive or kind == "dspark" or drafted[0] == BLOCK - 1


@pytest.mark.parametrize("name", ["qwen3_next", "gemma2"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_models_text_is_plain_decodings(tmp_path: Path, name: str, kind: str) -> None:
    """A model with recurrent layers, and one that scales its embedding and caps its logits."""
    sizes = {
        n: tuple(zoo.VOCABULARY if s == VOCABULARY else s for s in shape) for n, shape in published.shapes(kind).items()
    }
    settings = published.config(kind, vocab_size=zoo.VOCABULARY, num_target_layers=zoo.LAYERS)
    settings.get("dflash_config", settings).update(target_layer_ids=[0, 2], mask_token_id=96)
    head = published.save(tmp_path, published.tensors(sizes), settings)
    for temperature in (0.0, 0.9):
        model = zoo.build(name)
        plain, _, _ = decode(Target(model), IDS, temperature, tokens=24)
        target = Target(model)
        drafter = bind(head, target)
        text, by, _ = decode(target, IDS, temperature, drafter, tokens=24)
        assert text == plain
        assert by["dflash"].drafted > 20
        assert target.hidden is not None
        target.hidden.remove()


@pytest.mark.parametrize("rule", ["rejection", "block"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_drafts_for_the_papers_rules(tmp_path: Path, kind: str, rule: str) -> None:
    head = published.make(tmp_path / "head", kind)
    engine = load_engine(tiny_llama(tmp_path / "target", layers=6), head=head)
    settings = DrafterSettings(("dflash",), rule=rule, adaptive=False, max_draft=3)
    rounds = write(engine, PROMPT, SamplingSettings(max_tokens=20, seed=4, temperature=0.9), settings)
    assert sum(len(r.tokens) for r in rounds) == 20
    assert sum(len(r.drafted) for r in rounds) > 15


# ----------------------------------------------------------------------------------------------------------- the maths


def states(target: Target, taps: tuple[int, ...], text: list[int] = TEXT) -> dict[int, Array]:
    """For each place but the newest the states that the drafter reads, one behind the other."""
    assert target.hidden is not None
    rows = [np.array(s) for s in target.hidden.rows(0, len(text) - 1, taps)]
    return {p: np.concatenate([r[p] for r in rows]).astype(np.float64) for p in range(len(text) - 1)}


def expected_rows(
    weights: Mapping[str, Array], target: Target, taps: tuple[int, ...], rows: int, text: list[int] = TEXT, **more: Any
) -> Array:
    model: Any = target.model
    embedding = weights.get("embed_tokens.weight", np.array(model.model.embed_tokens.weight))
    x = embedding[[text[-1]] + [MASK] * (rows - 1)].astype(np.float64)
    settings = {"windows": (WINDOW, None), "causal": (True, False), **more}
    return reference.block(weights, states(target, taps, text), x, len(text) - 1, **settings)


def expected_head(weights: Mapping[str, Array], target: Target) -> Array:
    model: Any = target.model
    return weights.get("lm_head.weight", np.array(model.model.embed_tokens.weight)).astype(np.float64)


def drafts(drafter: DFlash, n: int, text: list[int] = TEXT) -> tuple[Array, list[Array], list[int]]:
    """The rows of a block, and for each the logits (vocabulary,) and the token that is drafted greedily."""
    drafter._catch_up(text)
    sees = drafter.rows.sees(len(text) - 1, n + drafter.net.shape.first)
    rows = drafter.block(text[-1:], len(text) - 1, n, sees)[0]
    step, token, found, ids = drafter._steps(rows, text[-1]), None, [], []
    for i in range(n):
        logits = step(i, token)
        if logits is None:
            break
        token = mx.argmax(logits, axis=-1)
        found.append(np.array(logits[0]))
        ids.append(int(token.item()))
    return np.array(rows), found, ids


@pytest.mark.parametrize("n", [1, 3, BLOCK - 1])
@pytest.mark.parametrize(
    ("kind", "more", "rules"),
    [
        ("dflash", {}, {}),
        ("dflash2", {}, {}),
        ("dflash", {"is_causal": False}, {"causal": (False, False)}),
        ("dflash", {"is_causal": True}, {"causal": (True, True)}),
        ("dflash", {"layer_types": None}, {"windows": (None, None), "causal": (False, False)}),
        ("dflash2", {"sliding_window_non_causal": True}, {"causal": (False, False)}),
    ],
)
def test_a_block_is_the_papers(tmp_path: Path, kind: str, more: Any, rules: Any, n: int) -> None:
    """Context rows, places, what sees what, and the convolutions."""
    drafter, target = at(published.make(tmp_path, kind, **more))
    weights = published.tensors(published.shapes(kind))
    rows, _, _ = drafts(drafter, n)
    expected = expected_rows(weights, target, (1, 4), n + 1, **rules)
    np.testing.assert_allclose(rows, expected[1:], rtol=1e-4, atol=1e-4)


def test_rows_say_what_the_targets_head_says(tmp_path: Path) -> None:
    drafter, target = at(published.make(tmp_path, "dflash"))
    weights = published.tensors(published.shapes("dflash"))
    _, logits, ids = drafts(drafter, 4)
    expected = expected_rows(weights, target, (1, 4), 5)[1:] @ expected_head(weights, target).T
    np.testing.assert_allclose(np.array(logits), expected, rtol=1e-4, atol=1e-3)
    assert ids == expected.argmax(-1).tolist()
    draft = drafter.propose(context(TEXT), Offer(4), 4)
    assert draft.tokens.tolist() == ids
    assert draft.sureness == ()


@pytest.mark.parametrize("markov", ["vanilla", "gated", "rnn"])
@pytest.mark.parametrize("first", [0, 1])
def test_dsparks_rows_know_the_token_before(tmp_path: Path, markov: str, first: int) -> None:
    sizes = published.shapes("dspark")
    d, r = published.WIDTH, published.RANK
    if markov == "gated":
        sizes |= {"markov_head.gate_proj.weight": (r, d + r), "markov_head.gate_proj.bias": (r,)}
    if markov == "rnn":
        sizes |= {"markov_head.joint_proj.weight": (3 * r, d + 2 * r), "markov_head.joint_proj.bias": (3 * r,)}
    weights = published.tensors(sizes)
    weights["confidence_head.proj.bias"] += 50  # never unsure here
    settings = published.config("dspark", markov_head_type=markov)
    if first:
        settings["sample_from_anchor"] = False
    drafter, target = at(published.save(tmp_path, weights, settings))
    n = BLOCK - first
    assert drafter.offer(History(TEXT, VOCABULARY, SamplingSettings()), 99) == Offer(n)
    rows, logits, ids = drafts(drafter, n)
    plain = {"windows": (None, None), "causal": (False, False)}
    expected = expected_rows(weights, target, (1, 4), n + first, **plain)[first:]
    np.testing.assert_allclose(rows, expected, rtol=1e-4, atol=1e-4)
    state, token = np.zeros(r), TEXT[-1]
    for row, got, chosen in zip(expected, logits, ids, strict=True):
        added, state, _ = reference.markov(weights, markov, token, row, state)
        np.testing.assert_allclose(got, weights["lm_head.weight"] @ row + added, rtol=1e-4, atol=1e-3)
        token = chosen


def test_few_tokens_are_the_targets_before_they_are_read_again(tmp_path: Path) -> None:
    """A head that says 200 tokens: the token before is one of the target's."""
    spoken = np.sort(np.random.default_rng(5).permutation(VOCABULARY)[:200])
    weights = published.tensors(published.shapes("dspark", said=200))
    weights["confidence_head.proj.bias"] += 50
    offsets = {"d2t": mx.array(spoken - np.arange(200))}
    drafter, target = at(published.save(tmp_path, {**weights, **offsets}, published.config("dspark")))
    _, logits, ids = drafts(drafter, 4)
    plain = {"windows": (None, None), "causal": (False, False)}
    rows = expected_rows(weights, target, (1, 4), 4, **plain)
    token = TEXT[-1]
    for row, got, chosen in zip(rows, logits, ids, strict=True):
        added, _, _ = reference.markov(weights, "vanilla", token, row, np.zeros(published.RANK))
        np.testing.assert_allclose(got[spoken], weights["lm_head.weight"] @ row + added, rtol=1e-4, atol=1e-3)
        assert np.isneginf(np.delete(got, spoken)).all()
        assert chosen in spoken
        token = chosen


@pytest.mark.parametrize("late", [0, 1])
def test_a_draft_ends_where_the_confidence_head_doubts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    """On a GPU one later, so that it need not wait for the host."""
    monkeypatch.setattr(dflash, "lag", lambda: late)
    weights = published.tensors(published.shapes("dspark"))
    weights["markov_head.markov_w2.weight"] *= 3
    folder = published.save(tmp_path, weights, published.config("dspark"))
    drafter, target = at(folder)
    w, b = weights["confidence_head.proj.weight"][0], weights["confidence_head.proj.bias"][0]
    plain = {"windows": (None, None), "causal": (False, False)}
    rows = expected_rows(weights, target, (1, 4), BLOCK, **plain)
    head, token, chances = weights["lm_head.weight"], TEXT[-1], []
    for row in rows:
        added, _, read = reference.markov(weights, "vanilla", token, row, np.zeros(1))
        chances.append(float(w @ np.concatenate([row, read])) + float(b))
        token = int(np.argmax(head @ row + added))
    for doubted in (2, 4):  # moved so that this one and no earlier one is doubted
        worst = chances[doubted]
        weights["confidence_head.proj.bias"] = np.array([b - worst + math.log(0.29 / 0.71)], np.float32)
        expected = next(i for i, c in enumerate(chances) if i and c <= worst)
        drafter, _ = at(published.save(tmp_path, weights, published.config("dspark")))
        assert drafter.propose(context(TEXT), Offer(BLOCK), BLOCK).tokens.shape[0] == expected + late
    weights["confidence_head.proj.bias"] = np.array([-50], np.float32)
    drafter, _ = at(published.save(tmp_path, weights, published.config("dspark")))
    assert drafter.propose(context(TEXT), Offer(BLOCK), BLOCK).tokens.shape[0] == 1 + late


def test_dflash_2_chooses_by_the_token_before(tmp_path: Path) -> None:
    drafter, target = at(published.make(tmp_path, "dflash2"))
    weights = published.tensors(published.shapes("dflash2"))
    _, logits, ids = drafts(drafter, 4)
    rows = expected_rows(weights, target, (1, 4), 5)[1:]
    token, changed = TEXT[-1], False
    for row, got, chosen in zip(rows, logits, ids, strict=True):
        own = expected_head(weights, target) @ row
        scores = reference.select(weights, own, token, row, 16)
        assert sorted(np.flatnonzero(np.isfinite(got))) == sorted(scores)
        np.testing.assert_allclose([got[c] for c in scores], list(scores.values()), rtol=1e-4, atol=1e-3)
        assert chosen == max(scores, key=lambda c: scores[c])
        changed |= chosen != int(np.argmax(own))
        token = chosen
    assert changed


def test_its_own_caps_and_scales_come_before_the_targets(tmp_path: Path) -> None:
    more = {"input_embedding_scale": 3.0, "output_multiplier": 0.5, "final_logit_softcapping": 2.0}
    settings = published.config("dflash")
    settings["dflash_config"] |= more
    drafter, target = at(published.save(tmp_path, published.tensors(published.shapes("dflash")), settings))
    assert drafter._scale == 3.0
    rows = np.random.default_rng(1).normal(size=(2, published.WIDTH)).astype(np.float32)
    expected = 2 * np.tanh(rows @ expected_head({}, target).T * 0.5 / 2)
    np.testing.assert_allclose(np.array(drafter.say(mx.array(rows))), expected, rtol=1e-4, atol=1e-4)


def test_the_targets_embedding_is_read_as_the_target_does() -> None:
    for name, scale in (("gemma2", 8.0), ("qwen3", 1.0)):
        target = Target(zoo.build(name))
        anatomy = dissect(target.model)
        assert anatomy is not None
        assert embedding_scale(target, anatomy) == pytest.approx(scale, rel=1e-3)


def test_a_shorter_block_is_another_guess(tmp_path: Path) -> None:
    """Rows see those behind them, so fewer rows say something else; where they do not, the same."""
    drafter, target = at(published.make(tmp_path / "a", "dflash"))
    long, short = drafts(drafter, 5)[0], drafts(drafter, 2)[0]
    assert np.abs(long[:2] - short).max() > 1e-3
    weights = published.tensors(published.shapes("dflash"))
    np.testing.assert_allclose(short, expected_rows(weights, target, (1, 4), 3)[1:], rtol=1e-4, atol=1e-4)
    for kind in ("dflash", "dflash2"):
        drafter, _ = at(published.make(tmp_path / kind, kind, is_causal=True))
        np.testing.assert_allclose(drafts(drafter, 5)[0][:2], drafts(drafter, 2)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_drafts_bring_the_law_that_they_are_drawn_from(tmp_path: Path, kind: str) -> None:
    weights = published.tensors(published.shapes(kind))
    if kind == "dspark":
        weights["confidence_head.proj.bias"] += 50
    drafter, _ = at(published.save(tmp_path, weights, published.config(kind)))
    draft = drafter.propose(context(TEXT, 0.8, coupled=False), Offer(4), 4)
    assert draft.logq is not None
    law = np.exp(np.array(draft.logq))
    np.testing.assert_allclose(law.sum(-1), 1, atol=1e-4)
    assert kind != "dflash2" or (law > 0).sum(-1).max() == 16
    drafter._catch_up(TEXT)
    n = 4 + drafter.net.shape.first
    rows = drafter.block(TEXT[-1:], len(TEXT) - 1, 4, drafter.rows.sees(len(TEXT) - 1, n))[0]
    step = drafter._steps(rows, TEXT[-1])
    for i, token in enumerate([None, *draft.tokens.tolist()[:-1]]):
        logits = step(i, None if token is None else mx.array([token], mx.uint32))
        assert logits is not None
        np.testing.assert_allclose(law[i], np.array(mx.softmax(logits[0] / 0.8)), atol=1e-5)
        assert law[i][draft.tokens[i].item()] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_first_guesses_of_a_whole_text_are_those_of_its_places(tmp_path: Path, kind: str) -> None:
    drafter, target = at(published.make(tmp_path, kind))
    assert target.hidden is not None
    text = TEXT[:-1]
    found = drafter.guesses(text, target.hidden.rows(0, len(text), drafter.taps))
    assert isinstance(drafter, heads.Guesses)
    each = []
    for stop in range(2, len(text) + 1):
        drafter.reset()
        each.append(drafts(drafter, 4, text[:stop])[2][0])
    assert found.tolist() == each
    assert len(set(each)) > 3


# ---------------------------------------------------------------------------------------------------- the context rows


class Knowing(DFlash):
    """Its drafts are the truth with a wrong one at the end, so that some hold and one does not."""

    truth: list[int]

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        draft = super().propose(context, offer, n)
        right = self.truth[len(context.history) :][: draft.chain]
        wrong = [*right[:-1], (right[-1] + 1) % VOCABULARY] if len(right) > 1 else right
        return Draft(mx.array(wrong or [1], mx.uint32))


def check_rows(drafter: DFlash, target: Target, text: list[int]) -> None:
    """The rows are those of a fresh read of this text: none is missing, none is of a token that did not hold."""
    assert drafter.rows.places == list(range(len(drafter.rows.places)))
    n = len(drafter.rows.places)
    model = target.model
    fresh = Target(model)
    anatomy = dissect(model)
    assert anatomy is not None
    hidden = heads.want(fresh, anatomy, drafter.taps)
    fresh.run(mx.array(text[:n], mx.uint32), text[:n])
    again = Rows(drafter.net)
    again.feed(drafter._fuse(hidden.rows(0, n, drafter.taps)), 0)
    for ours, theirs in zip(drafter.rows.layers, again.layers, strict=True):
        assert ours.offset == theirs.offset == n
        for a, b in ((ours.keys, theirs.keys), (ours.values, theirs.values)):
            np.testing.assert_allclose(np.array(a[..., :n, :]), np.array(b[..., :n, :]), rtol=1e-3, atol=2e-3)
    hidden.remove()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_a_fresh_read(tmp_path: Path, kind: str) -> None:
    """After drafts that held and that did not, after the end, and in a next turn and an edited one."""
    model = tiny_model(seed=2, layers=6)
    target = Target(model)
    weights = published.tensors(published.shapes(kind))
    if kind == "dspark":
        weights["confidence_head.proj.bias"] += 50
    drafter = bind(published.save(tmp_path, weights, published.config(kind)), target)
    drafter.__class__ = Knowing
    assert isinstance(drafter, Knowing)
    prompt = TEXT
    for turn in range(3):
        plain, _, _ = decode(Target(model), prompt, 0.0, tokens=20)
        drafter.truth = [*prompt, *plain]
        text, by, _ = decode(target, prompt, 0.0, drafter, tokens=20)
        assert text == plain
        assert 0 < by["dflash"].accepted < by["dflash"].drafted
        check_rows(drafter, target, [*prompt, *text])
        assert len(drafter.rows.places) >= len(prompt) + 13  # all but those of the last round
        prompt = [*prompt, *text, 5, 6, 7] if turn == 0 else [*prompt[:9], 200, *prompt[10:20]]


def test_a_text_that_is_part_of_the_last_one_needs_none_but_its_own_rows(tmp_path: Path) -> None:
    drafter, target = at(published.make(tmp_path, "dflash"))
    drafter.propose(context(TEXT), Offer(3), 3)
    assert drafter.rows.places == list(range(len(TEXT) - 1))
    target.keep(6)
    drafter.begin(TEXT[:7])
    assert drafter.rows.places == list(range(6))
    # The same text without anything kept of it drafts the same.
    kept = drafter.propose(context(TEXT[:7]), Offer(3), 3).tokens.tolist()
    drafter.reset()
    assert drafter.propose(context(TEXT[:7]), Offer(3), 3).tokens.tolist() == kept


def test_a_stopped_reply_leaves_rows_that_go_on(tmp_path: Path) -> None:
    head = published.make(tmp_path / "head", "dflash")
    engine = load_engine(tiny_llama(tmp_path / "target", layers=6), head=head)
    sampling, settings = SamplingSettings(max_tokens=30, seed=4), DrafterSettings(("dflash",), adaptive=False)
    drafter = engine.drafters["dflash"]
    assert isinstance(drafter, DFlash)
    prompt = engine.encode(PROMPT)
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 12

    events = engine.generate(prompt, sampling, settings, stop=stop)
    text = [t for e in events if isinstance(e, Round) for t in e.tokens]
    assert 0 < len(text) < 30
    check_rows(drafter, engine.target, [*prompt, *text])
    again = tokens_of(write(engine, [*prompt, *text], sampling, settings))
    engine.reset()
    assert again == tokens_of(write(engine, [*prompt, *text], sampling, DrafterSettings(())))


def test_no_more_rows_are_kept_than_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dflash, "WINDOW", 16)
    monkeypatch.setattr(dflash, "SLACK", 4)
    monkeypatch.setattr(dflash, "PREFILL_STEP", 7)
    head = published.make(tmp_path / "head", "dflash")
    target = Target(tiny_model(seed=2, layers=6))
    drafter = bind(head, target)
    prompt = [5 + i * i % 90 for i in range(60)]
    plain, _, _ = decode(Target(target.model), prompt, 0.0, tokens=30)
    text, _, _ = decode(target, prompt, 0.0, drafter, tokens=30)
    assert text == plain
    sliding, full = drafter.rows.layers
    assert WINDOW - 1 <= sliding.offset <= WINDOW - 1 + 4
    assert 16 <= full.offset <= 16 + 4
    places = drafter.rows.places
    assert len(places) == full.offset
    assert places == list(range(places[0], places[-1] + 1))
    assert places[-1] >= 60 + 30 - 9
    # What is left says what those rows alone say: a sliding layer's older rows were never seen.
    whole = [*prompt, *text]
    stop = places[-1] + 2
    rows, _, _ = drafts(drafter, 3, whole[:stop])
    weights = published.tensors(published.shapes("dflash"))
    assert target.hidden is not None
    parts = [np.array(s) for s in target.hidden.rows(places[0], places[-1] + 1, drafter.taps)]
    seen = {p: np.concatenate([part[i] for part in parts]).astype(np.float64) for i, p in enumerate(places)}
    model: Any = target.model
    x = np.array(model.model.embed_tokens.weight)[[whole[stop - 1]] + [MASK] * 3].astype(np.float64)
    expected = reference.block(weights, seen, x, stop - 1, windows=(WINDOW, None), causal=(True, False))
    np.testing.assert_allclose(rows, expected[1:], rtol=1e-3, atol=1e-3)


def test_places_are_kept_where_old_states_are_gone(tmp_path: Path) -> None:
    """The target keeps only its last states: rows stand at their own places, whatever is missing before them."""
    drafter, target = at(published.make(tmp_path, "dflash"))
    assert target.hidden is not None
    first, rows, kept = target.hidden._segments[0]
    target.hidden._segments[0] = (first + 5, rows - 5, tuple(k[5:] for k in kept))
    found, _, _ = drafts(drafter, 3)
    assert drafter.rows.places == list(range(5, len(TEXT) - 1))
    full = Target(target.model)
    anatomy = dissect(full.model)
    assert anatomy is not None
    hidden = heads.want(full, anatomy, drafter.taps)
    full.run(mx.array(TEXT[:-1], mx.uint32), TEXT[:-1])
    context_rows = {p: s for p, s in states(full, drafter.taps).items() if p >= 5}
    hidden.remove()
    model: Any = target.model
    x = np.array(model.model.embed_tokens.weight)[[TEXT[-1]] + [MASK] * 3].astype(np.float64)
    weights = published.tensors(published.shapes("dflash"))
    expected = reference.block(weights, context_rows, x, len(TEXT) - 1, windows=(WINDOW, None), causal=(True, False))
    np.testing.assert_allclose(found, expected[1:], rtol=1e-3, atol=1e-3)
    # Nothing is offered where the newest state is not known.
    assert drafter.offer(History([*TEXT, 1], VOCABULARY, SamplingSettings()), 8) is None


def test_layers_are_chosen_by_the_authors_rule() -> None:
    assert default_taps(36, 5) == (1, 9, 17, 25, 33)
    assert default_taps(32, 5) == (1, 8, 15, 22, 29)
    assert default_taps(40, 5) == (1, 10, 19, 28, 37)
    assert default_taps(36, 1) == (18,)
    assert dflash_files._taps({}, 6, 2) == (1, 3)
