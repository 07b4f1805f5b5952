"""Rounds made up for the tests of the sidebar."""

from __future__ import annotations

from mlx_spec.events import Finished, Round, Span


def make_round(
    index: int = 0,
    drafter: str | None = None,
    drafted: int = 0,
    accepted: int = 0,
    total_s: float = 0.1,
    plain_s: float | None = None,
    draft_s: float = 0.0,
    verify_s: float | None = None,
    own: bool = True,
) -> Round:
    """A round with `accepted` of `drafted` tokens held; the target's own token unless `own` is False."""
    return Round(
        request=1,
        index=index,
        position=index,
        drafter=drafter,
        drafted=tuple(range(drafted)),
        drafted_text=tuple(f" d{i}" for i in range(drafted)),
        accepted=accepted,
        tokens=tuple(range(accepted + (1 if own else 0))),
        spans=(Span(" held", drafter), Span(" own")) if accepted else (Span(" own"),),
        width=drafted + 1,
        draft_s=draft_s,
        verify_s=total_s - draft_s if verify_s is None else verify_s,
        total_s=total_s,
        plain_s=plain_s,
    )


def make_finished(tokens: int = 20, decode_s: float = 2.0, plain_s: float | None = 0.1) -> Finished:
    """A finished reply of `tokens` tokens in `decode_s` seconds."""
    return Finished(
        request=1,
        reason="stop",
        tail=(),
        tokens=tokens,
        prompt_tokens=10,
        cached_tokens=0,
        passes=tokens // 2,
        prompt_s=0.1,
        first_token_s=0.2,
        decode_s=decode_s,
        seed=1,
        plain_s=plain_s,
    )
