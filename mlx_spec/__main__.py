"""The mlx-spec command: `mlx-spec ...` or `python -m mlx_spec ...`.

A problem is one sentence on stderr and exit code 1; Ctrl-C keeps what was written and exits with 130; a
reader that goes away (`| head`) ends the command quietly. It knows how commands end, not what they do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .cli.arguments import parser
from .events import Problem

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
READER_GONE = 141  # 128 + SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    # A terminal that cannot show a character gets "?" for it, not a traceback.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    options = parser().parse_args(arguments)
    try:
        code = int(options.run(options))
        sys.stdout.flush()
    except Problem as e:
        print(f"mlx-spec: {e}", file=sys.stderr)
        return 1
    except MemoryError:
        print("mlx-spec: The machine is out of memory. Choose a smaller model or context.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Python would meet the same pipe again when it flushes stdout at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    return code


if __name__ == "__main__":
    sys.exit(main())
