"""Runners in separate processes, and helpers to write one.

A runner is a program that `holdall run` starts and exchanges frames with, as specified in docs/spec/runner.md. In
Python it is a class with three members and one call::

    from holdall.runners import Failure, serve

    class Doubling:
        name = "doubling"

        def start(self):
            return {"version": "1.0.0"}

        def load(self, folder, options, declared):
            return lambda inputs: {name: 2 * x for name, x in inputs.items()}

    serve(Doubling())

``holdall runner check -- python3 doubling.py`` tests it, ``holdall run model.carton --runner-command 'python3
doubling.py'`` runs a model with it, and a configuration file can register it. :mod:`holdall.runners.torchscript` is
an example.
"""

from __future__ import annotations

from ._wire import Failure, serve

__all__ = ["Failure", "serve"]

_SUBMODULES = ("torchscript",)


def __dir__() -> list[str]:
    # Submodules are listed only if they were imported.
    return sorted([*__all__, *(name for name in _SUBMODULES if name in globals())])
