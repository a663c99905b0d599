"""Tensors in the order in which they arrive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._arrays import array, flat, strided_view, with_tensor_name
from ._encode import DESCR, DTYPE
from ._kinds import restored
from .errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np

    from . import _holdall

__all__ = ["Arriving"]


class Arriving(Iterator[tuple[str, Any]]):
    """Tensors that arrive one by one: an iterator over names and arrays, and a context manager. Closing or
    deleting it stops the transfer."""

    __slots__ = ("_native", "_source", "_noted")

    def __init__(self, native: _holdall.Arriving, source: str, noted: dict[str, dict[str, Any]]) -> None:
        self._native = native
        self._source = source
        #: The attributes from which the Python types of tensors are restored, by the name of the tensor.
        self._noted = noted

    def __next__(self) -> tuple[str, np.ndarray[Any, Any] | dict[str, np.ndarray[Any, Any]]]:
        found = self._native.next()
        if found is None:
            raise StopIteration
        name, shape, is_dense, parts = found
        try:
            if is_dense:
                _, dtype, _, buffer = parts[0]
                made = array(buffer, 0, shape, dtype)
                noted = self._noted.get(name)
                return name, made if noted is None else restored(made, noted.get(DESCR, noted.get(DTYPE)))
            strides = self._noted.get(name, {}).get("strides")
            if isinstance(strides, list) and len(parts) == 1 and len(strides) == len(shape):
                _, dtype, _, buffer = parts[0]
                strided = strided_view(buffer, 0, shape, dtype, strides)
                if strided is not None:
                    return name, restored(strided, self._noted[name].get(DESCR))
            return name, {role: flat(buffer, storage) for role, _, storage, buffer in parts}
        except UnsupportedError as e:
            raise with_tensor_name(e, self._source, name) from None

    @property
    def left(self) -> int:
        """The number of tensors that have not been taken yet."""
        return self._native.left()

    def prefer(self, name: str) -> None:
        """Loads a tensor before the others, if it has not arrived yet, together with those that are read with it.

        Raises:
            NotFoundError: the file has no such tensor.
        """
        self._native.prefer(name)

    def close(self) -> None:
        """Stops the transfer. Tensors that have arrived stay valid."""
        self._native.close()

    def __enter__(self) -> Arriving:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<holdall.Arriving of {self._source!r}, {self.left} left>"
