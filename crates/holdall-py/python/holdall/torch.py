"""Saves and loads dicts of torch tensors, like `safetensors.torch`, in files of every format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _torch
from ._file import open as _open
from ._torch_loader import DataLoader
from .numpy import save, save_file

__all__ = ["DataLoader", "Dataset", "IterableDataset", "load", "load_file", "load_model", "save", "save_file", "save_model"]


def __dir__() -> list[str]:
    return sorted(__all__)


Path = str | os.PathLike[str]


def load_file(filename: Path, device: Any = "cpu") -> dict[str, Any]:
    """Loads all tensors of a file of any format as torch tensors, in new memory; of a nested value that
    :func:`holdall.save` wrote, the whole. Tied weights (of one file, with the same bytes in it) share their memory. A tensor
    that torch cannot hold is left out, with a warning: see :func:`holdall.load`."""
    _torch.module()
    with _open(filename) as file:
        return _torch.load_all(file, device)


def load(data: bytes, device: Any = "cpu") -> dict[str, Any]:
    """Loads all tensors from the bytes of a file."""
    _torch.module()
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError("load takes the bytes of a file; load_file takes its path")
    with _open(data) as file:
        return _torch.load_all(file, device)


def save_model(model: Any, filename: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Writes a module's `state_dict`. Tied weights are written for each of their names."""
    save_file(model.state_dict(), filename, metadata)


def load_model(model: Any, filename: Path, strict: bool = True, device: Any = "cpu") -> Any:
    """Loads a file into a module, and returns the result of `load_state_dict`."""
    return model.load_state_dict(load_file(filename, device), strict=strict)


def __getattr__(name: str) -> Any:
    # Subclasses of torch's classes are created on first use, so that torch is not imported earlier.
    if name in ("Dataset", "IterableDataset"):
        from . import _torch_data

        globals().update(_torch_data.classes(_torch.module(), __name__))
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
