"""Medusa heads: the text stays plain decoding's, the maths is the paper's, files are read or refused, heads learn."""

from __future__ import annotations

import io
import json
import pickle
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map

from mlx_spec import heads as all_heads
from mlx_spec.anatomy import dissect
from mlx_spec.drafters import medusa_files
from mlx_spec.drafters.base import Context, Offer
from mlx_spec.drafters.medusa import Medusa, MedusaHead, MedusaHeads
from mlx_spec.engine import Engine, load_engine
from mlx_spec.events import DrafterSettings, Message, Problem, Round, SamplingSettings
from mlx_spec.sampling import History
from mlx_spec.target import Target
from mlx_spec.train import eagle, loop, medusa
from mlx_spec.train.data import Texts

from . import zoo
from .test_parity import PROMPT as IDS
from .test_parity import write as decode
from .tiny import tiny_llama, tiny_model

PROMPT = [Message("user", "one two three four five")]
VOCABULARY, WIDTH = 320, 64
SPOKEN = np.sort(np.random.default_rng(5).permutation(VOCABULARY)[:200]).astype(np.int64)


def make(count: int = 3, blocks: int = 1, said: int = 0, turn: bool = False, scale: float = 0.02) -> MedusaHeads:
    """Random heads that say about what the target's output layer says."""
    mx.random.seed(3)
    made = MedusaHeads([MedusaHead(WIDTH, blocks, said, turn) for _ in range(count)])
    made.update(tree_map(lambda v: mx.random.normal(v.shape) * scale, made.parameters()))
    mx.eval(made.parameters())
    return made


def published(heads: MedusaHeads, blocks: int = 1) -> dict[str, mx.array]:
    """Their tensors as the authors name them."""
    found = {}
    for k, head in enumerate(heads.heads):
        for j, block in enumerate(head.blocks):
            found |= {f"{k}.{j}.linear.weight": block.linear.weight, f"{k}.{j}.linear.bias": block.linear.bias}
        found[f"{k}.{blocks}.weight"] = head.lm_head.weight
    return found


def save(folder: Path, tensors: dict[str, mx.array], **config: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)
    (folder / "config.json").write_text(json.dumps({"medusa_num_heads": 2, "medusa_num_layers": 1, **config}))
    return folder


def same(a: nn.Module, b: nn.Module) -> bool:
    ours, theirs = dict(tree_flatten(a.parameters())), dict(tree_flatten(b.parameters()))
    return ours.keys() == theirs.keys() and all(np.array_equal(np.array(ours[n]), np.array(theirs[n])) for n in ours)


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    yield
    mx.clear_cache()


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    medusa_files.write(tmp_path / "head", make(turn=True), SPOKEN, VOCABULARY, {})
    return load_engine(tiny_llama(tmp_path / "target", layers=3), head=tmp_path / "head")


def write(engine: Engine, sampling: SamplingSettings, settings: DrafterSettings) -> list[Round]:
    return [e for e in engine.generate(PROMPT, sampling, settings) if isinstance(e, Round)]


# ------------------------------------------------------------------------------------------------------------ the text


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("adaptive", [False, True])
def test_the_text_is_plain_decodings(engine: Engine, temperature: float, adaptive: bool) -> None:
    sampling = SamplingSettings(max_tokens=50, seed=4, temperature=temperature, repetition_penalty=1.1)
    plain = [t for r in write(engine, sampling, DrafterSettings(())) for t in r.tokens]
    engine.reset()
    rounds = write(engine, sampling, DrafterSettings(("medusa",), adaptive=adaptive, max_draft=8))
    assert [t for r in rounds for t in r.tokens] == plain
    drafted = [len(r.drafted) for r in rounds if r.drafter == "medusa"]
    assert drafted
    assert adaptive or max(drafted) == 3  # as many as there are heads


@pytest.mark.parametrize("name", ["qwen3_next", "gemma2"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_other_models_text_is_plain_decodings(name: str, temperature: float) -> None:
    """A model with recurrent layers, and one that caps its logits."""
    target = Target(zoo.build(name))
    plain, _, _ = decode(target, IDS, temperature, tokens=30)
    target.reset()
    anatomy = dissect(target.model)
    assert anatomy is not None
    all_heads.want(target, anatomy, (len(anatomy.layers),))
    drafter = Medusa(make(scale=0.1), None, target, anatomy)
    text, by, _ = decode(target, IDS, temperature, drafter, tokens=30)
    assert text == plain
    assert by["medusa"].drafted > 20


# ----------------------------------------------------------------------------------------------------------- the maths


def bound(heads: MedusaHeads, ids: np.ndarray | None = None) -> tuple[Medusa, Target]:
    target = Target(tiny_model(seed=2))
    anatomy = dissect(target.model)
    assert anatomy is not None
    all_heads.want(target, anatomy, (len(anatomy.layers),))
    return Medusa(heads, ids, target, anatomy), target


def context(tokens: list[int], temperature: float, coupled: bool = True, **more: Any) -> Context:
    sampling = SamplingSettings(temperature=temperature)
    return Context(History(tokens, VOCABULARY, sampling), sampling, 7, coupled, **more)


@pytest.mark.parametrize("own", [True, False])
def test_the_forward_pass_is_the_papers(own: bool) -> None:
    heads = make(2, blocks=2, said=200 if own else 0, turn=not own, scale=0.1)
    drafter, target = bound(heads, SPOKEN)
    state = np.random.default_rng(1).normal(size=(1, WIDTH)).astype(np.float32)
    rows: Any = target.model
    theirs = np.array(rows.model.embed_tokens.weight)[SPOKEN]
    for head, said in zip(heads.heads, drafter.say(mx.array(state), 2), strict=True):
        x = state
        for block in head.blocks:
            y = x @ np.array(block.linear.weight).T + np.array(block.linear.bias)
            x = x + y / (1 + np.exp(-y))
        if not own:
            x = x + x @ np.array(head.turn.weight).T
        expected = x @ (np.array(head.lm_head.weight) if own else theirs).T
        np.testing.assert_allclose(np.array(said), expected, rtol=2e-4, atol=2e-4)


def test_drafts_come_from_the_row_before_the_newest_token() -> None:
    """Heads that do nothing say at a row what the target says there: the newest token, which it chose itself."""
    heads = make(3, scale=0.0)
    drafter, target = bound(heads)
    tokens = [3, 14, 15, 92, 65, 35]
    logits = target.run(mx.array(tokens, mx.uint32), tokens)
    newest = int(mx.argmax(logits[-1]).item())
    draft = drafter.propose(context([*tokens, newest], 0.0), Offer(3), 3)
    assert draft.tokens.tolist() == [newest] * 3
    assert drafter.offer(History([*tokens, newest], VOCABULARY, SamplingSettings()), 8) == Offer(3)
    # Where the state of that row is not known there is nothing to draft from.
    assert drafter.offer(History([*tokens, newest, 1], VOCABULARY, SamplingSettings()), 8) is None


@pytest.mark.parametrize("ids", [None, np.array([3, 5, 8, 90])])
def test_the_targets_rows_speak_as_the_target_does(ids: np.ndarray | None) -> None:
    """Caps and scales are its own, too."""
    target = Target(zoo.build("gemma2"))
    anatomy = dissect(target.model)
    assert anatomy is not None
    hidden = all_heads.want(target, anatomy, (len(anatomy.layers),))
    logits = target.run(mx.array(IDS, mx.uint32), IDS)[-1]
    drafter = Medusa(make(2, scale=0.0), ids, target, anatomy)
    for said in drafter.say(hidden.rows(len(IDS) - 1, len(IDS), (len(anatomy.layers),))[0], 2):
        assert mx.allclose(said[0], logits if ids is None else logits[mx.array(ids)], atol=1e-4)


def test_an_unsure_draft_ends_early() -> None:
    drafter, target = bound(make(3))
    target.run(mx.array([3, 14, 15], mx.uint32), [3, 14, 15])
    draft = drafter.propose(context([3, 14, 15, 9], 0.0, goes_on=lambda sure: False), Offer(3), 3)
    assert 1 <= draft.tokens.shape[0] < 3
    assert 0 < draft.sureness[0] < 1


def test_sampled_drafts_bring_the_law_that_they_are_drawn_from() -> None:
    drafter, target = bound(make(3), SPOKEN)
    target.run(mx.array([3, 14, 15], mx.uint32), [3, 14, 15])
    draft = drafter.propose(context([3, 14, 15, 9], 0.9, coupled=False), Offer(3), 3)
    assert draft.logq is not None
    law = np.exp(np.array(draft.logq))
    np.testing.assert_allclose(law.sum(-1), 1, atol=1e-4)
    assert np.delete(law, SPOKEN, axis=1).max() == 0
    assert set(draft.tokens.tolist()) <= set(SPOKEN.tolist())


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_it_drafts_for_the_papers_rules(engine: Engine, rule: str) -> None:
    sampling = SamplingSettings(max_tokens=30, seed=4, temperature=0.9)
    rounds = write(engine, sampling, DrafterSettings(("medusa",), rule=rule, adaptive=False, max_draft=3))
    assert sum(len(r.tokens) for r in rounds) == 30
    assert sum(len(r.drafted) for r in rounds) > 20


# ------------------------------------------------------------------------------------------------------------ the files


@pytest.mark.parametrize("kind", ["own", "shared", "turn"])
def test_what_is_written_is_read(tmp_path: Path, kind: str) -> None:
    heads = make(2, blocks=2, said=200 if kind == "own" else 0, turn=kind == "turn")
    about = {"outrider": {"target": "tiny", "mark": [1.0]}}
    medusa_files.write(tmp_path, heads, SPOKEN, VOCABULARY, about, None)
    loaded = medusa_files.read(tmp_path, hidden=WIDTH, vocabulary=VOCABULARY)
    assert same(loaded.heads, heads)
    assert np.array_equal(loaded.ids, SPOKEN)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["medusa_num_heads"], config["medusa_num_layers"]) == (2, 2)
    assert config["base_model_name_or_path"] == "tiny"
    assert all_heads.kind(tmp_path) == "medusa"


def test_eight_bits_are_near(tmp_path: Path) -> None:
    heads = make(2, said=200)
    medusa_files.write(tmp_path, heads, SPOKEN, VOCABULARY, {})
    loaded = medusa_files.read(tmp_path, hidden=WIDTH, vocabulary=VOCABULARY)
    x = mx.random.normal((1, WIDTH))
    for ours, theirs in zip(heads.heads, loaded.heads.heads, strict=True):
        near = theirs.lm_head(theirs(x))
        assert mx.allclose(near, ours.lm_head(ours(x)), atol=0.02)
        assert hasattr(theirs.lm_head, "bits")


def torch_file(path: Path, tensors: dict[str, mx.array], monkeypatch: pytest.MonkeyPatch) -> None:
    """Write what torch.save writes, without torch."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    storage = type("FloatStorage", (), {"__module__": "torch"})

    def rebuild(*args: object) -> None: ...

    rebuild.__module__, rebuild.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    torch.FloatStorage, utils._rebuild_tensor_v2 = storage, rebuild  # type: ignore[attr-defined]

    class Raw:
        def __init__(self, key: str, values: np.ndarray) -> None:
            self.key, self.values = key, values

        def __reduce__(self) -> tuple[Any, ...]:
            shape = self.values.shape
            strides = tuple(s // self.values.itemsize for s in self.values.strides)
            return rebuild, (Stored(self.key, self.values.size), 0, shape, strides, False, OrderedDict())

    class Stored:
        def __init__(self, key: str, size: int) -> None:
            self.key, self.size = key, size

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: object) -> Any:
            return ("storage", storage, obj.key, "cpu", obj.size) if isinstance(obj, Stored) else None

    arrays = {n: np.array(v.astype(mx.float32)) for n, v in tensors.items()}
    buffer = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", torch)
        patch.setitem(sys.modules, "torch._utils", utils)
        Pickler(buffer, 2).dump(OrderedDict((n, Raw(str(i), v)) for i, (n, v) in enumerate(arrays.items())))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("medusa_lm_head/data.pkl", buffer.getvalue())
        for i, value in enumerate(arrays.values()):
            archive.writestr(f"medusa_lm_head/data/{i}", value.tobytes())


def test_a_published_file_is_read_and_its_heads_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = make(5, said=VOCABULARY)
    save(tmp_path, {}, medusa_num_heads=2)
    (tmp_path / "model.safetensors").unlink()
    torch_file(tmp_path / "medusa_lm_head.pt", published(heads), monkeypatch)
    loaded = medusa_files.read(tmp_path, hidden=WIDTH, vocabulary=VOCABULARY)
    assert same(loaded.heads, heads)
    assert loaded.ids is None


def test_heads_inside_a_model_are_found(tmp_path: Path) -> None:
    heads = make(2, said=VOCABULARY)
    save(tmp_path, {f"medusa_head.{n}": v for n, v in published(heads).items()})
    assert same(medusa_files.read(tmp_path, hidden=WIDTH, vocabulary=VOCABULARY).heads, heads)


def refusal(tmp_path: Path, tensors: dict[str, mx.array], hidden: int = WIDTH, vocabulary: int = VOCABULARY) -> str:
    with pytest.raises(Problem) as refused:
        medusa_files.read(save(tmp_path, tensors), hidden=hidden, vocabulary=vocabulary)
    assert refused.value.remedy
    return refused.value.message


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    whole = published(make(3, said=VOCABULARY))

    def less(*names: str) -> dict[str, mx.array]:
        return {n: v for n, v in whole.items() if n not in names}

    assert "incomplete: 1.0.linear.bias is missing" in refusal(tmp_path, less("1.0.linear.bias"))
    assert "incomplete: 1.0.linear.weight is missing" in refusal(tmp_path, less("1.0.linear.weight"))
    assert "no Medusa head" in refusal(tmp_path, {"fc.weight": mx.zeros((2, 2))})
    assert "0.0.linear.weight is [64, 64] and should be [32, 32]" in refusal(tmp_path, whole, hidden=32)
    assert "0.1.weight is [320, 32] and should be [320, 64]" in refusal(
        tmp_path, {**whole, "0.1.weight": mx.zeros((VOCABULARY, 32))}
    )
    assert "with 320 tokens, and this one has 49,152" in refusal(tmp_path, whole, vocabulary=49152)
    offsets = mx.array(SPOKEN - np.arange(len(SPOKEN)))
    assert "head 0 says 320 tokens, and its map (d2t) has 200" in refusal(tmp_path, {**whole, "d2t": offsets})
    assert "maps its tokens (d2t)" in refusal(tmp_path, {**whole, "d2t": mx.full((VOCABULARY,), 1)})
    (tmp_path / "model.safetensors").write_bytes(b"no tensors at all")
    with pytest.raises(Problem, match="cannot be read"):
        medusa_files.read(tmp_path, hidden=WIDTH, vocabulary=VOCABULARY)


def test_a_torch_file_that_would_run_something_is_refused(tmp_path: Path) -> None:
    save(tmp_path, {})
    (tmp_path / "model.safetensors").unlink()
    with zipfile.ZipFile(tmp_path / "medusa_lm_head.pt", "w") as archive:
        archive.writestr("medusa_lm_head/data.pkl", pickle.dumps(print))
    with pytest.raises(Problem, match=r"would run .*print"):
        medusa_files.read(tmp_path, hidden=WIDTH, vocabulary=VOCABULARY)


# --------------------------------------------------------------------------------------------------------- the training


def test_heads_start_as_the_target_and_learn() -> None:
    """The text counts by threes: what comes two and three tokens later is certain, and the state says where it is."""
    anatomy = dissect(tiny_model(seed=2))
    assert anatomy is not None
    teacher = eagle.teacher(anatomy, SPOKEN.astype(np.int32), VOCABULARY)
    ids = SPOKEN[(np.arange(4)[:, None] * 17 + 3 * np.arange(24)[None]) % len(SPOKEN)].astype(np.int32)
    final = anatomy.embedding(mx.array(np.roll(ids, -1, axis=1))) * 4  # such a state makes the next token likely
    batch = eagle.Batch(ids, np.ones_like(ids, bool), [], final)
    heads = medusa.fresh(anatomy, SPOKEN, {})
    first = next(medusa.steps(heads, batch, 4))
    assert mx.array_equal(first, final[:, :19])
    before = medusa.loss(heads, teacher, batch, 4)
    optimizer = optim.AdamW(learning_rate=1e-2, weight_decay=0.0)
    graded = nn.value_and_grad(heads, lambda b: medusa.loss(heads, teacher, b, 4))
    for _ in range(30):
        cost, gradients = graded(batch)
        optimizer.update(heads, gradients)
        mx.eval(cost, heads.parameters(), optimizer.state)
    assert cost.item() < 0.7 * before.item()
    kept, chains = medusa.holds(heads, teacher, batch, 4)
    assert chains == 4 * 19
    assert list(kept) == sorted(kept, reverse=True)
    assert kept[0] > 0.3 * chains


def test_a_run_learns_from_the_answers_of_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "ROWS", 8)
    monkeypatch.setattr(loop, "LENGTH", 120)
    loaded = load_engine(tiny_llama(tmp_path / "target", layers=6))
    config = json.loads((tmp_path / "target" / "config.json").read_text())

    def train(kind: str, minutes: float) -> loop.Trained:
        model, folder = loaded.target.model, tmp_path / "heads" / "tiny"
        return loop.train(model, loaded.tokenizer, config, folder, name="tiny", minutes=minutes, kind=kind)

    train("eagle3", 0.02)
    run = tmp_path / "heads" / "tiny" / "run"
    answers = sorted(run.glob("answers-*"))
    state = (run / "state.json").read_bytes()
    assert Texts(run, 0).mine.any()
    found = train("medusa", 0.02)
    assert sorted(run.glob("answers-*")) == answers
    assert (run / "state.json").read_bytes() == state
    assert found.folder == tmp_path / "heads" / "tiny-medusa"
    assert found.steps > 0
    assert len(found.after) == medusa.HEADS
    monkeypatch.setattr(loop, "WRITING", 0)
    assert train("medusa", 0.04).steps > found.steps  # it goes on where it was
    # Both are found by the mark of their target.
    anatomy = loaded.anatomy
    assert anatomy is not None
    assert set(all_heads.find([tmp_path / "heads"], anatomy)) == {"eagle3", "medusa"}
    assert "medusa" in load_engine(tmp_path / "target", heads=[tmp_path / "heads"]).drafters
    # Its own run is forgotten, the other's is not; the last one takes the answers with it.
    loop.forget(tmp_path / "heads" / "tiny", "medusa")
    assert sorted(f.name for f in run.glob("*-medusa*")) == []
    assert (run / "state.json").exists()
    loop.forget(tmp_path / "heads" / "tiny", "eagle3")
    assert not run.exists()
