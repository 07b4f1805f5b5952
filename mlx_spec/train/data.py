"""The texts of a training on disk, and what the target thought of them.

Texts are kept in shards, written once: a run that was broken off goes on where it was. The target's states, which are
at hand when it writes, are kept beside them in half precision while there is room; beyond the room they are computed
anew whenever they are asked for.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from ..anatomy import Anatomy, Taps
from ..events import Problem
from ..files import replacing
from .answers import Array, Shard, half
from .eagle import Batch


class Texts:
    """The shards of a folder: `answers-NNNN.npz` and, where there was room, `states-NNNN.npy`."""

    def __init__(self, folder: Path, room: int) -> None:
        """`room` bytes of disk may be used for states."""
        self.folder, self.room = folder, room
        self.ids = np.zeros((0, 0), np.int32)
        self.mine = np.zeros((0, 0), bool)
        self._states: list[tuple[int, Any]] = []  # for each shard its first row, and its states or None
        self.read()

    def read(self) -> None:
        """Take up what is in the folder now. Shards of another length than the first are left alone. Raises `Problem`
        if one is damaged."""
        ids: list[Array] = []
        mine: list[Array] = []
        self._states, rows = [], 0
        for path in self._paths():
            with _sound(path), path.open("rb") as file, np.load(file) as shard:
                if ids and shard["ids"].shape[1] != ids[0].shape[1]:
                    continue
                ids.append(shard["ids"])
                mine.append(shard["mine"])
            states = self._states_of(path)
            with _sound(states):
                self._states.append((rows, np.load(states, mmap_mode="r") if states.exists() else None))
            rows += len(ids[-1])
        if ids:
            self.ids, self.mine = np.concatenate(ids), np.concatenate(mine)

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("answers-[0-9]*.npz"))

    @staticmethod
    def _states_of(path: Path) -> Path:
        return path.with_name(path.stem.replace("answers", "states") + ".npy")

    @property
    def shards(self) -> int:
        """How many there were; some may have been removed, and no number is given twice."""
        return int(self._paths()[-1].stem.rpartition("-")[2]) + 1 if self._paths() else 0

    @property
    def rows(self) -> int:
        return len(self.ids)

    @property
    def tokens(self) -> int:
        return int(self.ids.size)

    def add(self, shard: Shard) -> None:
        """Keep one more shard. Raises OSError if the disk does not take it."""
        path = self.folder / f"answers-{self.shards:04d}.npz"
        used = sum(s.nbytes for _, s in self._states if s is not None)
        if shard.states is not None and used + shard.states.nbytes <= self.room:
            with replacing(self._states_of(path)) as part, part.open("wb") as file:
                np.save(file, shard.states)
        else:
            self._states_of(path).unlink(missing_ok=True)  # of a shard that was removed
        with replacing(path) as part, part.open("wb") as file:
            np.savez(file, ids=shard.ids, mine=shard.mine)
        self.read()

    def states(self, row: int) -> Array | None:
        """(length, taps + 1, D) float16 of one text, if they were kept."""
        first, kept = next((s for s in reversed(self._states) if s[0] <= row), (0, None))
        return None if kept is None else np.asarray(kept[row - first])

    def batch(self, rows: Sequence[int], anatomy: Anatomy, taps: Taps) -> Batch:
        """The texts `rows` with their states."""
        kept = [self.states(r) for r in rows]
        missing = [r for r, states in zip(rows, kept, strict=True) if states is None]
        if missing:
            read = iter(think(anatomy, taps, self.ids[missing]))
            kept = [next(read) if states is None else states for states in kept]
        found = mx.array(np.stack([k for k in kept if k is not None])).astype(mx.float32)
        states = [found[:, :, i] for i in range(found.shape[2])]
        return Batch(self.ids[list(rows)], self.mine[list(rows)], states[:-1], states[-1])


@contextmanager
def _sound(path: Path) -> Iterator[None]:
    """Says which file it is that cannot be read."""
    try:
        yield
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as e:
        raise Problem(f"The texts in {path} are damaged: {e}.", "Remove that file, and start it again.") from e


def think(anatomy: Anatomy, taps: Taps, ids: Array) -> Array:
    """The states of texts (b, n), read in one pass: float16 (b, n, taps + 1, D)."""
    final = anatomy.body(mx.array(ids))
    result = np.array(half([*(taps.take() or []), final]))
    mx.clear_cache()
    return result


def frequent(texts: Texts, most: int, vocabulary: int, always: Sequence[int] = ()) -> tuple[Array, float]:
    """The `most` tokens of the vocabulary that the target writes most often, ascending, `always` among them; and which
    share of what it wrote they are. Where it wrote fewer, those with the lowest ids fill up: merges are learned from
    the most frequent on."""
    counts = np.bincount(texts.ids[texts.mine], minlength=vocabulary)
    weights = counts.astype(np.float64)
    weights[[t for t in always if t < len(weights)]] = np.inf
    chosen = np.sort(np.argsort(-weights, kind="stable")[:most])
    return chosen.astype(np.int32), float(counts[chosen].sum() / max(counts.sum(), 1))


def shuffled(rows: Sequence[int], batch: int, seed: int) -> Iterator[list[int]]:
    """Batches of `rows` without end: every row once before any comes twice."""
    chance = np.random.default_rng(seed)
    order: list[int] = []
    while True:
        order += [int(r) for r in chance.permutation(np.array(rows))]
        while len(order) >= batch:
            yield order[:batch]
            del order[:batch]
