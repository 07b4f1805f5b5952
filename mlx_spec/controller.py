"""Who drafts, and how much: from measured costs and learned acceptance. "Nobody" is always a choice.

A round with k drafts is worth  1 + sum_j S(j) - rate * (time of a pass of 1 + k rows + time to draft), where
S(j) is the chance that the first j drafts hold and `rate` the running tokens per second. Over a reply, tokens
by time is a renewal-reward ratio, whose maximiser maximises tokens - rate * time in each round (Dinkelbach);
maximising each round's own ratio would draft too much in poor places and too little in good ones.

Costs of passes are kept relative to the plain pass, so that a growing context does not outdate them. A bank
of time saved pays for mistakes: once it is overdrawn, only plain passes run until it recovers, whatever the
estimates say. Of the drafters that have something to propose the one with the greatest gain drafts, so that
a weak copy loses to a good draft model. Drafts that cost nothing are scored in the
shadow, whoever drafts. This module knows names, numbers and times; no tokens, no models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

PLAIN_EVERY = 48  # rounds between plain passes that keep the plain cost known
PROBE_FIRST, PROBE_MOST = 24, 384  # rounds of silence after which a drafter is tried again
MARGIN = 0.02  # of a plain pass: what a draft must promise beyond it
OVERDRAFT = 0.02  # of all time: how far speculation may fall behind plain
CREDIT = 3.0  # plain passes: how far at the least, since single times are noisy
RECENT = 0.97  # a round: the memory of the running rate
REPLY_CREDIT = 2.0  # plain passes that one reply may fall behind before only sure drafts are tried in it
SURE = 1.0  # tokens of gain
FRESH = 16.0  # observations of a dear drafter that count for the next reply, which may be of another kind
FIRST, FIRST_FREE = 1, 4  # tokens of a drafter's first draft in a reply: of a dear one, of one that costs nothing
FEW = 3  # observations of which the least is believed
AHEAD = 4  # plain passes that were run ahead and are timed together: one waits for the other
DOUBTED = 0.3  # plain passes beyond the next narrower width: more is believed when it was seen twice
ODD = 4.0  # times the likely time of a round: beyond it a round says nothing of drafting
FORGET = 0.99  # a round: the bank's memory, so that one bad minute does not bar drafting for good
REMEMBERED = 64  # observations that an earlier run counts for
CENSUS = 512  # observations after which older ones count half

BEHIND = "drafting fell behind plain"

# Chance that a copied draft holds, before anything was seen, by the length of the match.
COPIED = {"2": 0.35, "3": 0.5, "4": 0.6, "6": 0.75, "10": 0.85, "20": 0.92, "21+": 0.95}
PRIOR, PRIOR_WEIGHT = 0.7, 4.0

# The classes of a drafter's own probability for what it drafted; before anything was seen it is believed.
SURENESS = (0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.97, 0.99)


@dataclass(slots=True)
class Average:
    """A running mean that leans to the latest and does not believe outliers."""

    value: float | None = None
    seen: int = 0
    unbelieved: int = 0

    def add(self, x: float) -> None:
        self.seen += 1
        if self.value is None:
            self.value = x
        elif self.seen <= FEW:
            self.value = min(self.value, x)  # what slows a pass down (compiling, other programs) never speeds one up
        elif x > 3 * self.value and self.unbelieved < 3:
            self.unbelieved += 1  # the machine was busy elsewhere; four in a row are believed
        else:
            self.unbelieved = 0
            self.value += max(0.2, 1 / self.seen) * (x - self.value)


def _rising(points: list[tuple[int, float, float]]) -> list[tuple[int, float]]:
    """The nearest curve that never falls, through (width, cost, weight): a wider pass is never cheaper, and one
    unlucky measurement must not make all wider passes look dear. (Pool adjacent violators: Barlow et al. 1972.)"""
    pools: list[tuple[float, float, list[int]]] = []
    for width, value, weight in points:
        pools.append((value, weight, [width]))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (v1, w1, a), (v2, w2, b) = pools[-2:]
            pools[-2:] = [((v1 * w1 + v2 * w2) / (w1 + w2), w1 + w2, a + b)]
    return [(width, value) for value, _, widths in pools for width in widths]


def _sureness(probability: float) -> str:
    return f"sure {sum(probability >= s for s in SURENESS)}"


@dataclass(frozen=True, slots=True)
class Choice:
    """How many tokens to draft, how many the round is hoped to yield, the reason in a few words, and the gain over
    a plain pass in tokens (0 for a trial)."""

    n: int
    expected: float
    why: str
    gain: float = 0.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A drafter that has something to propose: at most `limit` tokens, trusted as `key` has proved to be."""

    drafter: str
    key: str
    limit: int
    cost_hint: float = 0.0  # of a drafted token, in plain passes, until it is measured
    stops: bool = False  # it asks `goes_on` after each token, so that a draft ends where it grows unsure


class Controller:
    """Lives as long as the model is loaded; what it learned in one reply serves the next."""

    def __init__(self, guess: Callable[[int], float] | None = None) -> None:
        """`guess` is what is known of passes by width before any was measured, in plain passes."""
        self._guess = guess
        self.plain = Average()  # seconds of a plain round at the present context
        self._relative: dict[tuple[int, int], Average] = {}  # by (context bucket, width), in plain passes
        self._bucket = 0
        self._drafts: dict[str, int] = {}  # proposals by drafter, to time some of them
        self._draft: dict[str, Average] = {}  # seconds a drafted token
        self._hint: dict[str, float] = {}
        self._known_hints: dict[str, float] = {}  # draft costs of an earlier run, in plain passes
        self._counts: dict[tuple[str, str, int], list[float]] = {}  # (drafter, key, place): held, seen
        self._recent = [0.0, 0.0]  # tokens and seconds, lately
        self._reply = [0.0, 0.0]  # seconds gained on plain, and spent, in this reply
        self._silent: dict[str, int] = {}
        self._patience: dict[str, int] = {}
        # The longest draft that each drafter has earned in this reply: doubled while all hold, and for
        # those that cost nothing (and so are asked often) halved when none does.
        self._step: dict[str, int] = {}
        self.bank = 0.0
        self.spent = 0.0  # seconds, of the time that the bank remembers
        self._since_plain = PLAIN_EVERY
        self._ahead: list[float] = []

    def begin(self) -> None:
        """A reply begins: its context may be of another length, so the plain pass is measured anew."""
        self._since_plain = PLAIN_EVERY
        self._reply = [0.0, 0.0]
        self._step = {}
        self._ahead = []
        for (drafter, _, _), counts in self._counts.items():
            if self._hint.get(drafter, 0.0) > 0 and counts[1] > FRESH:
                counts[0], counts[1] = counts[0] * FRESH / counts[1], FRESH

    def at(self, context: int) -> None:
        """The context is `context` tokens long now: wide passes cost another multiple of a plain one there."""
        self._bucket = max(0, context // 1024).bit_length()

    # ---------------------------------------------------------------------------------------- estimates

    def relative_cost(self, width: int) -> float:
        """A pass of `width` rows in plain passes: measured, else between or beyond the measured widths."""
        buckets = {b for b, _ in self._relative}
        near = min(buckets, key=lambda b: (abs(b - self._bucket), b), default=0)
        known: list[tuple[int, float, float]] = []
        narrower = 1.0
        for w in sorted(w for b, w in self._relative if b == near and w > 1):
            average = self._relative[near, w]
            value = average.value or 1.0
            if average.seen == 1:
                value = min(value, DOUBTED + narrower)  # one odd time must not rule a width out for good
            known.append((w, value, min(average.seen, 16)))
            narrower = max(narrower, value)
        points = _rising([(1, 1.0, 64.0), *known])
        below = max((p for p in points if p[0] <= width), key=lambda p: p[0])
        above = min((p for p in points if p[0] >= width), key=lambda p: p[0], default=None)
        if above is None and self._guess is not None:
            return below[1] * max(1.0, self._guess(width) / self._guess(below[0]))
        if above is None:
            # Nothing wider was measured: go on a little less steeply than the mean slope so far, so that
            # widths which nobody tried get their trial.
            slope = (below[1] - 1) / (below[0] - 1) if below[0] > 1 else 0.08
            return below[1] + min(0.1, 0.7 * slope) * (width - below[0])
        if above[0] == below[0]:
            return below[1]
        part = (width - below[0]) / (above[0] - below[0])
        return below[1] + part * (above[1] - below[1])

    def draft_cost(self, drafter: str) -> float:
        """Of one drafted token, in plain passes."""
        average = self._draft.get(drafter)
        if average is None or average.value is None or not self.plain.value:
            return self._known_hints.get(drafter, self._hint.get(drafter, 0.0))
        return average.value / self.plain.value

    def times(self, drafter: str) -> bool:
        """Whether to time the next proposal: the first ones and then every eighth. Timing costs a wait for the
        device in the middle of a round."""
        n = self._drafts.get(drafter, 0)
        self._drafts[drafter] = n + 1
        return n < 4 or n % 8 == 0

    def draft_seconds(self, drafter: str, n: int) -> float:
        """The present estimate for a draft of `n` tokens; 0 while none was timed."""
        average = self._draft.get(drafter)
        return n * (average.value or 0.0) if average else 0.0

    def chance(self, drafter: str, key: str, place: int) -> float:
        """That the draft at `place` (0 is the first) holds if those before it did."""
        held, seen = self._counts.get((drafter, key, place), (0.0, 0.0))
        prior = COPIED.get(key.rstrip("*"), PRIOR)
        if place > 0:
            # What was learned at the place before is the best first guess for this one.
            before = self._counts.get((drafter, key, place - 1))
            if before:
                prior = (before[0] + PRIOR_WEIGHT * prior) / (before[1] + PRIOR_WEIGHT)
        return (held + PRIOR_WEIGHT * prior) / (seen + PRIOR_WEIGHT)

    # ------------------------------------------------------------------------------------------- choices

    def choose(
        self, candidates: Sequence[Candidate], behind: int = 0, rerun: bool = False
    ) -> tuple[Candidate | None, Choice]:
        """Who drafts now, and how much; None for a plain pass. `behind` and `rerun` as in `length`."""
        plain = self.wants_plain()
        if plain:
            return None, Choice(0, 1.0, plain)
        best: Candidate | None = None
        chosen = Choice(0, 1.0, "nothing to propose")
        for c in candidates:
            choice = self.length(c.drafter, c.key, c.limit, c.cost_hint, behind, rerun)
            if choice.n and c.stops and not choice.why.startswith("trying"):
                most = min(c.limit, self._earned(c.drafter))
                choice = replace(choice, n=max(choice.n, most))
            if choice.n and (best is None or choice.gain > chosen.gain):
                best, chosen = c, choice
            elif best is None:
                chosen = Choice(0, 1.0, choice.why)
        return best, chosen

    def survival(self, drafter: str, sureness: Sequence[float]) -> list[float]:
        """The chance that the first 1, 2, ... tokens of a draft hold, whose own probabilities are `sureness`."""
        chance, chances = 1.0, []
        for s in sureness:
            held, seen = self._counts.get((drafter, _sureness(s), 0), (0.0, 0.0))
            chance *= (held + PRIOR_WEIGHT * s) / (seen + PRIOR_WEIGHT)
            chances.append(chance)
        return chances

    def goes_on(self, drafter: str, sureness: Sequence[float]) -> bool:
        """Whether another token is worth drafting after those with these probabilities: SpecDec++ (Huang et al. 2024,
        arXiv 2405.19715) with the measured price of a token for its threshold."""
        n = len(sureness)
        price = self.draft_cost(drafter) + self.relative_cost(2 + n) - self.relative_cost(1 + n)
        held, seen = self._counts.get((drafter, "", 0), (0.0, 0.0))
        typical = (held + PRIOR_WEIGHT * PRIOR) / (seen + PRIOR_WEIGHT)
        return self.survival(drafter, sureness)[-1] * typical > self._rate() * price

    def sides(
        self, drafter: str, sureness: Sequence[float], others: Sequence[tuple[int, float]]
    ) -> list[tuple[int, float]]:
        """Which of `others`, (place in the chain, probability), are worth a row of their own in the pass that checks
        a chain with these probabilities: each would be one more token where the chain fails at its place."""
        reached = [1.0, *self.survival(drafter, sureness)]
        worth = []
        for place, probability in others:
            held, seen = self._counts.get((drafter, f"beside {_sureness(probability)}", 0), (0.0, 0.0))
            chance = (held + PRIOR_WEIGHT * probability) / (seen + PRIOR_WEIGHT)
            worth.append((reached[place] * chance, place, probability))
        chosen: list[tuple[int, float]] = []
        for gain, place, probability in sorted(worth, reverse=True):
            width = 1 + len(sureness) + len(chosen)
            if gain <= self._rate() * (self.relative_cost(width + 1) - self.relative_cost(width)) + MARGIN:
                break
            chosen.append((place, probability))
        return chosen

    def learn_sides(self, drafter: str, sides: Sequence[tuple[int, float]], reached: int, held: int | None) -> None:
        """The chain held up to `reached` tokens, and the token beside it at the place `held` did, if one did."""
        for place, probability in sides:
            if place <= reached:
                self._learn((drafter, f"beside {_sureness(probability)}", 0), place == held)

    def learn_sureness(self, drafter: str, sureness: Sequence[float], accepted: int) -> None:
        """`accepted` of the tokens with these probabilities held."""
        for place in range(min(len(sureness), accepted + 1)):
            self._learn((drafter, _sureness(sureness[place]), 0), place < accepted)

    def _earned(self, drafter: str) -> int:
        return self._step.get(drafter, FIRST if self._hint.get(drafter, 0.0) > 0 else FIRST_FREE)

    def _rate(self) -> float:
        """Tokens a plain pass, lately."""
        tokens, seconds = self._recent
        return max(1.0, tokens / seconds * (self.plain.value or 0)) if seconds else 1.0

    def wants_plain(self) -> str:
        """A reason to run a plain pass now, or nothing."""
        if self._since_plain >= PLAIN_EVERY:
            return "measuring plain"
        if self.plain.value and self.bank < -max(OVERDRAFT * self.spent, CREDIT * self.plain.value):
            return BEHIND
        return ""

    @property
    def resting(self) -> bool:
        """Whether the next passes are plain whatever is proposed."""
        return self.wants_plain() == BEHIND

    def _behind(self) -> bool:
        gained, spent = self._reply
        return bool(self.plain.value) and gained < -max(OVERDRAFT * spent, REPLY_CREDIT * (self.plain.value or 0))

    def length(
        self, drafter: str, key: str, limit: int, cost_hint: float, behind: int = 0, rerun: bool = False
    ) -> Choice:
        """How many of at most `limit` drafts are worth their time; 0 if none is.

        `behind` rows are run again in front of the next pass whatever is drafted; `rerun` says that after a
        failed draft the kept rows will have to be run again, too.
        """
        self._hint[drafter] = cost_hint
        rate = self._rate()
        cost = self.draft_cost(drafter)
        limit = min(limit, self._earned(drafter))
        best, chance, total = Choice(0, 1.0, f"drafting by {drafter} is not worth it here"), 1.0, 1.0
        plain = 1.0 - rate * self.relative_cost(1 + behind)
        least = plain + rate * MARGIN
        for n in range(1, limit + 1):
            chance *= self.chance(drafter, key, n - 1)
            total += chance
            spent = self.relative_cost(1 + n + behind) + n * cost
            if rerun:
                spent += (1 - chance) * (self.relative_cost(1 + behind + round(total)) - 1)
            value = total - rate * spent
            if value > least:
                least = value
                best = Choice(n, total, f"{drafter} hopes for {total:.1f}", value - plain)
        if best.n and self._behind() and (cost_hint > 0 or best.gain < SURE):
            return Choice(0, 1.0, f"{BEHIND} in this reply")
        if best.n == 0 and not self._behind():
            silent = self._silent.get(drafter, 0) + 1
            self._silent[drafter] = silent
            patience = self._patience.get(drafter, PROBE_FIRST)
            if silent >= patience:
                self._silent[drafter] = 0
                self._patience[drafter] = min(2 * patience, PROBE_MOST)
                return Choice(min(2, limit), 1.0, f"trying {drafter} again")
        elif best.n:
            self._silent[drafter] = 0
            self._patience[drafter] = PROBE_FIRST
        return best

    # -------------------------------------------------------------------------------------- observations

    def learn(self, drafter: str, key: str, drafted: int, accepted: int) -> None:
        """`accepted` of `drafted` tokens held. Also for drafts that were never verified but are known now."""
        for place in range(min(drafted, accepted + 1)):
            self._learn((drafter, key, place), place < accepted)

    def _learn(self, what: tuple[str, str, int], held: bool) -> None:
        counts = self._counts.setdefault(what, [0.0, 0.0])
        counts[0] += held
        counts[1] += 1
        if counts[1] > CENSUS:
            counts[0], counts[1] = counts[0] / 2, counts[1] / 2

    def record(
        self,
        drafter: str | None,
        drafted: int,
        tokens: int,
        draft_s: float,
        total_s: float,
        again: int = 0,
        timed: bool = True,
        ahead: bool = False,
    ) -> None:
        """A round is over: `tokens` new tokens took `total_s` seconds, `draft_s` of them drafting; `again`
        rows of the pass had been run before. `timed` False: `draft_s` is only the estimate. `ahead`: the plain pass
        overlapped with its neighbours."""
        if drafter is None and not again:
            self._since_plain = 0
            self._ahead = [*self._ahead, total_s] if ahead else []
            if not ahead:
                self.plain.add(total_s)
            elif len(self._ahead) == AHEAD:
                self.plain.add(sum(self._ahead) / AHEAD)
                self._ahead = []
        else:
            self._since_plain += 1
            if drafter is not None and drafted and tokens > drafted:
                self._step[drafter] = max(self._earned(drafter), 2 * drafted)
            elif drafter is not None and tokens == 1 and self._hint.get(drafter, 0.0) == 0:
                self._step[drafter] = max(1, min(self._earned(drafter), drafted) // 2)
            if drafter is not None and drafted and draft_s and timed:
                self._draft.setdefault(drafter, Average()).add(draft_s / drafted)
            if self.plain.value:
                relative = (total_s - draft_s) / self.plain.value
                width = 1 + drafted + again
                likely = self.plain.value * self.relative_cost(width)
                likely += self.plain.value * drafted * self.draft_cost(drafter or "")
                if total_s > ODD * likely:
                    total_s = likely  # nobody's fault: something was compiled, or the machine was busy elsewhere
                self._relative.setdefault((self._bucket, width), Average()).add(relative)
                gained = tokens * self.plain.value - total_s
                self.bank += gained
                self._reply[0] += gained
        self.spent = FORGET * self.spent + total_s
        self._reply[1] += total_s
        self.bank *= FORGET
        # A ratio of sums: the mean of the rounds' own ratios would overrate a few lucky rounds.
        self._recent = [RECENT * self._recent[0] + tokens, RECENT * self._recent[1] + total_s]

    # ----------------------------------------------------------------------------------- from run to run

    def state(self) -> dict[str, Any]:
        """What is worth keeping for the next time this model runs on this machine, as plain JSON."""
        plain = self.plain.value
        return {
            "relative": [[b, w, a.value] for (b, w), a in self._relative.items() if a.value is not None],
            "counts": [[d, k, p, *c] for (d, k, p), c in self._counts.items()],
            "draft": {d: a.value / plain for d, a in self._draft.items() if a.value is not None} if plain else {},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave. It counts as little seen, so that what is measured now soon outweighs it.
        Raises ValueError, TypeError or KeyError if it is not such a state."""
        relative = {(int(b), int(w)): Average(float(v), 2) for b, w, v in state["relative"]}
        counts = {}
        for drafter, key, place, held, seen in state["counts"]:
            part = min(1.0, REMEMBERED / max(float(seen), 1.0))
            counts[(str(drafter), str(key), int(place))] = [float(held) * part, float(seen) * part]
        hints = {str(d): float(v) for d, v in state["draft"].items()}
        if not all(0 < a.value < 1000 for a in relative.values() if a.value is not None):
            raise ValueError("a cost is out of range")
        self._relative, self._counts, self._known_hints = relative, counts, hints
