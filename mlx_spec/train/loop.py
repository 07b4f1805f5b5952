"""Training a drafter for a model: write its answers, learn from them, measure, keep what is best.

The budget is time. A third of it the target writes (questions of ours, of the caller, and its own), the rest the head
learns; the learning rate falls with the share of the time that is spent. All that is made is on disk: a run that is
broken off, by a power cut or by the user, goes on where it was. Before anything is learned, and at the end, the share
of held-out chains is measured that a greedy draft would keep to 1, 2, 3, ... tokens.

Knows the machine only as a clock, a disk and a question whether it should wait.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_map, tree_unflatten

from ..anatomy import Anatomy, Taps, dissect
from ..drafters import eagle_files, medusa_files
from ..drafters.eagle_head import default_taps
from ..events import Problem
from ..files import replacing
from ..heads import mark
from ..weight_file import write_tensors
from . import eagle, medusa
from .answers import Array, Shard, template, write
from .data import Texts, frequent, shuffled
from .questions import questions

ROWS, LENGTH = 64, 384  # of a shard of answers
TOGETHER = 4  # texts a step
SPOKEN = 6144  # tokens that the head can say
DEPTH = 3  # steps of a chain
SHALLOW = 0.4
RATE, LEAST_RATE, WARM = 1e-3, 2e-5, 40  # learning rate; warm in steps
CLIP = 0.5
WRITING = 1 / 3  # of the time
HELD_OUT = 1 / 16  # of the first shard's rows at least 8
CHECKPOINT_S = 300.0

Report = Callable[[str, float, str], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of drafter that can be trained: how it begins, what it learns from a batch, which chains it keeps to, how
    it is written. `learned` and `measured` are tokens of a chain."""

    fresh: Callable[[Anatomy, Array, dict[str, Any]], nn.Module]
    loss: Callable[[Any, eagle.Teacher, eagle.Batch, int], mx.array]
    holds: Callable[[Any, eagle.Teacher, eagle.Batch, int], tuple[Array, int]]
    write: Callable[[Path, Any, Array, int, dict[str, Any]], None]
    learned: int
    measured: int
    shallow: float = 0.0  # share of the time in which only the first token of a chain is learned: it is a third as dear


KINDS: dict[str, Kind] = {
    "eagle3": Kind(eagle.fresh, eagle.loss, eagle.holds, eagle_files.write, DEPTH, DEPTH + 1, SHALLOW),
    "medusa": Kind(medusa.fresh, medusa.loss, medusa.holds, medusa_files.write, medusa.HEADS, medusa.HEADS),
}


@dataclass(slots=True)
class State:
    """What a run has come to; kept beside the weights."""

    spent_s: float = 0.0  # on learning
    wrote_s: float = 0.0
    step: int = 0
    tokens: int = 0  # learned from, chains counted once
    before: tuple[float, ...] = ()
    spoken_share: float = 0.0
    losses: list[float] = field(default_factory=list)  # one a hundred steps


@dataclass(frozen=True, slots=True)
class Trained:
    """`before` and `after` are the shares of held-out chains kept to 1, 2, ... tokens."""

    folder: Path
    before: tuple[float, ...]
    after: tuple[float, ...]
    steps: int
    tokens: int  # of text
    seconds: float


def train(
    model: nn.Module,
    tokenizer: Any,
    config: dict[str, Any],
    folder: Path,
    *,
    name: str,
    minutes: float,
    prompts: Sequence[str] = (),
    given: Sequence[Shard] = (),
    kind: str = "eagle3",
    seed: int = 0,
    disk: int = 8 << 30,
    report: Report = lambda stage, done, note: None,
    wait: Callable[[], bool] = lambda: False,
    stop: Callable[[], bool] = lambda: False,
) -> Trained:
    """Train a drafter for `model` in at most `minutes`, answers included; it is written to `place_of(folder, kind)`,
    what the run needs to go on to `folder`/run. All kinds learn from the same answers.

    `prompts` are asked besides the questions that come along; `given` are texts to learn from besides the answers.
    `wait` is asked between steps: while it is true (on battery, say) nothing is done and no time is counted.
    Raises `Problem` if the model's parts are not known, or nothing could be written.
    """
    anatomy = dissect(model)
    if anatomy is None:
        raise Problem(
            f"No drafter can be trained for {name}: its parts are not known.", "Use a draft model, or the copying ones."
        )
    if len(anatomy.layers) < 6:
        raise Problem(f"No drafter is worth training for {name}: it has {len(anatomy.layers)} layers.", "Use it plain.")
    model.eval()
    clock = Clock(minutes * 60, wait, stop)
    run = folder / "run"
    run.mkdir(parents=True, exist_ok=True)
    taps = Taps(anatomy, default_taps(len(anatomy.layers)))
    try:
        state = _state(run, kind)
        texts = Texts(run, disk)
        for shard in given[texts.shards :]:
            texts.add(shard)
        earlier = _written_for_others(run, kind)
        keep = partial(_keep_state, run, state, kind)
        _write_answers(
            model, anatomy, taps, tokenizer, texts, state, earlier, clock, prompts, len(given), seed, report, keep
        )
        keep()
        return _learn(anatomy, taps, texts, config, folder, state, clock, name, kind, tokenizer, seed, report)
    except OSError as e:
        raise Problem(
            f"The training cannot write to {run}: {e.strerror or e}.", "Make room, and start it again."
        ) from e
    finally:
        taps.remove()


def place_of(folder: Path, kind: str) -> Path:
    """Where a drafter of this kind is written: a folder each, beside the run whose answers they share."""
    whole = folder.resolve()  # "." has no name
    return folder if kind == "eagle3" else whole.with_name(f"{whole.name}-{kind}")


def forget(folder: Path, kind: str) -> None:
    """The next run of this kind begins anew: with its answers, too, if no other kind has learned from them."""
    run = folder / "run"
    for path in (_state_file(run, kind), _checkpoint(run, kind)):
        path.unlink(missing_ok=True)
    if run.exists() and not any(_state_file(run, other).exists() for other in KINDS):
        shutil.rmtree(run)


@dataclass(slots=True)
class Clock:
    """The time that is counted: what passes while the machine is to be left alone is not."""

    budget: float
    wait: Callable[[], bool]
    stop: Callable[[], bool]
    waited: float = 0.0

    def go(self) -> bool:
        """Whether to go on; waits as long as it must."""
        while not self.stop():
            if not self.wait():
                return True
            time.sleep(1)
            self.waited += 1
        return False


class Stopped(Exception):
    """The user wants no more of what is being written."""


def _write_answers(
    model: nn.Module,
    anatomy: Anatomy,
    taps: Taps,
    tokenizer: Any,
    texts: Texts,
    state: State,
    earlier: float,
    clock: Clock,
    prompts: Sequence[str],
    given: int,
    seed: int,
    report: Report,
    keep: Callable[[], None],
) -> None:
    """A third of the time goes into answers, less what other kinds' runs have spent on them (`earlier`). What they
    took is kept with each part of them (`keep`): a run that is broken off must not write for as long again."""
    form = template(tokenizer)

    def encode(text: str) -> list[int]:
        return [int(t) for t in tokenizer.encode(text, add_special_tokens=False)]

    room = clock.budget * WRITING - earlier
    while clock.go() and (state.wrote_s < room or not texts.rows):
        number = texts.shards
        began, waited = time.perf_counter(), clock.waited

        def spent(began: float = began, waited: float = waited) -> float:
            return time.perf_counter() - began - (clock.waited - waited)

        def tick(done: int, spent: Callable[[], float] = spent) -> None:
            share = min((state.wrote_s + spent()) / room, 1.0)
            report("answers", share, f"{texts.tokens + done * ROWS:,} tokens written")
            if texts.rows and not clock.go():
                raise Stopped

        asked = _both(prompts, questions(seed * 1000 + number), number - given)
        try:
            shard = write(model, anatomy, taps, form, encode, asked, ROWS, LENGTH, seed * 1000 + number, tick)
        except Stopped:
            break
        texts.add(shard)
        state.wrote_s += spent()
        keep()
        mx.clear_cache()
    if not texts.rows:
        raise Problem("The training was stopped before there was a text to learn from.", "Start it again.")


def _both(prompts: Sequence[str], others: Iterator[str], shard: int) -> Iterator[str]:
    """The caller's prompts first, a part of them a shard, then others."""
    yield from prompts[max(shard, 0) * ROWS : (max(shard, 0) + 1) * ROWS]
    yield from others


def _learn(
    anatomy: Anatomy,
    taps: Taps,
    texts: Texts,
    config: dict[str, Any],
    folder: Path,
    state: State,
    clock: Clock,
    name: str,
    kind: str,
    tokenizer: Any,
    seed: int,
    report: Report,
) -> Trained:
    run, what = folder / "run", KINDS[kind]
    vocabulary = int(anatomy.head(mx.zeros((1, 1, anatomy.width))).shape[-1])
    spoken = _spoken(run, texts, vocabulary, tokenizer, state)
    teacher = eagle.teacher(anatomy, spoken, vocabulary)
    mx.random.seed(seed)
    head = what.fresh(anatomy, spoken, config.get("text_config", config))
    optimizer = optim.AdamW(learning_rate=RATE, betas=[0.9, 0.95], weight_decay=0.0)
    optimizer.init(head.trainable_parameters())
    held = list(range(min(max(8, int(min(texts.rows, ROWS) * HELD_OUT)), max(texts.rows - 1, 1))))
    rows = list(range(len(held), texts.rows)) or held
    if not state.before:
        report("measure", 0.0, "held-out texts, before")
        state.before = measure(what, head, teacher, texts, anatomy, taps, held)
    _restore(_checkpoint(run, kind), head, optimizer)
    graded = side_by_side(head, lambda head, batch, depth: what.loss(head, teacher, batch, depth))
    budget = max(clock.budget - state.wrote_s, 1.0)
    kept_at = time.perf_counter()
    batches = shuffled(rows, min(TOGETHER, len(rows)), seed + state.step)
    recent: list[float] = []
    while state.spent_s < budget and clock.go():
        began = time.perf_counter()
        done = state.spent_s / budget
        optimizer.learning_rate = mx.array(rate(state.step, done))
        batch = texts.batch(next(batches), anatomy, taps)
        cost, gradients = graded(batch, 1 if done < what.shallow else what.learned)
        gradients, _ = optim.clip_grad_norm(gradients, CLIP)
        optimizer.update(head, gradients)
        mx.eval(cost, head.parameters(), optimizer.state)
        recent.append(float(cost.item()))
        if not math.isfinite(recent[-1]):
            raise Problem(
                "The training came to a number that is none.", "Start it again; it goes on from its last checkpoint."
            )
        state.step += 1
        state.tokens += int(batch.ids.size)
        state.spent_s += time.perf_counter() - began
        if state.step % 20 == 0:
            mx.clear_cache()
            report("learn", done, f"step {state.step}, loss {np.mean(recent[-50:]):.3f}")
        if state.step % 100 == 0:
            state.losses.append(round(float(np.mean(recent)), 4))
            recent.clear()
        if time.perf_counter() - kept_at > CHECKPOINT_S:
            _keep(run, head, optimizer, state, kind)
            kept_at = time.perf_counter()
    _keep(run, head, optimizer, state, kind)
    report("measure", 1.0, "held-out texts, after")
    after = measure(what, head, teacher, texts, anatomy, taps, held)
    about = {
        "outrider": {
            "target": name,
            "mark": mark(anatomy),
            "held_out_before": list(state.before),
            "held_out_after": list(after),
            "steps": state.step,
            "tokens_of_text": texts.tokens,
            "share_of_text_it_can_say": state.spoken_share,
        }
    }
    place = place_of(folder, kind)
    what.write(place, head, spoken.astype(np.int64), vocabulary, about)
    return Trained(place, state.before, after, state.step, texts.tokens, state.spent_s + state.wrote_s)


Graded = Callable[[eagle.Batch, int], Any]


def side_by_side(head: nn.Module, loss: Callable[[Any, eagle.Batch, int], mx.array]) -> Graded:
    """The loss of a batch to a depth, and its gradients by the head. Where there is no GPU both halves of a batch are
    computed at once, by a thread each: there most operations of mlx keep one core busy, whatever the machine has."""
    if mx.default_device() != mx.Device(mx.cpu):
        return nn.value_and_grad(head, partial(loss, head))
    heads = (head, copy.deepcopy(head))  # gradients are found by changing a head's weights for a while
    graded = [nn.value_and_grad(h, partial(loss, h)) for h in heads]
    workers = [ThreadPoolExecutor(1) for _ in heads]
    streams: dict[int, Any] = {}  # a stream belongs to the thread that made it

    def part(i: int, half: eagle.Batch, depth: int) -> Any:
        if i not in streams:
            streams[i] = mx.new_stream(mx.cpu)
        with mx.stream(streams[i]):
            found = graded[i](half, depth)
            mx.eval(found, heads[i].parameters())  # those that had no part in it would stay with this thread
        return found

    def both(batch: eagle.Batch, depth: int) -> Any:
        if len(batch.ids) < 2:
            return graded[0](batch, depth)
        heads[1].update(head.parameters())
        parts = halves(batch)
        mx.eval([(half.states, half.final) for half in parts])
        waiting = [w.submit(part, i, parts[i], depth) for i, w in enumerate(workers)]
        (cost, gradients), (other, others) = (f.result() for f in waiting)
        written = [int(half.mine.sum()) for half in parts]
        share = written[0] / max(sum(written), 1)  # one of them may have nothing to learn from
        return share * cost + (1 - share) * other, tree_map(lambda x, y: share * x + (1 - share) * y, gradients, others)

    return both


def halves(batch: eagle.Batch) -> tuple[eagle.Batch, eagle.Batch]:
    """The texts of a batch in two parts."""
    n = len(batch.ids) // 2

    def part(rows: slice) -> eagle.Batch:
        return eagle.Batch(batch.ids[rows], batch.mine[rows], [s[rows] for s in batch.states], batch.final[rows])

    return part(slice(0, n)), part(slice(n, None))


def rate(step: int, done: float) -> float:
    """The learning rate at `step`, when a share `done` of the time is spent."""
    warm = min(1.0, (step + 1) / WARM)
    return warm * (LEAST_RATE + (RATE - LEAST_RATE) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))


def measure(
    what: Kind,
    head: nn.Module,
    teacher: eagle.Teacher,
    texts: Texts,
    anatomy: Anatomy,
    taps: Taps,
    rows: Sequence[int],
) -> tuple[float, ...]:
    """The share of chains in the texts `rows` that a greedy draft keeps to 1, 2, ... tokens."""
    kept, chains = np.zeros(what.measured, np.int64), 0
    for i in range(0, len(rows), TOGETHER):
        found, count = what.holds(head, teacher, texts.batch(rows[i : i + TOGETHER], anatomy, taps), what.measured)
        kept, chains = kept + found, chains + count
        mx.clear_cache()
    return tuple(round(float(k) / max(chains, 1), 4) for k in kept)


def _spoken(run: Path, texts: Texts, vocabulary: int, tokenizer: Any, state: State) -> Array:
    """The tokens that the head can say: chosen once for all kinds of a run."""
    path = run / "spoken.npy"
    if path.exists():
        try:
            chosen: Array = np.load(path)
        except (ValueError, EOFError) as e:
            raise Problem(f"The list of tokens {path} is damaged: {e}.", "Remove that folder, and start anew.") from e
        if not state.spoken_share:
            state.spoken_share = float(np.isin(texts.ids[texts.mine], chosen).sum() / max(texts.mine.sum(), 1))
        return chosen
    found, state.spoken_share = frequent(texts, SPOKEN, vocabulary, [int(t) for t in tokenizer.eos_token_ids])
    with replacing(path) as part, part.open("wb") as file:
        np.save(file, found)
    return found


def _state_file(run: Path, kind: str) -> Path:
    return run / ("state.json" if kind == "eagle3" else f"state-{kind}.json")


def _checkpoint(run: Path, kind: str) -> Path:
    return run / ("checkpoint" if kind == "eagle3" else f"checkpoint-{kind}")


def _written_for_others(run: Path, kind: str) -> float:
    """Seconds that other kinds' runs have spent on the answers."""
    return sum(_state(run, other).wrote_s for other in KINDS if other != kind)


def _state(run: Path, kind: str) -> State:
    try:
        state = State(**json.loads(_state_file(run, kind).read_text("utf-8")))
    except FileNotFoundError:
        return State()
    except (ValueError, TypeError) as e:
        raise Problem(f"The training in {run} is damaged: {e}.", "Remove that folder, and start it again.") from e
    state.before = tuple(state.before)
    return state


def _keep_state(run: Path, state: State, kind: str) -> None:
    with replacing(_state_file(run, kind)) as part:
        part.write_text(json.dumps(asdict(state)), "utf-8")


def _keep(run: Path, head: nn.Module, optimizer: optim.Optimizer, state: State, kind: str) -> None:
    """A checkpoint: weights and optimizer in one file, then the state that belongs to them."""
    tensors: dict[str, mx.array] = {f"head.{n}": v for n, v in dict(tree_flatten(head.parameters())).items()}
    tensors |= {f"optimizer.{n}": v for n, v in dict(tree_flatten(optimizer.state)).items()}
    write_tensors(_checkpoint(run, kind), tensors)
    _keep_state(run, state, kind)


def _restore(path: Path, head: nn.Module, optimizer: optim.Optimizer) -> None:
    if not path.exists():
        return
    try:
        tensors: Any = mx.load(str(path), format="safetensors")
        parts = {
            of: [(n.removeprefix(of), v) for n, v in tensors.items() if n.startswith(of)]
            for of in ("head.", "optimizer.")
        }
        head.load_weights(parts["head."])
        optimizer.state = tree_unflatten(parts["optimizer."])
        mx.eval(head.parameters(), optimizer.state)
    except (RuntimeError, ValueError) as e:
        raise Problem(f"The checkpoint {path} is damaged: {e}.", "Remove it, and start again: the answers stay.") from e
