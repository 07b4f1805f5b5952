"""The controller against simulated machines: it finds the good lengths and never loses much to plain."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from mlx_spec.controller import Candidate, Controller


def simulate(
    cost: Callable[[int], float], accept: float, draft_s: float = 0.0, tokens: int = 6000, seed: int = 0
) -> tuple[float, float]:
    """Speed against plain, and drafts a round, for a drafter whose every token holds with `accept`."""
    rng = random.Random(seed)
    controller = Controller()
    controller.begin()
    done, spent, drafted, rounds = 0, 0.0, 0, 0
    while done < tokens:
        n = 0
        if not controller.wants_plain():
            n = controller.length("model" if draft_s else "lookup", "3", 16, draft_s).n
        held = 0
        while held < n and rng.random() < accept:
            held += 1
        took = (cost(1 + n) + n * draft_s) * rng.uniform(0.95, 1.05)
        name = None if n == 0 else ("model" if draft_s else "lookup")
        if name:
            controller.learn(name, "3", n, held)
        controller.record(name, n, held + 1, n * draft_s, took)
        done, spent, drafted, rounds = done + held + 1, spent + took, drafted + n, rounds + 1
    return done * cost(1) / spent, drafted / rounds


MACHINES = {
    "flat": lambda w: 1 + 0.015 * (w - 1),
    "jump": lambda w: 1.0 if w == 1 else 1.45 + 0.045 * (w - 2),
    "linear": lambda w: 0.2 + 0.8 * w,
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("accept", [0.0, 0.3, 0.6, 0.9, 0.98])
@pytest.mark.parametrize("draft_s", [0.0, 0.15])
def test_never_much_slower_than_plain(machine: str, accept: float, draft_s: float) -> None:
    speed, _ = simulate(MACHINES[machine], accept, draft_s)
    assert speed > 0.96


def test_good_drafts_on_a_flat_machine_are_used_fully() -> None:
    speed, drafted = simulate(MACHINES["flat"], 0.95)
    assert speed > 6
    assert drafted > 10


def test_hopeless_drafts_are_given_up() -> None:
    _, drafted = simulate(MACHINES["jump"], 0.02)
    assert drafted < 0.1


def test_a_wider_pass_is_never_thought_cheaper() -> None:
    controller = Controller()
    controller.record(None, 0, 1, 0, 1.0)
    for n, took in ((3, 1.5), (7, 1.3), (15, 2.0)):
        controller.record("lookup", n, 1, 0, took)
    costs = [controller.relative_cost(w) for w in range(1, 20)]
    assert costs == sorted(costs)


def test_an_outlier_is_not_believed() -> None:
    controller = Controller()
    for _ in range(10):
        controller.record(None, 0, 1, 0, 1.0)
    controller.record(None, 0, 1, 0, 60.0)
    assert controller.plain.value == pytest.approx(1.0)


def test_what_was_learned_serves_the_next_run() -> None:
    first = Controller()
    first.at(500)
    first.record(None, 0, 1, 0.0, 0.1)
    for _ in range(200):
        first.record("model", 4, 5, 0.02, 0.15)
        first.learn("model", "", 4, 4)
    second = Controller()
    second.restore(json.loads(json.dumps(first.state())))
    second.at(500)
    assert second.relative_cost(5) == pytest.approx(first.relative_cost(5))
    assert second.chance("model", "", 0) == pytest.approx(first.chance("model", "", 0), abs=0.05)
    assert second.draft_cost("model") == pytest.approx(0.05)
    assert second.plain.value is None  # seconds are of the day, ratios of the machine
    for _ in range(150):  # what is seen now outweighs it
        second.learn("model", "", 1, 0)
    assert second.chance("model", "", 0) < 0.4


@pytest.mark.parametrize("broken", [{}, {"relative": [[0, 2, -1]], "counts": [], "draft": {}}, {"relative": 3}])
def test_a_broken_state_is_refused_whole(broken: dict[str, object]) -> None:
    controller = Controller()
    with pytest.raises((ValueError, TypeError, KeyError)):
        controller.restore(broken)
    assert controller.relative_cost(3) == Controller().relative_cost(3)


def test_costs_are_kept_by_context_length() -> None:
    controller = Controller()
    controller.at(100)
    controller.record(None, 0, 1, 0.0, 1.0)
    controller.record("lookup", 4, 3, 0.0, 1.2)
    controller.record("lookup", 4, 3, 0.0, 1.2)
    controller.at(30_000)
    assert controller.relative_cost(5) == pytest.approx(1.2)  # nothing better is known here yet
    controller.record("lookup", 4, 3, 0.0, 2.0)
    controller.record("lookup", 4, 3, 0.0, 2.0)
    assert controller.relative_cost(5) == pytest.approx(2.0)
    controller.at(100)
    assert controller.relative_cost(5) == pytest.approx(1.2)


def test_only_some_proposals_are_timed() -> None:
    controller = Controller()
    timed = [controller.times("model") for _ in range(40)]
    assert timed[:4] == [True] * 4
    assert 6 <= sum(timed) <= 10


def test_one_unlucky_pass_does_not_make_wider_ones_dear() -> None:
    controller = Controller()
    controller.record(None, 0, 1, 0.0, 1.0)
    controller.record("lookup", 2, 3, 0.0, 2.9)  # the machine was busy
    for _ in range(10):
        controller.record("lookup", 8, 9, 0.0, 1.4)
    assert controller.relative_cost(9) < 1.6
    assert controller.relative_cost(3) <= controller.relative_cost(9)
    assert controller.relative_cost(1) == pytest.approx(1.0, abs=0.01)


def test_a_draft_ends_where_it_grows_unsure() -> None:
    """A drafter whose probabilities are true: the chain stops once another token is not worth its price."""
    rng = random.Random(0)
    controller = Controller()
    controller.begin()
    lengths: dict[str, list[int]] = {"sure": [], "unsure": []}
    for i in range(3000):
        kind = "sure" if i % 2 else "unsure"
        sure: list[float] = []
        chosen, choice = controller.choose([Candidate("model", "", 16, 0.2, True)])
        if chosen:
            while not sure or (len(sure) < choice.n and controller.goes_on("model", sure)):
                sure.append(0.98 if kind == "sure" else 0.35)
        held = 0
        while held < len(sure) and rng.random() < sure[held]:
            held += 1
        if sure:
            controller.learn("model", "", len(sure), held)
            controller.learn_sureness("model", sure, held)
            lengths[kind].append(len(sure))
        took = 1 + 0.05 * len(sure) + 0.2 * len(sure)
        controller.record("model" if sure else None, len(sure), held + 1, 0.2 * len(sure), took)
    late = {kind: ls[len(ls) // 2 :] for kind, ls in lengths.items()}
    assert sum(late["unsure"]) / len(late["unsure"]) < 1.5
    assert sum(late["sure"]) / len(late["sure"]) > 4
    assert controller.survival("model", [0.98])[0] == pytest.approx(0.98, abs=0.03)
    assert controller.survival("model", [0.35, 0.35])[1] == pytest.approx(0.12, abs=0.06)


def test_a_dear_drafter_starts_small_in_each_reply() -> None:
    controller = Controller()
    controller.begin()
    controller.record(None, 0, 1, 0, 1.0)
    lengths = []
    for _ in range(5):
        n = controller.length("model", "", 16, 0.01).n
        lengths.append(n)
        controller.learn("model", "", n, n)
        controller.record("model", n, n + 1, 0.01 * n, 1 + 0.01 * n)
    assert lengths[:4] == [1, 2, 4, 8]
    controller.begin()
    controller.record(None, 0, 1, 0, 1.0)
    assert controller.length("model", "", 16, 0.01).n == 1


def test_what_is_known_of_the_machine_is_the_first_guess() -> None:
    controller = Controller(lambda width: float(width))
    assert controller.relative_cost(5) == 5
    controller.record(None, 0, 1, 0, 1.0)
    controller.record("lookup", 1, 1, 0, 1.2)
    assert controller.relative_cost(2) == pytest.approx(1.2)
    assert controller.relative_cost(4) == pytest.approx(2.4)


def test_one_odd_time_does_not_end_drafting() -> None:
    """The first wide pass was nine times too slow (something was compiled): copies are drafted again soon."""
    controller = Controller()
    controller.begin()
    done = rounds = 0
    controller.record(None, 0, 1, 0, 1.0)
    controller.record("lookup", 2, 1, 0, 9.0)
    while done < 2000:
        n = 0 if controller.wants_plain() else controller.length("lookup", "10", 16, 0.0).n
        controller.learn("lookup", "10", n, n)
        controller.record("lookup" if n else None, n, n + 1, 0, 1 + 0.03 * n)
        done, rounds = done + n + 1, rounds + 1
    assert rounds < 300


def test_passes_that_overlap_are_timed_together() -> None:
    controller = Controller()
    controller.begin()
    for seconds in (1.9, 0.1, 1.2, 0.8, 1.7, 0.3):
        controller.record(None, 0, 1, 0, seconds, ahead=True)
    assert controller.plain.value == pytest.approx(1.0)
