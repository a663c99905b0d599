"""The names of element types, which compare with the types of NumPy and torch."""

from __future__ import annotations

import sys
from typing import Any

from .errors import UnsupportedError

__all__ = ["DType"]


class DType(str):
    """The name of an element type, such as ``"float32"`` or ``"bfloat16"``. It is a ``str`` that is also equal to the
    same type of NumPy, ml_dtypes or torch::

        t.dtype == "float32", t.dtype == np.float32, t.dtype == np.dtype("<f4"), t.dtype == torch.float32

    As with NumPy's own dtypes, which are equal to names and scalar types, a dict or set finds it by its name only: its
    hash is that of the name.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, other)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(other, (numpy.dtype, type)):
            return self._is_numpy(numpy, other)
        if type(other).__module__ == "torch" and type(other).__name__ == "dtype":
            return str(other) == f"torch.{str(self)}"
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return NotImplemented if equal is NotImplemented else not equal

    __hash__ = str.__hash__

    def _is_numpy(self, numpy: Any, other: Any) -> bool:
        """Returns whether NumPy takes ``other`` for this element type."""
        from ._arrays import numpy_dtype

        try:
            return bool(numpy.dtype(other) == numpy_dtype(str(self)))
        except (TypeError, ValueError, KeyError, UnsupportedError):
            return False

    def __reduce__(self) -> Any:
        return DType, (str(self),)
