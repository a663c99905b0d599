"""Saves and loads dicts of NumPy arrays, like `safetensors.numpy`, in files of every format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._file import open as _open
from ._write import save_ordered

if TYPE_CHECKING:
    import numpy as np

__all__ = ["load", "load_file", "save", "save_file"]


def __dir__() -> list[str]:
    return sorted(__all__)


Path = str | os.PathLike[str]


def save_file(tensor_dict: Mapping[str, Any], filename: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Writes arrays to a file: safetensors, unless the name's extension says another format. Arrays that share
    memory are written once for each name, so that every reader finds them; names are in the order of safetensors,
    independent of the order of the dict."""
    save_ordered(filename, tensor_dict, _checked_metadata(metadata))


def save(tensor_dict: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """Returns the bytes of a safetensors file."""
    import io

    out = io.BytesIO()
    save_ordered(out, tensor_dict, _checked_metadata(metadata))
    return out.getvalue()


def load_file(filename: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Loads all tensors of a file of any format, writable, in new memory. Tied weights (of one file, with the same
    bytes in it) share their memory."""
    with _open(filename) as file:
        return file.load()


def load(data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """Loads all tensors from the bytes of a file."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError("load takes the bytes of a file; load_file takes its path")
    with _open(data) as file:
        return file.load()


def _checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str] | None:
    """Checks that the metadata maps strings to strings, as in safetensors."""
    if metadata is None:
        return None
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError("metadata must map text to text; holdall.save accepts attributes of other types")
    return dict(metadata)
