"""The loop: prefill, then rounds of draft, verify, keep.

    while the reply goes on:
        a drafter proposes tokens, or none
        the target runs over [last token, drafts...] in one pass
        the accept rule keeps drafts up to the first that fails
        the target's own token follows

Every token of the text is the target's own choice at its position, whatever was drafted. This module knows
ids, models and drafters; text only through the `TextStream` that it feeds.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import mlx.core as mx

from . import tree, verify
from .ahead import Ahead, prepare
from .controller import BEHIND, Candidate, Choice, Controller
from .detokenize import Pieces, TextStream, merge
from .drafters.base import Context, Draft, Drafter, Offer
from .drafters.guard import Guard, tame
from .events import (
    DrafterSettings,
    DrafterStats,
    Finished,
    Problem,
    PromptProgress,
    Round,
    SamplingSettings,
    Span,
)
from .odds import chances, hopes, logp_of
from .processors import Processors
from .sampling import History, check, draw_at, process
from .target import Target, common_prefix

QUIET = 2  # plain passes in a row after which the next one is made ready in the hope that it is plain, too
CLEAR_EVERY = 256  # rounds between returns of unused buffers to the system


@dataclass(slots=True)
class Reply:
    """What is known of the reply that is being written."""

    request: int
    prompt: Sequence[int]
    sampling: SamplingSettings
    seed: int
    context: int  # tokens that fit
    end_ids: frozenset[int]
    text: TextStream
    pieces: Pieces
    started: float = field(default_factory=time.perf_counter)
    tokens: list[int] = field(default_factory=list)
    passes: int = 0
    stats: dict[str, DrafterStats] = field(default_factory=dict)
    plain: list[float] = field(default_factory=list)
    processors: Processors = field(default_factory=lambda: Processors(()))

    @property
    def room(self) -> int:
        """How many more tokens may be written."""
        room = self.context - len(self.prompt) - len(self.tokens)
        if self.sampling.max_tokens is not None:
            room = min(room, self.sampling.max_tokens - len(self.tokens))
        return room


@dataclass(frozen=True, slots=True)
class Plan:
    """What a round will verify."""

    drafter: str | None = None
    key: str = ""
    draft: Draft | None = None
    n: int = 0  # tokens of the chain
    expected: float = 1.0
    why: str = ""
    timed: bool = True
    bad: mx.array | None = None  # whether the draft was not as promised

    @property
    def sides(self) -> tuple[tuple[int, float], ...]:
        return self.draft.sides if self.draft else ()


def decode(
    target: Target,
    drafters: Mapping[str, Drafter],
    controller: Controller,
    reply: Reply,
    settings: Callable[[], DrafterSettings],
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[PromptProgress | Round | Finished]:
    """Write a reply to `reply.prompt`, reusing what the target's caches share with it.

    `settings` is asked before every round, `stop` before every pass. Yields `PromptProgress` while the prompt
    is read, a `Round` a pass, and `Finished` at the end. Raises `Problem` if the settings cannot be run.
    """
    check(reply.sampling)
    prompt = list(reply.prompt)
    if not prompt:
        raise Problem("The prompt is empty.", "Type something first.")
    if len(prompt) >= reply.context:
        raise Problem(
            f"The prompt has {len(prompt):,} tokens, and the context holds {reply.context:,}.",
            "Shorten the prompt, start a new chat, or choose a longer context in Settings.",
        )
    mx.reset_peak_memory()
    cached = target.reuse(prompt[:-1])
    yield PromptProgress(reply.request, cached, len(prompt), cached)
    for done in target.prefill(prompt[cached:-1]):
        seconds = time.perf_counter() - reply.started
        yield PromptProgress(reply.request, cached + done, len(prompt), cached, seconds)
        if stop():
            break
    guard = Guard(drafters)
    names = _usable(settings(), drafters)
    if not stop():
        for name in names:
            guard.call(name, drafters[name].begin, prompt)
        target.remember()
    prompt_s = time.perf_counter() - reply.started
    yield PromptProgress(reply.request, len(target.tokens) + 1, len(prompt), cached, prompt_s)

    controller.begin()
    history = History(prompt, target.vocabulary, reply.sampling)
    first_token_s = 0.0
    reason = ""
    ahead: Ahead | None = None
    quiet = 0
    while not reason:
        if stop():
            reason = "stopped"
            break
        began = time.perf_counter()
        wanted = settings()
        controller.at(len(history))
        limit = _limit(wanted, reply, history, target)
        offers = _free_offers(wanted, drafters, guard, history, limit)
        overlapped = ahead is not None and not ahead.waits
        if overlapped:
            plan = Plan(why=_resting(wanted, drafters, controller))
        else:
            if ahead is not None:
                after, ahead.after = ahead.after, None
                target.restore(ahead.before)
                ahead.before = None
            plan = _plan(wanted, drafters, guard, controller, reply, history, target, limit, offers)
            if ahead is not None and plan.draft is None:
                target.restore(after)
            else:
                ahead = None
            after = None
        start, again = len(target.tokens) - (ahead is not None), target.behind
        drafted_at = time.perf_counter()
        drafted = plan.draft.tokens if plan.draft else None
        flags: mx.array | None = None
        if ahead is not None:
            own, sure = ahead.own, ahead.sure
        else:
            rows = mx.array([history.tokens[-1]], mx.uint32)
            if drafted is not None:
                rows = mx.concatenate([rows, drafted])
                target.begin()
            flags, own, sure = _pass(target, rows, plan, wanted.rule, reply, history)
        quiet = quiet + 1 if plan.draft is None else 0
        ahead = None
        if plan.draft is None and _may_prepare(reply, target):
            plain = not wanted.names or (wanted.adaptive and controller.resting)
            if plain or quiet >= QUIET:
                mx.async_eval(own, sure)
                ahead = prepare(target, own, reply.sampling, reply.seed, history, plain)
                overlapped |= plain
        mx.eval(own, sure, *([] if flags is None else [flags, drafted, plan.bad]))
        ids = [] if drafted is None else integers(drafted)
        chain = ids[: plan.n]
        path = [*range(1 + (0 if flags is None else verify.held(integers(flags))))]
        order = [*range(1, 1 + len(ids))]  # the rows of the drafts as they are told
        if plan.sides:
            assert plan.draft is not None
            path = tree.follow(plan.draft.parents, [-1, *ids], integers(own))
            target.pick(start, path)
            order = [*path[1:], *(row for row in range(1, 1 + len(ids)) if row not in path)]
            ids = [ids[row - 1] for row in order]
        accepted = len(path) - 1
        odds: list[float] = sure.tolist()  # type: ignore[assignment]
        if not odds[path[-1]] > -math.inf:  # NaN is not, either
            _give_up(target, drafters)
        if plan.bad is not None and plan.bad.item():
            assert plan.drafter is not None
            guard.bench(plan.drafter, "it drafted tokens that do not exist, or with probabilities that are none")

        emitted = [*ids[:accepted], integers(own)[path[-1]]]
        emitted, spans, reason = _emit(emitted, accepted, plan.drafter, reply)
        accepted = min(accepted, len(emitted))
        if ahead is not None and reason:
            ahead.drop(target, start + 1)
            ahead = None
        if ahead is None:
            # The last token has no row yet: it is the first row of the next pass.
            target.keep(start + len(emitted), [history.tokens[-1], *emitted[:-1]])
        else:
            target.tokens[start] = history.tokens[-1]
        history.extend(emitted)
        for name, offer in offers.items():
            if name != plan.drafter:  # what it would have drafted is known to be right or wrong now
                known = min(len(offer.tokens), len(emitted))
                controller.learn(name, offer.key, known, common_prefix(offer.tokens[:known], emitted))
        reply.processors.settle(min(accepted, len(emitted) - 1))
        if plan.drafter is not None:
            guard.call(plan.drafter, drafters[plan.drafter].settle, chain)

        ended = time.perf_counter()
        draft_s = drafted_at - began if plan.n else 0.0
        if plan.drafter is not None and not plan.timed:
            # The device drafted while the host built the pass: the parts of the time are an estimate.
            draft_s = min(draft_s + controller.draft_seconds(plan.drafter, plan.n), ended - began)
        if plan.drafter is not None:
            guard.took(plan.drafter, draft_s, controller.plain.value)
        reply.passes += 1
        first_token_s = first_token_s or ended - reply.started
        if plan.drafter is None:
            if not again and not overlapped:
                reply.plain.append(ended - began)
        else:
            s = reply.stats.get(plan.drafter, DrafterStats())
            reply.stats[plan.drafter] = DrafterStats(s.rounds + 1, s.drafted + len(ids), s.accepted + accepted)
            if len(emitted) > accepted or accepted == plan.n:  # not cut short by the end of the reply
                side = plan.sides and path[-1] > plan.n
                held = accepted - bool(side)
                controller.learn(plan.drafter, plan.key, plan.n, held)
                if plan.draft is not None:
                    controller.learn_sureness(plan.drafter, plan.draft.sureness, held)
                    controller.learn_sides(plan.drafter, plan.sides, held, held if side else None)
        controller.record(
            plan.drafter,
            plan.n,
            len(emitted),
            draft_s,
            ended - began,
            again + len(plan.sides),
            plan.timed,
            overlapped,
        )
        if reply.passes % CLEAR_EVERY == 0:
            mx.clear_cache()
        yield Round(
            request=reply.request,
            index=reply.passes - 1,
            position=len(history) - len(emitted),
            drafter=plan.drafter,
            drafted=tuple(ids),
            drafted_text=tuple(reply.pieces(t) for t in ids),
            accepted=accepted,
            tokens=tuple(emitted),
            spans=spans,
            width=1 + len(ids) + again,
            draft_s=draft_s,
            verify_s=ended - began - draft_s,
            total_s=ended - began,
            plain_s=controller.plain.value,
            expected=plan.expected,
            why=guard.tell() or plan.why,
            resting=plan.drafter is None and plan.why.startswith(BEHIND),
            memory=mx.get_active_memory(),
            own_text=reply.pieces(emitted[-1]) if len(emitted) > accepted else "",
            hopes=hopes(plan.draft, order),
            chances=chances(odds, path[: len(emitted)], wanted.rule, reply.sampling, plan.draft),
        )
    if ahead is not None:
        ahead.drop(target, len(history) - 1)
    target.remember()
    plain_s = sorted(reply.plain)[len(reply.plain) // 2] if reply.plain else controller.plain.value
    yield Finished(
        request=reply.request,
        reason=reason,
        tail=reply.text.flush(),
        tokens=len(reply.tokens),
        prompt_tokens=len(prompt),
        cached_tokens=cached,
        passes=reply.passes,
        prompt_s=prompt_s,
        first_token_s=first_token_s,
        decode_s=time.perf_counter() - reply.started - prompt_s,
        seed=reply.seed,
        plain_s=plain_s,
        by_drafter=dict(reply.stats),
        benched=dict(guard.benched),
        peak_memory=mx.get_peak_memory(),
    )


def integers(row: mx.array) -> list[int]:
    """A row of ids (or flags), read by the host."""
    values: Any = row.tolist()
    return [int(v) for v in values]


def _usable(settings: DrafterSettings, drafters: Mapping[str, Drafter]) -> list[str]:
    for name in settings.names:
        if name not in drafters:
            known = ", ".join(drafters) or "none"
            raise Problem(f'The drafter "{name}" cannot run with this model.', f"Drafters that can: {known}.")
    if settings.rule not in verify.RULES:
        raise Problem(f'There is no accept rule "{settings.rule}".', f"Choose {' or '.join(verify.RULES)}.")
    if settings.max_draft < 1:
        raise Problem(f"The longest draft is set to {settings.max_draft}.", "Set it to 1 or more.")
    return list(settings.names)


def _pass(
    target: Target, rows: mx.array, plan: Plan, rule: str, reply: Reply, history: History
) -> tuple[mx.array | None, mx.array, mx.array]:
    """Build one pass over `rows`: what `_verify` gives, and what `logp_of` says of each row's token."""
    with tree.shaped(plan.draft.parents) if plan.draft and plan.sides else contextlib.nullcontext():
        logits = target.run(rows)
    drafted = plan.draft.tokens if plan.draft else None
    counts, custom = history.counts(drafted), None
    if reply.processors:
        guessed = [] if drafted is None else integers(drafted)
        custom = partial(reply.processors, history.tokens, guessed)
    logp = process(logits, reply.sampling, counts, custom)
    flags, own = _verify(rule, logp, plan, reply, len(history))
    return flags, own, logp_of(own, logp)


def _give_up(target: Target, drafters: Mapping[str, Drafter]) -> NoReturn:
    """The caches may hold NaN now: the next reply starts afresh."""
    target.reset()
    for drafter in drafters.values():
        drafter.reset()
    raise Problem(
        "The model's output is not a number, so there is no next token.",
        "Try again; if it stays, fetch the model again, or load it with float32 weights.",
    )


def _may_prepare(reply: Reply, target: Target) -> bool:
    """Whether the next pass can be built before the token in front of it is read."""
    return not reply.processors and target.caches.ahead and reply.room >= 2 and target.uniform >= 2


def _resting(settings: DrafterSettings, drafters: Mapping[str, Drafter], controller: Controller) -> str:
    return controller.wants_plain() if _usable(settings, drafters) else "drafting is off"


def _plan(
    settings: DrafterSettings,
    drafters: Mapping[str, Drafter],
    guard: Guard,
    controller: Controller,
    reply: Reply,
    history: History,
    target: Target,
    limit: int,
    offers: Mapping[str, Offer],
) -> Plan:
    """The drafter whose proposal gains most drafts; where nothing is weighed, the first that has one."""
    names = _usable(settings, drafters)
    if not names or limit < 1:
        return Plan(why="drafting is off" if not names else "the end is near")
    found: dict[str, Offer] = {}
    for name in names:
        drafter = drafters[name]
        free = drafter.cost_hint == 0
        offer = offers.get(name) if free else guard.call(name, drafter.offer, history, _most(settings, name, limit))
        if offer is not None and offer.limit >= 1:
            found[name] = offer
    if settings.adaptive:
        candidates = [
            Candidate(n, o.key, min(_most(settings, n, limit), o.limit), d.cost_hint, d.stops)
            for n, o in found.items()
            if (d := drafters[n])
        ]
        chosen, choice = controller.choose(candidates, target.behind, target.caches.reruns)
        if chosen is None:
            return Plan(why=choice.why)
        name = chosen.drafter
    elif found:
        name = next(iter(found))
        n = min(_most(settings, name, limit), found[name].limit)
        choice = Choice(n, 1.0, f"{name}, {n} tokens")
    else:
        return Plan(why="nothing to propose")
    offer, drafter = found[name], drafters[name]
    goes_on = partial(controller.goes_on, name) if settings.adaptive and drafter.stops else None
    coupled = settings.rule == "match"
    # A tree's rows have no history of their own, so nothing may count tokens; and `block` judges whole chains.
    trees = goes_on and target.trees and not history.penalised and not reply.processors and not target.behind
    sides = (
        partial(controller.sides, name)
        if trees and (settings.rule != "block" or reply.sampling.temperature == 0)
        else None
    )
    context = Context(history, reply.sampling, reply.seed, coupled, goes_on, sides)
    timed = drafter.cost_hint == 0 or controller.times(name)

    def propose() -> tuple[Draft, mx.array]:
        draft, bad = tame(drafter.propose(context, offer, choice.n), choice.n, target.vocabulary)
        if timed:
            mx.eval(draft.tokens)
        return draft, bad

    proposed = guard.call(name, propose)
    if proposed is None or proposed[0].tokens.shape[0] == 0:
        return Plan(why=f"{name} had nothing after all")
    draft, bad = proposed
    expected, why = choice.expected, choice.why
    if len(draft.sureness) == draft.chain:
        expected = 1 + sum(controller.survival(name, draft.sureness))
        why = f"{name} hopes for {expected:.1f}"
    return Plan(name, offer.key, draft, draft.chain, expected, why, timed or bool(draft.sureness), bad)


def _limit(settings: DrafterSettings, reply: Reply, history: History, target: Target) -> int:
    """The longest draft that may be proposed now."""
    # The target writes one token of its own in every round, and a penalty window must cover the draft.
    limit = min(settings.max_draft, reply.room - 1, target.uniform - 1)
    if history.window and history.penalised:
        limit = min(limit, history.window)
    return limit


def _most(settings: DrafterSettings, name: str, limit: int) -> int:
    """The longest draft that one drafter may propose now."""
    return min(limit, max(1, dict(settings.limits).get(name, limit)))


def _free_offers(
    settings: DrafterSettings, drafters: Mapping[str, Drafter], guard: Guard, history: History, limit: int
) -> dict[str, Offer]:
    """What the drafters that cost nothing have to propose, used or not: they are scored in the shadow."""
    found = {}
    for name in settings.names if limit >= 1 else ():
        drafter = drafters.get(name)
        if drafter is not None and drafter.cost_hint == 0:
            offer = guard.call(name, drafter.offer, history, _most(settings, name, limit))
            if offer is not None and any(not 0 <= t < history.vocabulary for t in offer.tokens):
                guard.bench(name, "it drafted tokens that do not exist")
            elif offer is not None and offer.limit >= 1:
                found[name] = offer
    return found


def _verify(rule: str, logp: mx.array, plan: Plan, reply: Reply, position: int) -> tuple[mx.array | None, mx.array]:
    """Flags of the drafts (None for a plain pass) and the token to write at each row, not yet evaluated."""
    none = mx.zeros((0,), mx.uint32)
    drafted = plan.draft.tokens if plan.draft else none
    # At temperature 0 all rules are the same: the target's argmax.
    if plan.draft is not None and plan.sides:
        if plan.draft.logq is not None:
            places = [place for place, _ in plan.sides]
            own = verify.rejection_tree(logp, plan.draft.logq, drafted, places, reply.seed, position)
            return mx.zeros((0,), mx.bool_), own
        places = [position + d for d in tree.depths(plan.draft.parents)]
        return mx.zeros((0,), mx.bool_), draw_at(logp, reply.seed, places, reply.sampling.temperature)
    if rule == "match" or reply.sampling.temperature == 0 or plan.draft is None:
        flags, own = verify.match(logp, drafted, reply.seed, position, reply.sampling.temperature)
    else:
        judge = verify.block if rule == "block" else verify.rejection
        flags, own = judge(logp, plan.draft.logq, drafted, reply.seed, position)
    return (flags if plan.draft else None), own


def _emit(
    emitted: list[int], accepted: int, drafter: str | None, reply: Reply
) -> tuple[list[int], tuple[Span, ...], str]:
    """Cut at the end of the turn, a stop string or the last token that fits; returns what really came."""
    spans: list[Span] = []
    for i, token in enumerate(emitted):
        reply.tokens.append(token)
        if token in reply.end_ids:
            return emitted[: i + 1], merge(spans), "stop"
        spans += reply.text.push(token, drafter if i < accepted else None)
        if reply.text.stopped:
            return emitted[: i + 1], merge(spans), "stop"
        if reply.room <= 0:
            full = reply.sampling.max_tokens is None or len(reply.tokens) < reply.sampling.max_tokens
            return emitted[: i + 1], merge(spans), "context" if full else "length"
    return emitted, merge(spans), ""
