"""Packages that may be there."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import MissingPackageError


def package(name: str, wanted: str | None = None) -> Any:
    """A package that may not be there; ``wanted`` is what brings it, where that has another name.

    Raises:
        UnsupportedError: it is not.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingPackageError(
            f"{name} is not installed", code="python/extra", kind="unsupported", hint=f"pip install '{wanted or name}'"
        ) from None
