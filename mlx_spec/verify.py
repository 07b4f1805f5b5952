"""The accept rules: which drafted tokens hold, and what the target writes at the first that does not.

`match`      The target draws its own token at every row. A draft holds while it equals the draw. The text is
             the target's draws and nothing else, so no drafter can change it. For a deterministic draft this
             is the rule of the papers exactly (q is one-hot).
`rejection`  Leviathan et al. 2023 (arXiv 2211.17192), algorithm 1, and Chen et al. 2023 (arXiv 2302.01318):
             a draft x ~ q holds with probability min(1, p(x) / q(x)); the first that fails is replaced by a
             draw from norm(max(p - q, 0)); if all hold, one more token comes from p. Exact in distribution.
`block`      Sun et al. 2024 (arXiv 2403.10444): the drafts are judged together. More of them hold than with
             `rejection`, never fewer, and the law is the same. For deterministic drafts the two are one.

A draft may have second choices beside it (tree.py). `match` follows the target's draws; under `rejection` a second
choice is judged like a first one, by what the first left of both laws: recursive rejection without replacement
(Jeon et al. 2024, arXiv 2402.14160; Yang et al. 2024, arXiv 2401.06706).

All end with a token of the target's own: after the last draft if all held (the bonus token). This module
knows distributions and tokens, not models.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from .sampling import ACCEPT, RESIDUAL, draw, draw_at, key

RULES = ("match", "rejection", "block")


def held(flags: Sequence[bool] | Sequence[int]) -> int:
    """How many drafts hold: the length of the run of True at the start."""
    n = 0
    for flag in flags:
        if not flag:
            break
        n += 1
    return n


def accept_probability(p: mx.array, q: mx.array, drafted: mx.array) -> mx.array:
    """min(1, p(x) / q(x)) for each row's drafted token x. p, q: (n, vocabulary); drafted: (n,)."""
    px = mx.take_along_axis(p, drafted[:, None], axis=-1)[:, 0]
    qx = mx.take_along_axis(q, drafted[:, None], axis=-1)[:, 0]
    return mx.where(qx > 0, mx.minimum(px / mx.where(qx > 0, qx, 1), 1), 0)


def residual(p: mx.array, q: mx.array) -> mx.array:
    """norm(max(p - q, 0)), row by row; where p and q agree to the last bit, p itself."""
    r = mx.maximum(p - q, 0)
    total = mx.sum(r, axis=-1, keepdims=True)
    return mx.where(total > 0, r / mx.where(total > 0, total, 1), p)


def second_laws(p: mx.array, q: mx.array, drafted: mx.array) -> tuple[mx.array, mx.array]:
    """What a second choice is judged by where the first was refused: the target's law that is left, and the law that
    the second was drawn from, which is q without the first. All (n, vocabulary), `drafted` (n,)."""
    others = mx.put_along_axis(q, drafted[:, None], mx.array(0, q.dtype), axis=-1)
    total = mx.sum(others, axis=-1, keepdims=True)
    return residual(p, q), mx.where(total > 0, others / mx.where(total > 0, total, 1), 0)


def one_hot(drafted: mx.array, vocabulary: int, dtype: mx.Dtype = mx.float32) -> mx.array:
    """The q of a deterministic draft: (n, vocabulary)."""
    return (drafted[:, None] == mx.arange(vocabulary)[None]).astype(dtype)


def match(logp: mx.array, drafted: mx.array, seed: int, position: int, temperature: float) -> tuple[mx.array, mx.array]:
    """Rows' own draws, and whether each draft equals the draw of its row.

    logp: (n + 1, vocabulary), row i follows drafted[:i]; drafted: (n,). Returns flags (n,), draws (n + 1,).
    """
    draws = draw(logp, seed, position, temperature)
    return draws[:-1] == drafted.astype(draws.dtype), draws


def rejection(
    logp: mx.array, logq: mx.array | None, drafted: mx.array, seed: int, position: int
) -> tuple[mx.array, mx.array]:
    """The papers' rule on the device, with nothing read by the host.

    logp: (n + 1, vocabulary); logq: (n, vocabulary), the law that the drafts were really drawn from, or None
    if the draft is deterministic; drafted: (n,). Returns flags (n,) and replacements (n + 1,): the token to
    write at row i if the drafts before it held and the one at it did not (at row n: the bonus token).
    """
    n = drafted.shape[0]
    p = mx.exp(logp[:n])
    q = one_hot(drafted, logp.shape[-1]) if logq is None else mx.exp(logq)
    u = mx.concatenate([mx.random.uniform(shape=(1,), key=key(seed, position + i, ACCEPT)) for i in range(n)])
    flags = u < accept_probability(p, q, drafted)
    rest = mx.concatenate([mx.log(residual(p, q)), logp[n:]])
    return flags, draw(rest, seed, position, 1.0, RESIDUAL)


def rejection_tree(
    logp: mx.array, logq: mx.array, drafted: mx.array, places: Sequence[int], seed: int, position: int
) -> mx.array:
    """The rule for a chain with second choices, each drawn from the same law as the token of the chain at its place,
    that token left out. Which places have one must not depend on what was drawn for it.

    logp: (1 + n + m, vocabulary), row 0, the rows of the chain, those of the second choices; logq: (n, vocabulary);
    drafted: (n + m,); `places` (m,) of the second choices, 0 the first of the chain. Returns for each row the token
    that follows it, (1 + n + m,): a drafted one where that holds.
    """
    n = drafted.shape[0] - len(places)
    chain, rows = drafted[:n], mx.array(list(places))
    p, q = mx.exp(logp[:n]), mx.exp(logq)
    u = mx.stack([mx.random.uniform(shape=(2,), key=key(seed, position + i, ACCEPT)) for i in range(n)])
    left, law = second_laws(p[rows], q[rows], chain[rows])
    rest = residual(p, q)
    rest[rows] = residual(left, law)
    bonus = [position + n, *(position + place + 1 for place in places)]
    own = draw_at(
        mx.log(mx.concatenate([rest, mx.exp(logp[n:])])), seed, [*range(position, position + n), *bonus], 1.0, RESIDUAL
    )
    own[rows] = mx.where(u[rows, 1] < accept_probability(left, law, drafted[n:]), drafted[n:], own[rows])
    own[:n] = mx.where(u[:, 0] < accept_probability(p, q, chain), chain, own[:n])
    return own


def block_chances(p: mx.array, q: mx.array, drafted: mx.array) -> tuple[mx.array, mx.array]:
    """What `block` draws from, for p, q: (n, vocabulary) and drafted: (n,).

    Returns (n,) the chance h that a draft of the first i + 1 tokens is taken, and (n, vocabulary) the law of the
    token that follows the first i where no longer draft is taken. Sun et al. 2024, algorithm 2 and equation 5.
    """
    n = drafted.shape[0]
    px = mx.take_along_axis(p, drafted[:, None], axis=-1)[:, 0]
    qx = mx.take_along_axis(q, drafted[:, None], axis=-1)[:, 0]
    ratio = mx.where(qx > 0, px / mx.where(qx > 0, qx, 1), 0)
    joint = [mx.ones((), p.dtype)]  # the clipped joint ratio of the first i tokens
    for i in range(n):
        joint.append(mx.minimum(joint[-1] * ratio[i], 1))
    before = mx.stack(joint[:-1])
    rest = mx.maximum(before[:, None] * p - q, 0)
    total = mx.sum(rest, axis=-1)
    spare = total[1:] + 1 - before[1:]
    taken = mx.where(spare > 0, total[1:] / mx.where(spare > 0, spare, 1), 1)
    law = mx.where(total[:, None] > 0, rest / mx.where(total > 0, total, 1)[:, None], p)
    return mx.concatenate([taken, joint[-1][None]]), law


def block(
    logp: mx.array, logq: mx.array | None, drafted: mx.array, seed: int, position: int
) -> tuple[mx.array, mx.array]:
    """The block rule on the device; arguments and results are those of `rejection`.

    A failure in the middle does not end it: the longest draft that is taken wins.
    """
    if logq is None:
        return rejection(logp, logq, drafted, seed, position)
    n = drafted.shape[0]
    chances, law = block_chances(mx.exp(logp[:n]), mx.exp(logq), drafted)
    u = mx.concatenate([mx.random.uniform(shape=(1,), key=key(seed, position + i, ACCEPT)) for i in range(n)])
    places = mx.arange(n)
    longest = mx.max(mx.where(u < chances, places + 1, 0))
    rest = mx.concatenate([mx.log(law), logp[n:]])
    return places < longest, draw(rest, seed, position, 1.0, RESIDUAL)
