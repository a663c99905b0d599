"""Arrays as the values that models take and give, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Union

from ._arrays import array, given, little
from .errors import Misuse, Unsupported

if TYPE_CHECKING:
    import numpy as np

#: Element types that packages have.
TYPES = frozenset("float64 float32 int64 int32 int16 int8 uint64 uint32 uint16 uint8 string".split())
#: An array; of a nested tensor, a list of arrays.
Value = Union["np.ndarray[Any, Any]", list["np.ndarray[Any, Any]"]]


def value(native: Any, *, writable: bool) -> Value:
    """The array of a value: texts as ``str`` in an array of objects, a nested tensor as a list."""
    if isinstance(native, list):
        return [_array(part, writable) for part in native]
    return _array(native, writable)


def _array(native: tuple[str, tuple[int, ...], Any], writable: bool) -> "np.ndarray[Any, Any]":
    import numpy as np

    dtype, shape, data = native
    if dtype != "string":
        out = array(data, 0, shape, dtype)
        return out.copy() if writable else out
    texts = np.empty(len(data), object)
    texts[:] = data
    texts = texts.reshape(shape)
    texts.flags.writeable = writable
    return texts


def native(given_value: Any, what: str, dtype: Optional[str] = None) -> Any:
    """A value for the native half, from an array, from numbers or texts and lists of them, or, nested, from a
    list of arrays. Numbers of Python's own take the declared type ``dtype``; arrays keep theirs.

    Raises:
        TypeError: it is none of these.
        Unsupported: of elements that packages do not have.
    """
    import numpy as np

    if isinstance(given_value, (list, tuple)) and any(hasattr(part, "__array__") for part in given_value):
        return [_native(part, f"{what}[{at}]") for at, part in enumerate(given_value)]
    if isinstance(given_value, (str, int, float, list, tuple)):
        return _native(_of_python(given_value, what, dtype), what)
    if given_value is None or isinstance(given_value, (bytes, bytearray, dict, set)):
        raise TypeError(f"{what} is an array, not {type(given_value).__name__}")
    if isinstance(given_value, np.generic) and isinstance(given_value, (str, np.str_)):
        return _native(np.asarray(str(given_value)), what)
    return _native(given_value, what)


def _of_python(numbers: Any, what: str, dtype: Optional[str]) -> "np.ndarray[Any, Any]":
    import numpy as np

    try:
        a: np.ndarray[Any, Any] = np.asarray(numbers)
        if a.dtype.kind == "i" and dtype in TYPES and dtype != "string":
            return np.asarray(numbers, dtype)
        if a.dtype.kind == "f" and dtype in ("float32", "float64") or a.size == 0 and dtype in TYPES - {"string"}:
            return np.asarray(numbers, dtype)
    except (ValueError, OverflowError) as e:
        raise Misuse(f"{what} makes no array: {e}", code="python/shape", kind="misuse", tensor=None) from None
    return a


def _native(of: Any, what: str) -> tuple[str, list[int], Any]:
    import numpy as np

    if isinstance(of, np.ndarray) and of.dtype.kind in "UTO":
        texts = of.reshape(-1).tolist()
        if all(isinstance(text, str) for text in texts):
            return "string", list(of.shape), texts
        raise Unsupported(
            f"{what} has objects that are not texts",
            code="python/dtype",
            kind="unsupported",
            hint="an array of objects has str only; numbers go into an array of numbers",
        )
    if isinstance(of, np.ndarray) and of.dtype.kind == "S":
        raise Unsupported(
            f"{what} has bytes, not texts",
            code="python/dtype",
            kind="unsupported",
            hint="decode them: numpy.char.decode(x, 'utf-8')",
        )
    a = given(of, what)
    if a.dtype not in TYPES:
        raise Unsupported(
            f"{what} has elements of {a.dtype}, which packages do not have",
            code="python/dtype",
            kind="unsupported",
            hint=f"convert them to one of {', '.join(sorted(TYPES))}",
        )
    return a.dtype, list(a.array.shape), little(a.array)
