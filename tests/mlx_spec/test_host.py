"""The engine process, for real: spawned, spoken to over its pipe, stopped, orphaned."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from mlx_spec import host
from mlx_spec.events import (
    Count,
    Counted,
    DrafterSettings,
    Event,
    Failed,
    Finished,
    Forget,
    Generate,
    Load,
    Loaded,
    Memory,
    Message,
    PromptProgress,
    Round,
    SamplingSettings,
    SetDrafters,
    Shutdown,
    Stop,
)

from .tiny import tiny_llama

ASK = (Message("user", "one two three four five"),)


class Peer:
    def __init__(self, home: Path) -> None:
        self.home = home
        context = multiprocessing.get_context("spawn")
        self.connection: Connection
        self.connection, other = context.Pipe()
        self.process: BaseProcess = context.Process(target=host.main, args=(other,), daemon=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OUTRIDER_HOME", str(home))
            self.process.start()
        other.close()

    def until(self, *kinds: type) -> list[Event]:
        events: list[Event] = []
        while not events or not isinstance(events[-1], kinds):
            assert self.connection.poll(60)
            events.append(self.connection.recv())
        return events


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    folder = tmp_path_factory.mktemp("tiny")
    peer = Peer(folder / "home")
    target, draft = tiny_llama(folder / "target"), tiny_llama(folder / "draft", layers=1)
    peer.connection.send(Load(1, str(target), str(draft)))
    loaded = peer.until(Loaded, Failed)[-1]
    assert isinstance(loaded, Loaded), loaded
    assert loaded.info.drafters == ("suffix", "lookup", "history", "model")
    yield peer
    peer.connection.send(Shutdown())
    peer.process.join(10)
    assert peer.process.exitcode == 0
    peer.connection.close()


def test_a_reply_in_order(peer: Peer) -> None:
    peer.connection.send(Generate(2, ASK, SamplingSettings(max_tokens=30, seed=1)))
    events = [e for e in peer.until(Finished, Failed) if not isinstance(e, Memory)]
    kinds = [type(e) for e in events]
    assert kinds == sorted(kinds, key=[PromptProgress, Round, Finished].index)
    assert all(getattr(e, "request", 2) == 2 for e in events)


def test_stop_and_toggle_in_mid_reply(peer: Peer) -> None:
    off = DrafterSettings(names=("model",), adaptive=False)
    peer.connection.send(Generate(3, ASK, SamplingSettings(temperature=1.0, seed=1, max_tokens=400), off))
    peer.until(Round)
    peer.connection.send(SetDrafters(DrafterSettings(names=())))
    for _ in range(100):
        last = peer.until(Round, Finished)[-1]
        if not isinstance(last, Round) or last.drafter is None:
            break
    assert isinstance(last, Round)
    assert last.drafter is None
    peer.connection.send(Stop(3))
    finished = peer.until(Finished)[-1]
    assert isinstance(finished, Finished)
    assert finished.reason in ("stopped", "stop")


def test_tokens_are_counted(peer: Peer) -> None:
    peer.connection.send(Count(41, ("one two three", "", "one two three one two three \ud800\0")))
    counted = peer.until(Counted)[-1]
    assert isinstance(counted, Counted)
    assert counted.request == 41
    assert counted.tokens[1] == 0
    assert 0 < counted.tokens[0] < counted.tokens[2]


def test_failures_are_sentences(peer: Peer, tmp_path: Path) -> None:
    peer.connection.send(Generate(4, ASK, SamplingSettings(top_p=7)))
    failed = peer.until(Failed)[-1]
    assert isinstance(failed, Failed)
    assert "top_p" in failed.message
    assert failed.remedy
    peer.connection.send(Generate(5, ASK, SamplingSettings(max_tokens=2)))
    assert isinstance(peer.until(Finished, Failed)[-1], Finished)


def test_replies_are_kept_by_chat_and_forgotten(peer: Peer) -> None:
    sampling = SamplingSettings(max_tokens=12, seed=1)
    peer.connection.send(Generate(6, ASK, sampling, chat=None))
    peer.until(Finished)
    peer.connection.send(Generate(7, ASK, sampling, chat="chat-7"))
    ids = [t for e in peer.until(Finished) if isinstance(e, Round) for t in e.tokens]
    peer.connection.send(Generate(8, ASK, SamplingSettings(max_tokens=1)))  # answered after the reply is kept
    peer.until(Finished)
    (file,) = (peer.home / "replies").glob("*.jsonl")
    assert [json.loads(line) for line in file.read_text().splitlines()] == [{"chat": "chat-7", "ids": ids}]
    assert list((peer.home / "learned").glob("*.json"))
    peer.connection.send(Forget("chat-7"))
    peer.connection.send(Generate(9, ASK, SamplingSettings(max_tokens=1)))
    peer.until(Finished)
    assert file.read_text() == ""


def test_keys_and_values_in_few_bits_are_asked_of_the_engine(tmp_path: Path) -> None:
    peer = Peer(tmp_path / "home")
    peer.connection.send(Load(1, str(tiny_llama(tmp_path / "target")), kv_bits=5))
    failed = peer.until(Loaded, Failed)[-1]
    assert isinstance(failed, Failed)
    assert failed.message == "Keys and values cannot be kept in 5 bits."
    peer.connection.send(Shutdown())
    peer.process.join(10)
    peer.connection.close()


def test_loading_what_is_no_model_is_refused(tmp_path: Path) -> None:
    peer = Peer(tmp_path / "home")
    peer.connection.send(Load(1, str(tmp_path)))
    failed = peer.until(Loaded, Failed)[-1]
    assert isinstance(failed, Failed)
    assert str(tmp_path) in failed.message
    assert failed.detail == ""
    peer.connection.send(Generate(2, ASK))
    assert "No model" in getattr(peer.until(Failed)[-1], "message", "")
    peer.connection.close()  # the window is gone: the process must not outlive it
    deadline = time.monotonic() + 10
    while peer.process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not peer.process.is_alive()
