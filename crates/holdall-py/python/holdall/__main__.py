"""The command: ``python -m holdall inspect model.safetensors``."""

from __future__ import annotations

import signal
import sys

from ._holdall import command


def main() -> None:
    """Runs the command line and exits with its status."""
    # Ctrl-C ends the process at once: the command is native code, which a Python exception could not interrupt.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(command(["holdall", *sys.argv[1:]], [sys.executable, "-m", "holdall"]))


if __name__ == "__main__":
    main()
