"""`python -m desktop`, and the `outrider` command.

Nothing is imported at the top: the engine's process imports this module again when it is spawned.
"""


def main() -> int:
    import sys

    from desktop.app import run

    return run(sys.argv)


if __name__ == "__main__":
    raise SystemExit(main())
