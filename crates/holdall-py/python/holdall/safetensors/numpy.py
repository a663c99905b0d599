"""Saves and loads dicts of NumPy arrays, like `safetensors.numpy`, in files of every format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import numpy as _numpy
from ._bytes import Path, in_memory, written
from ._errors import telling
from ._open import safe_open

__all__ = ["load", "load_file", "save", "save_file"]


def __dir__() -> list[str]:
    return sorted(__all__)


def save_file(tensor_dict: Mapping[str, Any], filename: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Writes arrays to a file: safetensors, unless the name ends in ``.zt`` or ``.mt``.

    Raises:
        SafetensorError: an array cannot be stored, or the file cannot be written.
    """
    with telling("Error while serializing"):
        written(tensor_dict, filename, metadata)


def save(tensor_dict: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """Returns the bytes of a safetensors file.

    Raises:
        SafetensorError: an array cannot be stored.
    """
    with telling("Error while serializing"):
        return _numpy.save(tensor_dict, metadata)


def load_file(filename: Path, *, backend: str = "mmap") -> dict[str, Any]:
    """Loads all tensors of a file, writable, in the order of their bytes.

    Raises:
        FileNotFoundError: the file does not exist.
        SafetensorError: it is not a tensor file.
    """
    with safe_open(filename, framework="np", backend=backend) as file:
        return file.get_tensors()


def load(data: bytes) -> dict[str, Any]:
    """Loads all tensors from the bytes of a file.

    Raises:
        SafetensorError: the bytes are not a tensor file.
    """
    with telling("Error while deserializing"):
        return _numpy.load(in_memory(data))
