"""``python -m sb3_ext``: the ``sb3-ext`` command."""

from sb3_ext.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
