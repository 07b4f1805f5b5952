"""`python -m desktop`, and the `outrider` command.

Nothing is imported at the top: the engine's process imports this module again when it is spawned, and in a bundle
this is also where other processes of the app begin.
"""


def main() -> int:
    import sys

    from desktop import interpreter

    interpreter.settle()
    code = interpreter.answer(sys.argv)
    if code is not None:
        return code

    from desktop.app import run

    return run(sys.argv)


if __name__ == "__main__":
    raise SystemExit(main())
