"""Stands in for `python -m mlx_spec`: says what a training says, in tenths of a second, without a model.

The minutes that are asked for decide: 5 runs through, 6 goes on until it is stopped while it learns, 7 until it is
stopped among the answers, 8 meets a problem, 9 dies, 10 says nonsense and ends, 11 does not listen to a stop, 12
measures for a minute once it was stopped while it learns.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path


def say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["train"])
    for name in ("--model", "--kind", "--minutes", "--disk"):
        parser.add_argument(name, required=True)
    parser.add_argument("--json", action="store_true", required=True)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    if at := os.environ.get("STAND_IN_NOTES"):
        with Path(at).open("a") as notes:
            notes.write(json.dumps({**vars(options), "pid": os.getpid()}) + "\n")
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, signal.SIG_IGN if options.minutes == "11" else stop)

    def go_on(stage: str) -> None:
        for i in range(3000):
            if stopped:
                return
            say(stage=stage, share=i / 3000, note="going on", minutes_left=3.0)
            time.sleep(0.02)

    result = {"kind": options.kind, "folder": "/made", "before": [0.01, 0, 0], "after": [0.7, 0.4, 0.2]}
    say(stage="read", note=options.model, share=None)
    if options.minutes == "8":
        print("some library: a warning", file=sys.stderr)
        print("mlx-spec: No drafter is worth training for it: it has 2 layers. Use it plain.", file=sys.stderr)
        return 1
    if options.minutes == "9":
        os.kill(os.getpid(), signal.SIGKILL)
    if options.minutes == "10":
        print("{ not json")
        print('["no object"]')
        print("Traceback: something new", file=sys.stderr)
        return 3
    say(stage="answers", share=0.5, note="1,000 tokens written", minutes_left=4.0)
    if options.minutes in ("7", "11"):
        go_on("answers")
        say(stopped=True)
        return 143
    say(stage="measure", share=0.0, note="held-out texts, before", minutes_left=3.9)
    say(stage="learn", share=0.25, note="step 20, loss 3.000", minutes_left=2.0)
    if options.minutes in ("6", "12"):
        go_on("learn")
    say(stage="measure", share=1.0, note="held-out texts, after", minutes_left=0.0)
    if options.minutes == "12":
        time.sleep(60)
    say(**result, minutes=4.9, bytes=9_000_000, stopped=stopped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
