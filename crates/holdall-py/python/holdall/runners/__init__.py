"""Runners that are programs of their own, and what writes one.

A runner is a program that `holdall run` starts and speaks frames to, as docs/spec/runner.md says. One in Python is a
class of three members and one call::

    from holdall.runners import Failure, serve

    class Doubling:
        name = "doubling"

        def start(self):
            return {"version": "1.0.0"}

        def load(self, folder, options, said):
            return lambda inputs: {name: 2 * x for name, x in inputs.items()}

    serve(Doubling())

``holdall runner check -- python3 doubling.py`` tries it, ``holdall run model.carton --runner-command 'python3
doubling.py'`` runs a model by it, and a configuration file names it for good. :mod:`holdall.runners.torchscript` is one.
"""

from __future__ import annotations

from ._wire import Failure, serve

__all__ = ["Failure", "serve"]

_SUBMODULES = ("torchscript",)


def __dir__() -> list[str]:
    # Of the submodules, those that were imported.
    return sorted([*__all__, *(name for name in _SUBMODULES if name in globals())])
