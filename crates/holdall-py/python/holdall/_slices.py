"""Indexing that reads only the rows that are needed."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from ._arrays import numpy_dtype
from ._encode import PACKED
from ._kinds import Restored, restoring

if TYPE_CHECKING:
    from ._tensor import Tensor


def read(tensor: Tensor, key: Any, name: str | None = None) -> Any:
    """Returns the elements that ``key`` selects of a dense tensor, as type ``name`` if given."""
    numbers = name is not None or tensor.dtype in PACKED
    how = None if numbers else restoring(tensor._info[5], tensor.shape, numpy_dtype(tensor.dtype).itemsize)
    shape = tensor.shape if how is None else how.shape
    keys = _basic(key, len(shape))
    if keys is None or tensor.dtype in PACKED or (how is not None and not how.per_element):
        return (tensor._numbers() if numbers else tensor.numpy())[key]
    # Leading integers select one block each, the first slice a run of rows: together they are one range of the
    # tensor's elements. NumPy applies the rest of the key to that range.
    first, dim = 0, 0
    rest: list[Any] = []
    for at, k in enumerate(keys):
        if k is None:
            rest.append(None)
            continue
        inner = _count(shape[dim + 1 :])
        if isinstance(k, int):
            first += _place(k, shape[dim], dim) * inner
            dim += 1
            continue
        rows = range(*k.indices(shape[dim]))
        low, high = (min(rows), max(rows) + 1) if rows else (0, 0)
        rest.append(slice(None, None, rows.step) if rows else slice(0, 0))
        rest.extend(keys[at + 1 :])
        return _elements(tensor, first + low * inner, (high - low, *shape[dim + 1 :]), name, how)[tuple(rest)]
    return _elements(tensor, first, shape[dim:], name, how)[tuple(rest)]


def _count(shape: tuple[int, ...]) -> int:
    out = 1
    for size in shape:
        out *= size
    return out


def _elements(tensor: Tensor, first: int, shape: tuple[int, ...], name: str | None, how: Restored | None) -> Any:
    """Returns the elements from index ``first`` on, as many as ``shape`` has."""
    count = 1 if how is None else how.per_element
    width = numpy_dtype(name or tensor.dtype).itemsize * count
    low = first * width
    buffer = tensor._native().read_range(tensor._at, "data", low, low + _count(shape) * width)
    if how is None:
        return tensor._array(buffer, 0, shape, name)
    is_run = len(how.shape) < len(tensor.shape)
    return how.of(tensor._array(buffer, 0, (*shape, count) if is_run else shape, name))


def _place(k: int, size: int, dim: int) -> int:
    if not -size <= k < size:
        raise IndexError(f"index {k} is out of bounds for axis {dim} with size {size}")
    return k + size if k < 0 else k


def _basic(key: Any, ndim: int) -> list[Any] | None:
    """Returns the key as integers, slices and ``None``, one for each dimension from the first on; ``None`` if it
    has other parts, which are left to NumPy."""
    keys = list(key) if isinstance(key, tuple) else [key]
    out: list[Any] = []
    dots = None
    for k in keys:
        if k is None or isinstance(k, slice):
            out.append(k)
        elif k is Ellipsis:
            if dots is not None:
                return None
            dots = len(out)
        elif isinstance(k, bool) or hasattr(k, "shape") and getattr(k, "shape") != ():
            return None
        else:
            try:
                out.append(operator.index(k))
            except TypeError:
                return None
    used = sum(k is not None for k in out)
    if used > ndim:
        return None
    if dots is not None:
        out[dots:dots] = [slice(None)] * (ndim - used)
    return out
