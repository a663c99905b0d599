"""Tensors as memory and names, and files as bytes, for the other modules of this package."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from .._arrays import Writable, numpy_dtype
from .._file import open as _open
from .._write import save_ordered
from ..numpy import _checked_metadata
from ..numpy import save as _save
from ._errors import SafetensorError, telling

__all__ = ["CODES", "TensorSpec", "deserialize", "serialize", "serialize_file"]

Path = str | os.PathLike[str]

#: Holdall's element types, by their names in headers of safetensors.
CODES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "float6_e2m3fn": "F6_E2M3",
    "float6_e3m2fn": "F6_E3M2",
    "float4_e2m1fn": "F4",
}
#: The type names that :class:`TensorSpec` accepts: names of NumPy and torch. The last is torch's, for pairs.
_PAIRS = "float4_e2m1fn_x2"
_TAKEN = [name for name in CODES if not name.startswith(("float6_", "float4_"))] + [_PAIRS]


class TensorSpec:
    """A tensor to be written: its type, its shape, and the location of its bytes in memory.

    The caller must keep the memory valid and unchanged until the call that takes the spec has returned.
    """

    __slots__ = ("_name", "_shape", "_data_ptr", "_data_len")

    def __init__(self, *, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> None:
        if dtype not in _TAKEN:
            raise SafetensorError(f'Unknown dtype "{dtype}". Supported dtypes: {", ".join(_TAKEN)}')
        dims = [int(n) for n in shape]
        if any(n < 0 for n in (*dims, data_ptr, data_len)):
            raise OverflowError("can't convert negative int to unsigned")
        if dtype == _PAIRS and dims:
            dims[-1] *= 2
        self._name = "float4_e2m1fn" if dtype == _PAIRS else dtype
        self._shape = dims
        self._data_ptr = int(data_ptr)
        self._data_len = int(data_len)

    @property
    def dtype(self) -> str:
        """The element type, as in the header: ``"F32"``."""
        return CODES[self._name]

    @property
    def shape(self) -> list[int]:
        """The dimensions in elements, also if two elements share a byte."""
        return list(self._shape)

    @property
    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self._data_ptr

    @property
    def data_len(self) -> int:
        """The number of bytes."""
        return self._data_len

    def __repr__(self) -> str:
        return (
            f"TensorSpec(dtype={self.dtype!r}, shape={self._shape}, data_ptr={self._data_ptr}, "
            f"data_len={self._data_len})"
        )

    def _given(self) -> Writable:
        """Returns an array over the bytes, without a copy."""
        import ctypes

        import numpy as np

        count = prod(self._shape)
        bits = count * 4 if self._name == "float4_e2m1fn" else count * 8 * numpy_width(self._name)
        if bits != 8 * self._data_len:
            raise SafetensorError("Error while serializing: invalid shape, data type, or offset for tensor")
        raw = np.empty(0, np.uint8)
        if self._data_len:
            raw = np.ctypeslib.as_array((ctypes.c_ubyte * self._data_len).from_address(self._data_ptr))
        return Writable(raw, self._name, None, self, tuple(self._shape))


def numpy_width(name: str) -> int:
    """Returns the bytes per element, for types with a whole number of bytes."""
    if name == "bfloat16":
        return 2
    return 1 if name.startswith("float8") else int(numpy_dtype(name).itemsize)


def serialize(tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None) -> bytes:
    """Returns the bytes of a file with these tensors.

    Raises:
        SafetensorError: the length of a tensor does not match its type and shape.
    """
    with telling("Error while serializing"):
        return _save(_given(tensor_dict), metadata)


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec], filename: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a file with these tensors.

    Raises:
        SafetensorError: the length of a tensor does not match its type and shape, or the file cannot be written.
    """
    with telling("Error while serializing"):
        written(_given(tensor_dict), filename, metadata)


def written(tensors: Mapping[str, Any], filename: Path, metadata: Mapping[str, str] | None) -> None:
    """Writes a file with these tensors: safetensors, unless the name ends in ``.zt`` or ``.mt``."""
    save_ordered(filename, tensors, _checked_metadata(metadata), dropped_in=True)


def _given(tensor_dict: Mapping[str, TensorSpec]) -> dict[str, Writable]:
    out = {}
    for name, spec in tensor_dict.items():
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"tensor_dict has a TensorSpec for each name, not {type(spec).__name__}")
        out[name] = spec._given()
    return out


def deserialize(bytes: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Returns the tensors of a file in memory: for each its name, and its ``shape``, ``dtype`` and ``data``.

    Raises:
        SafetensorError: the bytes are not a valid file.
    """
    with telling("Error while deserializing"), _open(in_memory(bytes), strict=True) as file:
        out = []
        for name, t in file.items():
            t._dense("deserialize")
            data = bytearray(t.components["data"].bytes())
            out.append((name, {"shape": list(t.shape), "dtype": CODES.get(t.dtype, t.dtype), "data": data}))
        return out


def in_memory(data: Any) -> bytes:
    """Checks that ``data`` is the content of a file, not a path."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"the bytes of a file are taken, not {type(data).__name__}: load_file takes its path")
    return data if isinstance(data, bytes) else bytes(data)
