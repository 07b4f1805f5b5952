"""The first EAGLE's heads draft: the text stays plain decoding's, rows belong to their places, a fitted head is right.

Random heads hardly ever guess a token. So one is fitted, by least squares, to say what comes next at a target that is
a little simpler than most.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache, make_prompt_cache

from mlx_spec import heads
from mlx_spec.anatomy import Anatomy, Taps, dissect
from mlx_spec.controller import Controller
from mlx_spec.drafters.base import Context, Offer
from mlx_spec.drafters.feature import FeatureDrafter
from mlx_spec.engine import Engine, load_engine, load_model
from mlx_spec.events import DrafterSettings, Message, Round, SamplingSettings
from mlx_spec.sampling import History
from mlx_spec.target import Target

from .. import zoo
from ..test_parity import PROMPT as IDS
from ..test_parity import write as decode
from ..tiny import tiny_llama
from . import published
from .published import WIDTH, Array

PROMPT = [Message("user", "one two three four five")]
LAYERS = 3
EAGLE = DrafterSettings(("eagle",), adaptive=False, max_draft=3)


def fitted(model: Any, anatomy: Anatomy, vocabulary: int) -> dict[str, Array]:
    """Tensors of a head that does nothing but `fc`, which is the best linear guess of the next state."""
    ids = np.random.default_rng(3).integers(3, vocabulary, (12, 60))
    taps = Taps(anatomy, (len(anatomy.layers),))
    rows = []
    for text in ids:
        model(mx.array(text[None]), cache=make_prompt_cache(model))
        rows.append(np.array(taps.take()[0][0].astype(mx.float32)))  # type: ignore[index]
    taps.remove()
    states, embedded = np.stack(rows), np.array(anatomy.embedding(mx.array(ids)).astype(mx.float32))
    read = np.concatenate([embedded[:, 1:], states[:, :-1], np.ones((12, 59, 1))], axis=-1).reshape(-1, 2 * WIDTH + 1)
    solved = np.linalg.lstsq(read, states[:, 1:].reshape(-1, WIDTH), rcond=None)[0].astype(np.float32)
    tensors = published.eagle1()
    still = {n: np.zeros_like(tensors[n]) for n in tensors if n.endswith(("o_proj.weight", "down_proj.weight"))}
    return {**tensors, **still, "fc.weight": solved[:-1].T.copy(), "fc.bias": solved[-1]}


def attentive(tensors: dict[str, Array]) -> dict[str, Array]:
    """The same head with an attention and an MLP that have a little say, so that its caches matter."""
    little = {n: 0.1 * v for n, v in published.eagle1().items() if n.endswith(("o_proj.weight", "down_proj.weight"))}
    return {**tensors, **little}


def simple_target(folder: Path) -> Path:
    """A target whose layers add little to the embedding, and whose output layer says another token than it read."""
    tiny_llama(folder, layers=LAYERS)
    weights: Any = mx.load(str(folder / "model.safetensors"))
    weights = {n: v * 0.13 if n.endswith(("o_proj.weight", "down_proj.weight")) else v for n, v in weights.items()}
    others = mx.array(np.random.default_rng(1).permutation(published.VOCABULARY))
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"][others]
    mx.eval(weights)  # before the file that they come from is written over
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    return folder


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("eagle1")
    target = Target(load_model(simple_target(folder / "target"))[0])
    anatomy = dissect(target.model)
    assert anatomy is not None
    tensors = attentive(fitted(target.model, anatomy, published.VOCABULARY))
    published.save(folder / "head", tensors, published.config(), torch=True)
    yield load_engine(folder / "target", head=folder / "head")
    mx.clear_cache()


@pytest.fixture
def engine(loaded: Engine) -> Iterator[Engine]:
    loaded.controller = Controller()  # what it learned in another test is not this one's
    yield loaded
    loaded.reset()


def drafter_of(engine: Engine) -> FeatureDrafter:
    found = engine.drafters["eagle"]
    assert isinstance(found, FeatureDrafter)
    return found


def write(
    engine: Engine, settings: DrafterSettings, temperature: float = 0.0, messages: Any = PROMPT, **more: Any
) -> list[Round]:
    sampling = SamplingSettings(max_tokens=50, seed=4, temperature=temperature, repetition_penalty=1.1)
    return [e for e in engine.generate(messages, sampling, settings, **more) if isinstance(e, Round)]


def tokens(rounds: list[Round]) -> list[int]:
    return [t for r in rounds for t in r.tokens]


# ------------------------------------------------------------------------------------------------------------ the text


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("adaptive", [False, True])
def test_the_text_is_plain_decodings(engine: Engine, temperature: float, adaptive: bool) -> None:
    plain = tokens(write(engine, DrafterSettings(()), temperature))
    engine.reset()
    rounds = write(engine, DrafterSettings(("eagle",), adaptive=adaptive, max_draft=4), temperature)
    assert tokens(rounds) == plain
    drafted = [r for r in rounds if r.drafter == "eagle"]
    assert drafted
    # How much is drafted where the controller decides is a matter of the time that passes take here.
    assert adaptive or any(r.accepted for r in drafted)
    assert adaptive or any(r.accepted < len(r.drafted) for r in drafted)


@pytest.mark.parametrize("name", ["qwen3_next", "gemma2"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_other_models_text_is_plain_decodings(tmp_path: Path, name: str, temperature: float) -> None:
    """A model with recurrent layers, and one that slides and caps its logits."""
    target = Target(zoo.build(name))
    plain, _, _ = decode(target, IDS, temperature, tokens=24)
    target.reset()
    anatomy = dissect(target.model)
    assert anatomy is not None
    config = published.config(vocab_size=zoo.VOCABULARY)
    folder = published.save(tmp_path, fitted(target.model, anatomy, zoo.VOCABULARY), config)
    text, by, _ = decode(target, IDS, temperature, heads.load(folder, target, anatomy), tokens=24)
    assert text == plain
    assert by["eagle"].drafted > 20


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_it_drafts_for_the_papers_rules(engine: Engine, rule: str) -> None:
    rounds = write(engine, DrafterSettings(("eagle",), rule=rule, adaptive=False, max_draft=3), 0.9)
    assert len(tokens(rounds)) == 50
    assert sum(r.accepted for r in rounds) > 0


# ------------------------------------------------------------------------------------------------- what it goes on from


def test_it_fits_its_target(engine: Engine) -> None:
    """As a head from elsewhere is judged when it is loaded."""
    assert engine.notices() == []
    share = heads.agreement(drafter_of(engine), engine.target, engine.tokenizer, engine.anatomy)
    assert share is not None
    assert share > 0.3


def test_it_goes_on_from_what_the_output_layer_read_before_the_newest_token(engine: Engine, tmp_path: Path) -> None:
    """A head that only passes the state on says there what the target said, and says it again."""
    tensors = {n: np.zeros_like(v) for n, v in published.eagle1().items()}
    tensors["fc.weight"][:, WIDTH:] = np.eye(WIDTH)
    target = Target(engine.target.model)
    assert engine.anatomy is not None
    drafter = heads.load(published.save(tmp_path, tensors, published.config()), target, engine.anatomy)
    assert isinstance(drafter, FeatureDrafter)
    try:
        logits = target.run(mx.array(IDS, mx.uint32), IDS)
        newest = int(mx.argmax(logits[-1]).item())
        history = History([*IDS, newest], target.vocabulary, SamplingSettings(temperature=0.0))
        offer = drafter.offer(history, 8)
        assert offer == Offer(8)
        draft = drafter.propose(Context(history, SamplingSettings(temperature=0.0), 7, True), offer, 3)
        assert draft.tokens.tolist() == [newest] * 3
        assert target.hidden is not None
        states = target.hidden.rows(0, len(IDS), (LAYERS,))
        assert mx.array_equal(drafter.guesses(IDS, states), mx.argmax(logits[:-1], axis=-1))
        # Where the state of that row is not known there is nothing to draft from.
        longer = History([*IDS, newest, 1], target.vocabulary, SamplingSettings())
        assert drafter.offer(longer, 8) is None
    finally:
        assert target.hidden is not None
        target.hidden.remove()


def test_a_row_goes_in_where_it_came_out(engine: Engine) -> None:
    """Drafting on, the guessed state stands for the target's, and the target's own output layer says its token."""
    drafter, anatomy = drafter_of(engine), engine.anatomy
    assert anatomy is not None
    write(engine, EAGLE)
    head, caches = drafter.head, [KVCache()]
    state = head.fuse([mx.random.normal((1, 1, WIDTH))])
    rows, fed = head(head.embed(mx.array([[7]])), state, caches)
    assert mx.array_equal(rows, fed)
    np.testing.assert_allclose(np.array(head.say(rows[0])), np.array(anatomy.head(rows[0])), atol=1e-5)


# ---------------------------------------------------------------------------------------------------------- the caches


def check(engine: Engine, rows: int) -> None:
    """The head's rows, as many as `rows` or more, are those of a fresh read of what the target holds."""
    drafter = drafter_of(engine)
    n, known, hidden = len(drafter._places), drafter._known, engine.target.hidden
    assert hidden is not None
    assert drafter._places == list(range(n))
    assert n >= rows
    assert hidden.stop == len(engine.target.tokens)
    assert known[: n + 1] == engine.target.tokens[: n + 1]
    assert drafter._caches[0].offset >= n  # rows of guesses are behind the true ones until the next proposal
    taps = Taps(engine.anatomy, (LAYERS,))  # type: ignore[arg-type]
    engine.target.model(mx.array([engine.target.tokens]))
    (fresh,) = taps.take() or ()
    taps.remove()
    np.testing.assert_allclose(
        np.array(hidden.rows(0, hidden.stop, (LAYERS,))[0]), np.array(fresh[0]), atol=2e-3, rtol=1e-3
    )
    caches = [KVCache()]
    head = drafter.head
    head(head.embed(mx.array([known[1 : n + 1]])), head.fuse([fresh[:, :n]]), caches)
    for ours, theirs in ((drafter._caches[0].keys, caches[0].keys), (drafter._caches[0].values, caches[0].values)):
        np.testing.assert_allclose(np.array(ours[..., :n, :]), np.array(theirs[..., :n, :]), atol=5e-3)


def test_rows_after_drafts_that_held_and_that_failed(engine: Engine) -> None:
    rounds = write(engine, EAGLE)
    kept = {r.accepted for r in rounds if r.drafted}
    assert 0 in kept
    assert len(kept) > 1
    check(engine, 45)


@pytest.mark.parametrize("after", [1, 4])
def test_rows_after_a_stop(engine: Engine, after: int) -> None:
    """A reply that is stopped, and the next turn, which goes on from what is left of it."""
    count = 0

    def stop() -> bool:
        return count >= after

    said = []
    sampling = SamplingSettings(max_tokens=50, seed=4)
    for event in engine.generate(PROMPT, sampling, EAGLE, stop=stop):
        if isinstance(event, Round):
            said.append(event)
            count += 1
    assert len(said) == after
    check(engine, 5)
    messages = [*PROMPT, Message("assistant", "six"), Message("user", "and then")]
    again = tokens(write(engine, EAGLE, messages=messages))
    check(engine, 45)
    fresh = Engine(engine.target.model, engine.tokenizer)
    assert again == tokens(write(fresh, DrafterSettings(()), messages=messages))


def test_a_reply_that_is_left_leaves_the_rows_whole(engine: Engine) -> None:
    """Whoever reads the events may stop reading at any of them."""
    events = engine.generate(PROMPT, SamplingSettings(max_tokens=50, seed=4), EAGLE)
    for _ in range(6):
        next(events)
    events.close()  # type: ignore[attr-defined]
    edited = [Message("user", "one two nine")]
    again = tokens(write(engine, EAGLE, messages=edited))
    check(engine, 45)
    fresh = Engine(engine.target.model, engine.tokenizer)
    assert again == tokens(write(fresh, DrafterSettings(()), messages=edited))


def test_forgetting_leaves_nothing(engine: Engine) -> None:
    write(engine, EAGLE)
    engine.reset()
    drafter = drafter_of(engine)
    assert (drafter._places, drafter._known, [c.offset for c in drafter._caches]) == ([], [], [0])
    assert engine.target.hidden is not None
    assert engine.target.hidden.stop == 0
