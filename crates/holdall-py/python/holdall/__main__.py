"""The command: ``python -m holdall inspect model.safetensors``."""

from __future__ import annotations

import signal
import sys

from ._holdall import command


def main() -> None:
    """Does what the command line says, and ends with its status."""
    # The command is not Python that an exception could interrupt: Ctrl-C ends it as it ends the program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(command(["holdall", *sys.argv[1:]], [sys.executable, "-m", "holdall"]))


if __name__ == "__main__":
    main()
