"""Conversion between arrays and the inputs and outputs of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ._arrays import array, writable_array, little_endian_bytes
from .errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    import numpy as np

#: Element types that packages support.
TYPES = frozenset("float64 float32 int64 int32 int16 int8 uint64 uint32 uint16 uint8 string".split())
#: The maximum depth of nested lists: the number of dimensions that NumPy's arrays can have.
DEPTH = 64
#: An array; for a nested tensor, a list of arrays.
Value: TypeAlias = "np.ndarray[Any, Any] | list[np.ndarray[Any, Any]]"


def value(native: Any, *, writable: bool) -> Value:
    """Returns the array of a native value: strings as ``str`` in an array of objects, a nested tensor as a list."""
    if isinstance(native, list):
        return [_array(part, writable) for part in native]
    return _array(native, writable)


def _array(native: tuple[str, tuple[int, ...], Any], writable: bool) -> np.ndarray[Any, Any]:
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


def native(given_value: Any, what: str, dtype: str | None = None) -> Any:
    """Converts an array, numbers, strings, lists of them, or (for a nested tensor) a list of arrays to a native
    value. Python numbers, and NumPy scalars in a list, take the declared type ``dtype``; arrays keep their type.

    Raises:
        TypeError: ``given_value`` is none of these, or a list mixes strings and other values.
        UsageError: a list does not form an array: it is ragged, too deep, or its numbers do not fit.
        UnsupportedError: packages do not support the element type.
    """
    if isinstance(given_value, str):
        return "string", [], [str.__str__(given_value)]
    if isinstance(given_value, (list, tuple)):
        if any(hasattr(part, "__array__") and not _is_scalar(part) for part in given_value):
            return [_native(part, f"{what}[{at}]") for at, part in enumerate(given_value)]
        return _of_list(given_value, what, dtype)
    if isinstance(given_value, (int, float)):
        return _native(_of_numbers(given_value, what, dtype), what)
    if given_value is None or isinstance(given_value, (bytes, bytearray, dict, set)):
        raise TypeError(f"{what} must be an array, not {type(given_value).__name__}")
    return _native(given_value, what)


def _is_scalar(of: object) -> bool:
    """Returns whether it is a NumPy scalar, which has ``__array__`` as arrays do."""
    import numpy as np

    return isinstance(of, np.generic)


def _of_list(items: Any, what: str, dtype: str | None) -> Any:
    kinds: set[type] = set()
    level = [items]
    for _ in range(DEPTH):
        inside = [item for part in level for item in part]
        level = [item for item in inside if isinstance(item, (list, tuple))]
        kinds.update(kind for kind in set(map(type, inside)) if not issubclass(kind, (list, tuple)))
        if not level:
            break
    else:
        raise _no_array(what, f"its lists are nested deeper than {DEPTH} levels")
    others = sorted(kind.__name__ for kind in kinds if not issubclass(kind, str))
    if len(others) < len(kinds):
        if others:
            raise TypeError(f"{what} has texts and {others[0]} in one list; an array has one of them")
        return "string", *_texts(items, what)
    if not kinds and dtype == "string":
        return "string", *_texts(items, what)
    if dtype in TYPES and any(hasattr(kind, "__array__") for kind in kinds):
        items = _plain(items)
    return _native(_of_numbers(items, what, dtype), what)


def _texts(items: Any, what: str) -> tuple[list[int], list[str]]:
    """Returns the shape of nested lists of strings, and the strings. NumPy is not used here: it strips trailing
    NULs and pads every string to the longest."""
    shape: list[int] = []
    while True:
        shape.append(len(items[0]) if shape else len(items))
        items = [item for part in items for item in part] if len(shape) > 1 else list(items)
        lists = [item for item in items if isinstance(item, (list, tuple))]
        if not lists:
            return shape, [str.__str__(text) for text in items]
        if len(lists) < len(items) or len({len(part) for part in lists}) > 1:
            raise _no_array(what, f"its lists have different lengths in dimension {len(shape)}")


def _plain(items: Any) -> Any:
    """Replaces NumPy scalars in nested lists by Python numbers."""
    if isinstance(items, (list, tuple)):
        return [_plain(item) for item in items]
    return items.item() if _is_scalar(items) else items


def _of_numbers(numbers: Any, what: str, dtype: str | None) -> np.ndarray[Any, Any]:
    import numpy as np

    try:
        a: np.ndarray[Any, Any] = np.asarray(numbers)
        if a.dtype.kind == "i" and dtype in TYPES and dtype != "string":
            return np.asarray(numbers, dtype)
        if a.dtype.kind == "f" and dtype in ("float32", "float64") or a.size == 0 and dtype in TYPES - {"string"}:
            return np.asarray(numbers, dtype)
        if a.dtype.kind == "f" and dtype == "uint64":
            # NumPy converts a mix of integers below and above 2**63 to floats.
            whole = np.asarray(numbers, object).reshape(-1).tolist()
            return np.asarray(numbers, dtype) if all(isinstance(n, int) for n in whole) else a
    except (ValueError, OverflowError) as e:
        raise _no_array(what, str(e)) from None
    return a


def _no_array(what: str, why: str) -> UsageError:
    return UsageError(f"{what} does not form an array: {why}", code="python/shape", kind="misuse")


def _native(of: Any, what: str) -> tuple[str, list[int], Any]:
    import numpy as np

    if isinstance(of, np.ndarray) and of.dtype.kind in "UTO":
        texts = of.reshape(-1).tolist()
        if all(isinstance(text, str) for text in texts):
            return "string", list(of.shape), texts
        raise UnsupportedError(
            f"{what} has objects that are not texts",
            code="python/dtype",
            kind="unsupported",
            hint="an array of objects has str only; numbers go into an array of numbers",
        )
    if isinstance(of, np.ndarray) and of.dtype.kind == "S":
        raise UnsupportedError(
            f"{what} has bytes, not texts",
            code="python/dtype",
            kind="unsupported",
            hint="decode them: numpy.char.decode(x, 'utf-8')",
        )
    a = writable_array(of, what)
    if a.dtype not in TYPES:
        raise UnsupportedError(
            f"{what} has elements of {a.dtype}, which packages do not have",
            code="python/dtype",
            kind="unsupported",
            hint=f"convert them to one of {', '.join(sorted(TYPES))}",
        )
    return a.dtype, list(a.array.shape), little_endian_bytes(a.array)
