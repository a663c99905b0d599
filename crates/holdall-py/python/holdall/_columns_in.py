"""Columns of NumPy and lists of strings as batches of Arrow's C structs, which the native half converts to records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from . import _holdall
from ._arrow import _FORMATS, _NULLABLE, BATCH, _runs, _scalars

if TYPE_CHECKING:
    import numpy as np

__all__ = ["batches_of_columns", "columns_of_struct"]

#: Arrow's format strings of times, by NumPy's units.
_TIMES = {"s": "tss:UTC", "ms": "tsm:UTC", "us": "tsu:UTC", "ns": "tsn:UTC"}


def columns_of_struct(of: Any) -> Mapping[str, Any] | None:
    """Returns the columns of a structured NumPy array of one dimension; ``None`` for everything else."""
    import numpy as np

    if not isinstance(of, np.ndarray) or isinstance(of, np.ma.MaskedArray) or of.dtype.names is None or of.ndim != 1:
        return None
    return {name: _nested(of[name]) for name in of.dtype.names}


def _nested(column: np.ndarray[Any, Any]) -> Any:
    found = columns_of_struct(column)
    return column if found is None else found


def batches_of_columns(columns: Mapping[str, Any]) -> Callable[[], tuple[Any, Any] | None] | None:
    """Returns a function that returns the next batch of these columns at each call, and ``None`` at the end; or
    ``None`` if one of them is not a NumPy array of numbers or times, a list of strings, or a mapping of such columns.
    All columns must have the same length."""
    count = _count(columns)
    if count is None or not _is_known(columns):
        return None
    starts = iter(range(0, count, BATCH))

    def step() -> tuple[Any, Any] | None:
        start = next(starts, None)
        if start is None:
            return None
        field, elements = _struct("", columns, start, min(count, start + BATCH))
        return _holdall.arrow_array(field, elements)

    return step


def _count(columns: Mapping[str, Any]) -> int | None:
    """Returns the length of all columns; ``None`` if there is no column, or if lengths differ."""
    lens = {_count(of) if isinstance(of, Mapping) else len(of) for of in columns.values() if hasattr(of, "__len__")}
    return lens.pop() if len(lens) == 1 else None


def _is_known(of: Any) -> bool:
    import numpy as np

    if isinstance(of, Mapping):
        return bool(of) and all(isinstance(name, str) and "\0" not in name and _is_known(of[name]) for name in of)
    if isinstance(of, np.ndarray):
        if isinstance(of, np.ma.MaskedArray) and np.ma.getmaskarray(of).ndim != 1:
            return False
        if not of.ndim or 0 in of.shape[1:] or of.dtype.names is not None:
            return False
        if of.dtype.kind == "M":
            # An invalid time is an error, which is found value by value.
            return np.datetime_data(of.dtype)[0] in _TIMES and np.datetime_data(of.dtype)[1] == 1 and not np.isnat(of).any()
        return of.dtype.name in _FORMATS and of.dtype.kind in "biuf"
    return isinstance(of, (list, tuple)) and set(map(type, of)) <= {str, type(None)}


def _struct(name: str, columns: Mapping[str, Any], start: int, stop: int) -> tuple[Any, Any]:
    parts = [_column(name, of, start, stop) for name, of in columns.items()]
    fields, elements = [field for field, _ in parts], [of for _, of in parts]
    return ("+s", name, 0, [], fields, []), (stop - start, 0, [None], elements, [])


def _column(name: str, of: Any, start: int, stop: int) -> tuple[Any, Any]:
    """Returns the type and the elements of a part of a column."""
    import numpy as np

    if isinstance(of, Mapping):
        return _struct(name, of, start, stop)
    if not isinstance(of, np.ndarray):
        some = of[start:stop]
        there = np.array([text is not None for text in some], bool)
        length, _, buffers, below, names = _runs([b"" if text is None else text.encode() for text in some])
        absent, first = _validity(there)
        return ("U", name, _NULLABLE, [], [], []), (length, absent, [first, *buffers[1:]], below, names)
    part = of[start:stop]
    there = np.ones(1, bool)
    if isinstance(part, np.ma.MaskedArray):
        there, part = ~np.ma.getmaskarray(part), part.data
    format = _TIMES[np.datetime_data(of.dtype)[0]] if of.dtype.kind == "M" else _FORMATS[of.dtype.name]
    field: Any = (format, name if part.ndim == 1 else "item", _NULLABLE, [], [], [])
    elements: Any = _scalars(np.ascontiguousarray(part, part.dtype.newbyteorder("=")).reshape(-1))
    for at in range(part.ndim - 1, 0, -1):
        field = (f"+w:{part.shape[at]}", name if at == 1 else "item", _NULLABLE, [], [field], [])
        elements = (int(np.prod(part.shape[:at])), 0, [None], [elements], [])
    length, _, buffers, below, names = elements
    absent, first = _validity(there)
    return field, (length, absent, [first, *buffers[1:]], below, names)


def _validity(there: np.ndarray[Any, Any]) -> tuple[int, Any]:
    """Returns the number of absent values, and a bit for each value, set if it is present."""
    import numpy as np

    absent = int(there.size - np.count_nonzero(there))
    return absent, np.packbits(there, bitorder="little") if absent else None
