"""mlx-spec layers: find the layers that a model's own drafts can do without, and keep the result."""

from __future__ import annotations

import sys
from argparse import Namespace

from ..events import Problem
from .loading import load
from .terminal import Progress


def run(options: Namespace) -> int:
    """Search, keep and print what was found; returns 0."""
    engine = load(options)
    from .. import layer_search

    progress = Progress()
    try:
        found = layer_search.search(engine, lambda done, total: progress("search", "layers", done, total))
    finally:
        progress.clear()
    assert engine.layers is not None
    try:
        layer_search.save(found, engine.layers)
    except OSError as e:
        raise Problem(f"The result cannot be written to {engine.layers}: {e.strerror}.", "Make room there.") from e
    gone = found.layers - len(found.kept)
    print(
        f"Without {gone} of {found.layers} layers {found.right:.0%} of its guesses are right, at {found.cost:.0%} of "
        f"the cost: {found.speed:.2f} times plain decoding."
    )
    print(
        "The drafter layer_skip is used from now on." if found.worth else "That gains nothing, so layer_skip stays off."
    )
    print(f"Kept: {', '.join(map(str, found.kept))}", file=sys.stderr)
    return 0
