"""Several downloads: at once, paused, gone on with after a restart, and one that fails without the others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlx_spec.events import Problem
from models import fetch, paths, queue
from models.queue import DownloadQueue
from models.repo import folder_plan
from tests.models.hub_stand_in import HubStandIn, mlx_about, model_files, wait_for

NAMES = ("a/one", "a/two", "a/three")


@pytest.fixture
def three(hub: HubStandIn) -> HubStandIn:
    for i, name in enumerate(NAMES):
        hub.add(name, model_files(bytes([i]) * 100_000), **mlx_about())
    return hub


@pytest.fixture
def downloads(three: HubStandIn) -> Iterator[DownloadQueue]:
    one = DownloadQueue()
    yield one
    three.hold.clear()
    one.close()


def states(downloads: DownloadQueue) -> dict[str, str]:
    return {job.name: job.state for job in downloads.jobs()}


def started(downloads: DownloadQueue, name: str) -> bool:
    return any(job.name == name and job.done > 5_000 for job in downloads.jobs())


def test_all_come_two_at_a_time(three: HubStandIn, downloads: DownloadQueue) -> None:
    three.hold.set()
    for name in NAMES:
        downloads.add(folder_plan(name))
    wait_for(lambda: started(downloads, "a/one") and started(downloads, "a/two"))
    assert states(downloads)["a/three"] == "waiting"
    three.hold.clear()
    wait_for(lambda: set(states(downloads).values()) == {"done"})
    assert all(fetch.cached(name) for name in NAMES)
    assert not downloads.busy
    downloads.clear_done()
    assert downloads.jobs() == ()
    assert fetch.cached("a/one")


def test_pause_keeps_what_came_and_lets_the_next_one_run(three: HubStandIn, downloads: DownloadQueue) -> None:
    three.hold.set()
    for name in NAMES:
        downloads.add(folder_plan(name))
    wait_for(lambda: started(downloads, "a/one"))
    downloads.pause("a/one")
    wait_for(lambda: states(downloads)["a/three"] == "running")
    assert states(downloads)["a/one"] == "paused"
    kept = fetch.here(folder_plan("a/one"))
    assert kept > 0
    three.hold.clear()
    downloads.resume("a/one")
    wait_for(lambda: set(states(downloads).values()) == {"done"})
    ranges = [h["Range"] for p, _, h in three.asked if p.startswith("/a/one/") and p.endswith("safetensors")]
    assert len(ranges) == 2
    assert ranges[1] != "bytes=0-"


def test_a_restart_goes_on(three: HubStandIn, downloads: DownloadQueue) -> None:
    three.hold.set()
    downloads.add(folder_plan("a/one"))
    downloads.add(folder_plan("a/two"))
    wait_for(lambda: started(downloads, "a/one"))
    downloads.pause("a/two")
    downloads.close()
    three.hold.clear()
    asked = len(three.asked)
    assert queue.unfinished()
    again = DownloadQueue()
    wait_for(lambda: states(again)["a/one"] == "done")
    assert states(again)["a/two"] == "paused"  # what a person paused stays paused
    firsts = [h["Range"] for p, _, h in three.asked[asked:] if p.endswith("safetensors")]
    assert firsts
    assert firsts[0] != "bytes=0-"
    again.close()
    assert not queue.unfinished()


def test_one_that_fails_says_why_and_the_rest_goes_on(three: HubStandIn, downloads: DownloadQueue) -> None:
    plan = folder_plan("a/one")
    three.statuses["/a/one/resolve"] = 403
    downloads.add(plan)
    downloads.add(folder_plan("a/two"))
    wait_for(lambda: not downloads.busy)
    assert states(downloads) == {"a/one": "failed", "a/two": "done"}
    assert "(403)" in downloads.jobs()[0].trouble
    again = DownloadQueue(start=False)  # the reason is kept, and nothing is tried by itself
    assert (again.jobs()[0].state, "(403)" in again.jobs()[0].trouble) == ("failed", True)
    three.statuses.clear()
    downloads.resume("a/one")
    wait_for(lambda: states(downloads)["a/one"] == "done")


def test_a_bug_in_one_is_one_sentence(
    three: HubStandIn, downloads: DownloadQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "link", lambda _: 1 / 0)
    downloads.add(folder_plan("a/one"))
    wait_for(lambda: states(downloads)["a/one"] == "failed")
    assert "ZeroDivisionError" in downloads.jobs()[0].trouble


def test_giving_up_removes_what_came(three: HubStandIn, downloads: DownloadQueue) -> None:
    three.hold.set()
    downloads.add(folder_plan("a/one"))
    wait_for(lambda: started(downloads, "a/one"))
    downloads.cancel("a/one")
    assert downloads.jobs() == ()
    wait_for(lambda: not fetch.repo_dir("a/one").exists())
    downloads.cancel("a/one")  # twice is no harm


def test_the_disk_is_asked_for_all_that_is_queued(
    three: HubStandIn, downloads: DownloadQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    three.hold.set()
    plans = [folder_plan(name) for name in NAMES]
    free = fetch.SPARE + 250_000
    usage = shutil._ntuple_diskusage(10**12, 10**12, free)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    downloads.add(plans[0])
    downloads.add(plans[1])
    with pytest.raises(Problem, match="beside"):
        downloads.add(plans[2])
    assert "a/three" not in states(downloads)


def test_the_same_one_twice_is_one(three: HubStandIn, downloads: DownloadQueue) -> None:
    for _ in range(2):
        downloads.add(folder_plan("a/one"))
    wait_for(lambda: states(downloads)["a/one"] == "done")
    assert len(downloads.jobs()) == 1


@pytest.mark.parametrize("text", ["", "{", "[1, {}, null]", '{"a": 1}', '[{"plan": {"files": []}, "state": "done"}]'])
def test_a_damaged_list_is_an_empty_one(three: HubStandIn, text: str) -> None:
    paths.downloads_dir().mkdir(parents=True)
    (paths.downloads_dir() / "queue.json").write_text(text)
    assert DownloadQueue(start=False).jobs() == ()


def test_a_list_that_cannot_be_written_stops_nothing(three: HubStandIn, tmp_path: Path) -> None:
    paths.home().parent.mkdir(parents=True, exist_ok=True)
    paths.home().write_text("a file in its place")
    one = DownloadQueue()
    one.add(folder_plan("a/one"))
    wait_for(lambda: states(one)["a/one"] == "done")
    one.close()
