"""Saves and loads dicts of Paddle tensors, like `safetensors.paddle`, in files of every format."""

from __future__ import annotations

from typing import Any

import paddle

from . import numpy as _numpy
from ._bytes import Path, TensorSpec, serialize, serialize_file
from ._frameworks import of_array
from ._open import safe_open

__all__ = ["load", "load_file", "save", "save_file"]


def __dir__() -> list[str]:
    return sorted(__all__)


def save_file(tensors: dict[str, Any], filename: Path, metadata: dict[str, str] | None = None) -> None:
    """Writes tensors to a file: safetensors, unless the name ends in ``.zt`` or ``.mt``.

    Raises:
        ValueError: a value is not contiguous, or is not a tensor.
        SafetensorError: a tensor cannot be stored, or the file cannot be written.
    """
    specs, _kept = _specs(tensors)
    serialize_file(specs, filename, metadata)


def save(tensors: dict[str, Any], metadata: dict[str, str] | None = None) -> bytes:
    """Returns the bytes of a safetensors file."""
    specs, _kept = _specs(tensors)
    return serialize(specs, metadata)


def load_file(filename: Path, device: Any = "cpu", *, backend: str = "mmap") -> dict[str, Any]:
    """Loads all tensors of a file."""
    with safe_open(filename, framework="paddle", device=device, backend=backend) as file:
        return file.get_tensors()


def load(data: bytes, device: Any = "cpu") -> dict[str, Any]:
    """Loads all tensors from the bytes of a file."""
    return {name: of_array(a, "paddle", device) for name, a in _numpy.load(data).items()}


def _specs(tensors: dict[str, Any]) -> tuple[dict[str, TensorSpec], list[Any]]:
    """Returns specs of tensors without copying them, and objects that keep their memory alive."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, paddle.Tensor] but received {type(tensors)}")
    for name, x in tensors.items():
        if not isinstance(x, paddle.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected paddle.Tensor but received {type(x)}")
        if not x.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed; `.contiguous()` packs it."
            )
    kept = {name: x if x.place.is_cpu_place() else x.cpu() for name, x in tensors.items()}
    specs = {}
    for name, x in kept.items():
        size = int(x.numel()) * x.element_size()
        kind = str(x.dtype).rpartition(".")[2]
        specs[name] = TensorSpec(dtype=kind, shape=x.shape, data_ptr=x.data_ptr() if size else 0, data_len=size)
    return specs, list(kept.values())
