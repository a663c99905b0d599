"""Optional Python packages."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import MissingPackageError


def package(name: str, wanted: str | None = None) -> Any:
    """Imports a package that may not be installed; ``wanted`` is the name to install it by, if that differs.

    Raises:
        UnsupportedError: the package is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingPackageError(
            f"{name} is not installed", code="python/extra", kind="unsupported", hint=f"pip install '{wanted or name}'"
        ) from None
