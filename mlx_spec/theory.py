"""The papers' formulas: what drafting should gain, from acceptance, length and costs.

Leviathan et al. 2023 (arXiv 2211.17192): with a chance `alpha` that a draft holds, the same at each place, a round
of `gamma` drafts yields (1 - alpha^(gamma + 1)) / (1 - alpha) tokens (equation 1). If a drafted token costs `c`
plain passes and checking costs one, whatever its width, the gain is that over gamma c + 1 (theorem 3.8). On real
machines a pass of 1 + gamma rows costs C > 1 plain passes. These formulas know nothing of places where drafts are
better or worse; the controller does, so the two predictions are shown side by side.
"""

from __future__ import annotations

from collections.abc import Callable


def expected_tokens(alpha: float, gamma: float) -> float:
    """Tokens a round, 1 to gamma + 1. Raises ValueError for a chance outside 0 to 1 or a negative length."""
    if not 0 <= alpha <= 1 or gamma < 0:
        raise ValueError(f"alpha {alpha} or gamma {gamma} is out of range")
    if alpha == 1:
        return gamma + 1
    return float((1 - alpha ** (gamma + 1)) / (1 - alpha))


def speed_up(alpha: float, gamma: float, c: float, pass_cost: float = 1.0) -> float:
    """Tokens a plain pass's time. `pass_cost` 1 is the papers' machine, on which checking is free."""
    return expected_tokens(alpha, gamma) / (gamma * c + pass_cost)


def best_length(alpha: float, c: float, pass_cost: Callable[[int], float], most: int = 16) -> tuple[int, float]:
    """The length from 0 to `most` that gains most, and its gain; (0, 1.0) is plain decoding."""
    gains = [(speed_up(alpha, n, c, pass_cost(1 + n)), -n) for n in range(1, most + 1)]
    gain, n = max([(1.0, 0), *gains])
    return -n, gain


def acceptance_rate(rounds: list[tuple[int, int]]) -> float | None:
    """The chance that a draft holds where those before it did, of (drafted, accepted) rounds: the likeliest alpha.
    None before anything was drafted."""
    held = sum(accepted for _, accepted in rounds)
    failed = sum(accepted < drafted for drafted, accepted in rounds)
    return held / (held + failed) if held + failed else None
