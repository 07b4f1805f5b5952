"""Drafts out of past replies (replies.py): boilerplate, names, code and turns of phrase that come again.

It knows token ids only. How far each length of match is to be trusted, the controller learns.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..replies import LONGEST, Replies
from ..sampling import History
from .base import Free, Offer
from .lookup import bucket


class PastReplies(Free):
    name = "history"

    def __init__(self, replies: Replies) -> None:
        self.replies = replies

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing of the prompt is kept: it is the person's, and in the suffix automaton already."""

    def offer(self, history: History, limit: int) -> Offer | None:
        length, draft = self.replies.match(history.tokens[-LONGEST:], limit)
        return Offer(len(draft), bucket(length), tuple(draft)) if draft else None

    def reset(self) -> None:
        """The replies outlive a conversation."""
