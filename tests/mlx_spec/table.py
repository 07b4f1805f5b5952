"""`python -m tests.mlx_spec.table > mlx_spec/ARCHITECTURES.md`: what was shown of each architecture."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import version

import mlx.core as mx

from mlx_spec.cache import leaves
from mlx_spec.target import Target

from . import zoo
from .test_parity import check

HEAD = """# Architectures

Made by `python -m tests.mlx_spec.table` with mlx-lm {version}. Of each architecture a tiny random float32 model
was decoded plain and with drafts that are right, wrong, half right, too long or missing in turn, with lookup,
and with a draft model that is spoiled now and then: at temperature 0 and 0.9, across sliding windows, on to a
second turn from the kept caches, and back to an edited first turn. "Exact" means the same tokens every time.

"Taken back by" says how rejected drafts leave the caches: "offset" and "window" cost nothing; "state" goes back
to the state before the pass, and the recurrent layers alone (or, where they cannot be told apart, all layers) are
run again over the drafts that held.

| Architecture | Caches | Taken back by | Shown |
| --- | --- | --- | --- |"""


def main() -> None:
    print(HEAD.format(version=version("mlx-lm")))
    for name in zoo.architectures():
        if name in zoo.NOT_RUN:
            print(f"| {name} | | | not run: {zoo.NOT_RUN[name]} |")
            continue
        target = Target(zoo.build(name))
        caches = Counter(type(c).__name__ for c in leaves(target.caches.layers))
        how = "offset" if target.caches.growing else "window" if target.caches.stateless else "state"
        try:
            check(name)
            shown = "exact"
        except AssertionError as e:
            shown = f"differs: {str(e).splitlines()[0]}"
        print(f"| {name} | {', '.join(sorted(caches))} | {how} | {shown} |", flush=True)
        mx.clear_cache()


if __name__ == "__main__":
    main()
