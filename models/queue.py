"""Downloads one after the other, two at a time: pausable, and still there after a restart.

The list is kept in downloads/queue.json. Threads of this module do the work; a face asks for `jobs()` when it draws,
and everything here may be called from any thread. What runs when the program ends goes on when it is opened again.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mlx_spec.events import Problem

from . import fetch, paths
from .repo import Plan, RepoFile

AT_ONCE = 2
SAVE_EVERY_S = 2.0
RATE_OVER_S = 5.0  # the rate that is shown is that of so many seconds
UNFINISHED = ("waiting", "running", "paused", "failed")


class Stopped(Exception):
    """Raised inside a download that was paused or given up."""


@dataclass(frozen=True, slots=True)
class Job:
    """One download as it stands now. `state` is "waiting", "running", "checking", "paused", "failed" or "done"; `rate`
    is bytes a second, 0 while that is not known; `trouble` is what went wrong, with what to do."""

    plan: Plan
    state: str = "waiting"
    done: int = 0
    rate: float = 0.0
    trouble: str = ""

    @property
    def name(self) -> str:
        return self.plan.source

    @property
    def seconds_left(self) -> float | None:
        left = self.plan.bytes - self.done
        return left / self.rate if self.rate > 0 and left > 0 else None


@dataclass
class _Speed:
    """Bytes a second over the last seconds."""

    marks: list[tuple[float, int]] = field(default_factory=list)

    def rate(self, done: int) -> float:
        now = time.monotonic()
        self.marks.append((now, done))
        while now - self.marks[0][0] > RATE_OVER_S and len(self.marks) > 2:
            self.marks.pop(0)
        (_, first), passed = self.marks[0], now - self.marks[0][0]
        return max(0.0, (done - first) / passed) if passed > 0.2 else 0.0


class DownloadQueue:
    """All downloads of this program, oldest first. `close` before the program ends."""

    def __init__(self, start: bool = True) -> None:
        self._lock = threading.RLock()
        self._jobs: list[Job] = _read()
        self._threads: dict[str, threading.Thread] = {}
        self._stop: set[str] = set()  # names of those that are to end at their next block
        self._closing = False
        self._saved = 0.0
        if start:
            self._go_on()

    # ------------------------------------------------------------------------------------------ asked by a face

    def jobs(self) -> tuple[Job, ...]:
        """All downloads as they stand."""
        with self._lock:
            return tuple(self._jobs)

    @property
    def busy(self) -> bool:
        """Whether anything is being fetched or waits to be."""
        return any(job.state in ("waiting", "running", "checking") for job in self.jobs())

    def add(self, plan: Plan) -> Job:
        """Queue a plan; one that is in the list goes on. Raises `Problem` if the disk does not take all of them."""
        with self._lock:
            others = sum(_left(job.plan) for job in self._jobs if job.state != "done" and job.name != plan.source)
            fetch.check_disk(plan, others)
            old = self._find(plan.source)
            if old is None:
                self._jobs.append(Job(plan, done=fetch.here(plan)))
            elif old.state not in ("waiting", "running", "checking"):
                self._put(replace(old, plan=plan, state="waiting", trouble="", done=fetch.here(plan)))
            self._save()
            self._go_on()
            found = self._find(plan.source)
            assert found is not None
            return found

    def pause(self, name: str) -> None:
        """Stop fetching; what came stays on the disk."""
        with self._lock:
            job = self._find(name)
            if job is None or job.state not in ("waiting", "running", "checking"):
                return
            self._stop.add(name)
            self._put(replace(job, state="paused", rate=0.0))
            self._save()
            self._go_on()

    def resume(self, name: str) -> None:
        """Go on with one that was paused or failed."""
        with self._lock:
            job = self._find(name)
            if job is not None and job.state in ("paused", "failed"):
                self._put(replace(job, state="waiting", trouble=""))
                self._save()
                self._go_on()

    def cancel(self, name: str) -> None:
        """Take it off the list, and what came of it off the disk unless it is done."""
        with self._lock:
            job = self._find(name)
            if job is None:
                return
            self._jobs.remove(job)
            self._stop.add(name)
            thread = self._threads.get(name)
            if job.state != "done" and thread is None:  # a thread tidies up itself, when it ends
                fetch.forget(job.plan)
            self._save()
            self._go_on()

    def clear_done(self) -> None:
        """Take what is done off the list; the models stay."""
        with self._lock:
            self._jobs = [job for job in self._jobs if job.state != "done"]
            self._save()

    def close(self, patience_s: float = 2.0) -> None:
        """Stop all; what ran goes on at the next start."""
        with self._lock:
            self._closing = True
            self._stop |= {job.name for job in self._jobs}
            threads = list(self._threads.values())
            self._save()
        end = time.monotonic() + patience_s
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    # ------------------------------------------------------------------------------------------------ the work

    def _find(self, name: str) -> Job | None:
        return next((job for job in self._jobs if job.name == name), None)

    def _put(self, job: Job) -> None:
        self._jobs = [job if old.name == job.name else old for old in self._jobs]

    def _go_on(self) -> None:
        """Start what waits, as many as may run. Called with the lock."""
        for job in list(self._jobs):
            if self._closing or len(self._threads) >= AT_ONCE:
                return
            if job.state == "waiting" and job.name not in self._threads:
                self._stop.discard(job.name)
                self._put(replace(job, state="running"))
                thread = threading.Thread(target=self._run, args=(job.plan,), name=f"download {job.name}", daemon=True)
                self._threads[job.name] = thread
                thread.start()

    def _run(self, plan: Plan) -> None:
        name, speed = plan.source, _Speed()

        def tell(stage: str, _what: str, done: int, _total: int) -> None:
            if name in self._stop:
                raise Stopped
            with self._lock:
                job = self._find(name)
                if job is None or job.state not in ("running", "checking"):
                    raise Stopped
                if stage == "check":
                    self._put(replace(job, state="checking", rate=0.0))
                else:
                    self._put(replace(job, state="running", done=done, rate=speed.rate(done)))
                if time.monotonic() - self._saved > SAVE_EVERY_S:
                    self._save()

        trouble, whole = "", False
        try:
            fetch.fetch(plan, tell)
            whole = True
        except Stopped:
            pass
        except Problem as problem:
            trouble = str(problem)
        except Exception as error:  # a bug must not take the other downloads along
            trouble = f"The download broke off ({type(error).__name__}: {error}). Try again."
        with self._lock:
            self._threads.pop(name, None)
            job = self._find(name)
            if job is None and not whole:
                fetch.forget(plan)
            if job is not None and job.state in ("running", "checking"):
                if whole:
                    self._put(replace(job, state="done", done=plan.bytes, rate=0.0))
                elif trouble:
                    self._put(replace(job, state="failed", trouble=trouble, rate=0.0, done=fetch.here(plan)))
                else:  # the program ends, or it was paused and resumed before it had stopped
                    self._put(replace(job, state="waiting", rate=0.0))
            self._save()
            self._go_on()

    def _save(self) -> None:
        """Write the list. A disk that is full costs the list after a restart, nothing else."""
        self._saved = time.monotonic()
        file = paths.downloads_dir() / "queue.json"
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(".writing")
            part.write_text(json.dumps([_plain(job) for job in self._jobs], indent=1))
            os.replace(part, file)


def _left(plan: Plan) -> int:
    """Bytes that are still to come."""
    return plan.bytes - fetch.here(plan)


def _plain(job: Job) -> dict[str, Any]:
    state = "waiting" if job.state in ("running", "checking") else job.state
    return {"plan": asdict(job.plan), "state": state, "trouble": job.trouble}


def _read() -> list[Job]:
    """The list of the last time; entries that cannot be read are dropped."""
    try:
        entries = json.loads((paths.downloads_dir() / "queue.json").read_text("utf-8"))
    except (OSError, ValueError):
        return []
    jobs: list[Job] = []
    for entry in entries if isinstance(entries, list) else ():
        with contextlib.suppress(KeyError, TypeError, ValueError, OSError):
            plan = dict(entry["plan"])
            plan["files"] = tuple(RepoFile(**file) for file in plan["files"])
            job = Job(Plan(**plan), entry["state"], trouble=str(entry["trouble"]))
            if job.state not in (*UNFINISHED, "done") or any(job.name == other.name for other in jobs):
                continue
            jobs.append(replace(job, done=job.plan.bytes if job.state == "done" else fetch.here(job.plan)))
    return jobs


def unfinished() -> bool:
    """Whether an earlier run left downloads that are to go on by themselves."""
    return any(job.state == "waiting" for job in _read())
