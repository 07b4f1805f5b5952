"""Drafts out of past replies (replies.py): boilerplate, names, code and turns of phrase that come again.

It knows token ids only. How far each length of match is to be trusted, the controller learns.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from ..replies import LONGEST, Replies
from ..sampling import History
from .base import Context, Draft, Offer
from .lookup import bucket


class PastReplies:
    name = "history"
    cost_hint = 0.0

    def __init__(self, replies: Replies) -> None:
        self.replies = replies

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing of the prompt is kept: it is the person's, and in the suffix automaton already."""

    def offer(self, history: History, limit: int) -> Offer | None:
        length, draft = self.replies.match(history.tokens[-LONGEST:], limit)
        return Offer(len(draft), bucket(length), tuple(draft)) if draft else None

    def propose(self, context: Context, offer: Offer, n: int) -> Draft:
        return Draft(mx.array(offer.tokens[:n], mx.uint32))

    def settle(self, drafted: Sequence[int]) -> None:
        """Nothing of a proposal is kept."""

    def reset(self) -> None:
        """The replies outlive a conversation."""
