"""mlx-spec models search, show and delete: what the hub has, what of it fits here, and what may go."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..events import Problem
from .terminal import size

if TYPE_CHECKING:
    from models.search import Found

VERDICTS = {"fits": "fits", "tight": "tight", "too large": "too large", "unknown": "?"}


def search(options: Namespace) -> int:
    """Print what the hub has for the words, most downloaded first; without words, what suits this machine."""
    words = " ".join(options.words)
    if not words.strip():
        return _recommend(options)
    from models.repo import fit
    from models.search import search as ask

    found = ask(words, options.form, options.limit)
    rows = [(one, fit({}, one.bytes)) for one in found]
    if options.json:
        print(json.dumps([{**asdict(one), "verdict": verdict.verdict} for one, verdict in rows], ensure_ascii=False))
        return 0
    if not rows:
        print(f'The hub has nothing for "{words}".' + (" --form all looks further." if options.form != "all" else ""))
        return 0
    width = max(len(one.repo) for one, _ in rows)
    for one, verdict in rows:
        weights = size(one.bytes) if one.bytes else "?"
        state = "cannot be used" if one.why_not else VERDICTS[verdict.verdict]
        print(f"{one.repo:{width}}  {weights:>8}  {state:14}  {_about(one)}".rstrip())
        if one.why_not:
            print(f"  {one.why_not}")
    print("\nSizes of weights; fits: with about 8,192 tokens of context. mlx-spec models show ID tells exactly.")
    return 0


def _about(one: Found) -> str:
    parts = [one.quantization, one.licence or "no licence named", f"{one.downloads:,} downloads"]
    return ", ".join([p for p in parts if p] + (["its licence must be accepted there"] if one.gated else []))


def _recommend(options: Namespace) -> int:
    from models.recommended import recommended

    rows = recommended()
    if options.json:
        print(json.dumps([asdict(one) for one in rows]))
        return 0
    print("For the memory of this machine, largest first (sizes are estimates):")
    for one in rows:
        print(f"{one.target.repo}{f'  with {one.draft.repo}' if one.draft else ''}")
        print(f"  {one.why} {one.fit().words}")
    return 0


def show(options: Namespace) -> int:
    """Print what is to be known of a model of the hub before it is fetched."""
    from models.drafting_words import explain
    from models.repo import best_variant, details, fit

    known = details(options.repo)
    best = best_variant(known)
    fits = [fit(known.config, variant.weights) for variant in known.variants]
    if options.json:
        rows: list[dict[str, Any]] = [
            {
                "name": v.plan.source,
                "bytes": v.plan.bytes,
                "in_memory": v.weights,
                "label": v.label,
                "why_not": v.why_not,
                "verdict": f.verdict,
            }
            for v, f in zip(known.variants, fits, strict=True)
        ]
        print(json.dumps({**asdict(known.found), "variants": rows}, ensure_ascii=False))
        return 0
    print(f"{known.found.repo}: {_about(known.found)}")
    for variant, verdict in zip(known.variants, fits, strict=True):
        print(f"  {variant.plan.source}  {size(variant.plan.bytes)}{'  (recommended)' if variant is best else ''}")
        print(f"    {variant.why_not or f'{verdict.words} {variant.note}'.strip()}")
    print("Who can draft for it:")
    for line in explain(options.repo, known.config).lines:
        print(f"  {line}")
    if best is not None:
        print(f"Fetch it with: mlx-spec models get {best.plan.source}")
    return 0


def delete(options: Namespace) -> int:
    """Delete a model from the disk, after asking."""
    from models.on_disk import on_disk
    from models.remove import delete as remove
    from models.remove import what_goes

    found = [one for one in on_disk() if options.name in (one.source, one.title)]
    if not found:
        raise Problem(f'There is no model "{options.name}" on this disk.', "mlx-spec models list names those that are.")
    path = what_goes(found[0])
    if not options.yes:
        print(f"Delete {found[0].title} ({size(found[0].bytes)}, {path})? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("Nothing was deleted.", file=sys.stderr)
            return 1
    print(f"{size(remove(found[0]))} are free again.")
    return 0
