"""Logits processors of the caller's own: grammars, banned words, least lengths.

The signature is mlx-lm's, `(tokens, logits) -> logits`: `tokens` is everything so far, prompt included, and
`logits` is (1, vocabulary). In a pass over a draft, row i is processed as if the draft's first i tokens had been
written. A processor that keeps a state of its own sees tokens that are then rejected; so its state is copied
after each row and set back to the one after the last row that counts. Functions keep no state and cost nothing.

They are applied after the penalties and before top-p and temperature, to the target only: a draft model does
not know them, which costs acceptance and changes no text.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Sequence

import mlx.core as mx

LogitsProcessor = Callable[[mx.array, mx.array], mx.array]


class Processors:
    def __init__(self, functions: Sequence[LogitsProcessor]) -> None:
        self._functions = list(functions)
        self._states: list[list[LogitsProcessor]] = []

    def __bool__(self) -> bool:
        return bool(self._functions)

    def __call__(self, committed: Sequence[int], drafted: Sequence[int], logits: mx.array) -> mx.array:
        """Process rows (1 + len(drafted), vocabulary), which follow `committed` and more and more of the draft."""
        self._states = []
        rows = []
        for i in range(len(drafted) + 1):
            tokens = mx.array([*committed, *drafted[:i]])
            row = logits[i : i + 1]
            for function in self._functions:
                row = function(tokens, row)
            rows.append(row)
            if drafted:
                self._states.append([_copy(f) for f in self._functions])
        return mx.concatenate(rows)

    def settle(self, accepted: int) -> None:
        """The row after `accepted` drafts wrote the target's own token: later rows were never asked for."""
        if self._states:
            self._functions = self._states[accepted]
            self._states = []


def _copy(function: LogitsProcessor) -> LogitsProcessor:
    return function if isinstance(function, types.FunctionType | types.BuiltinFunctionType) else copy.deepcopy(function)
