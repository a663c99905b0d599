"""The functions with which the native half reads rows that are Python objects."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Callable

from . import _holdall
from ._arrays import numpy_dtype

__all__ = ["columns_of_rows", "json_text", "objects", "plain"]

#: The number of rows that are passed to the native half at a time.
ROWS = 256
#: 1970 in UTC, without a zone, and the day of it.
_NAIVE = datetime.datetime(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_DAY = datetime.date(1970, 1, 1).toordinal()
#: One more than the largest number of nanoseconds that 64 bits can hold.
_NANOS_END = 1 << 63


def objects(rows: Iterator[Any]) -> tuple[Callable[..., Any], ...]:
    """Returns the functions with which the native half reads these rows, in its order."""
    return (lambda: list(islice(rows, ROWS)), _classify, _text, _key, _block, json_text)


#: Values of the types of columns, by the letters of the native half.
_SAMPLES: dict[str, Any] = {"i": 0, "f": 0.5, "b": True, "s": "", "y": b"", "t": _NAIVE}


def columns_of_rows(rows: Any) -> tuple[list[dict[str, Any]], _holdall.Columns] | None:
    """Returns rows that have the schema of all rows, and the rows as columns; ``None`` if they are not a list of dicts
    with values of one type for each key: numbers, strings, bytes and times."""
    found = _holdall.row_columns(rows, _classify, (_NAIVE, _EPOCH)) if type(rows) is list else None
    if found is None:
        return None
    heads, columns = found
    every = {name: _SAMPLES[letter] for name, letter, _ in heads}
    return [every, {name: every[name] for name, _, maybe in heads if not maybe}], columns


def _classify(value: Any) -> tuple[str, Any, int | None]:
    """Returns the class of a value that is not one of Python's basic types, with the value, or with an equivalent
    value: ``"a"`` for arrays, ``"t"`` for times, with their nanoseconds, ``"d"`` for decimal numbers, ``"="`` for basic
    types.

    Raises:
        TypeError: records have no such value.
    """
    if type(value) is datetime.datetime:
        # The usual times first, in as few steps as possible.
        since = value - (_EPOCH if value.tzinfo is not None else _NAIVE)
        nanos = (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
        return "t", value, nanos if -_NANOS_END <= nanos < _NANOS_END else None
    if isinstance(value, datetime.date):
        return "t", value, _nanos(value)
    if isinstance(value, decimal.Decimal):
        return "d", value, None
    import numpy as np

    if isinstance(value, np.datetime64):
        return "t", value, _nanos(value)
    if isinstance(value, np.ndarray):
        if not value.ndim:
            return _classify(value[()])
        if value.dtype.kind == "M":
            return "=", list(value), None
        return ("=", value.tolist(), None) if isinstance(value, np.ma.MaskedArray) else ("a", value, None)
    found = plain(value)
    if type(found) is type(value):
        raise _no_value(value)
    return "=", found, None


def _nanos(value: Any) -> int | None:
    """Returns the nanoseconds since 1970 of a time; ``None`` if they do not fit in 64 bits. Times without a zone are
    in UTC, dates are their first moment."""
    if not isinstance(value, datetime.date):
        import numpy as np

        exact = value.astype("datetime64[ns]")
        if np.isnat(value) or exact.astype(value.dtype) != value:
            return None
        return int(exact.astype(np.int64))
    if isinstance(value, datetime.datetime):
        if hasattr(value, "nanosecond"):
            # A time of pandas, whose NaT has the smallest number.
            exactly: int = getattr(value, "value")  # noqa: B009
            return exactly if exactly != -_NANOS_END else None
        return _classify(datetime.datetime.combine(value.date(), value.time(), value.tzinfo))[2]
    nanos = (value.toordinal() - _DAY) * 86_400_000_000_000
    return nanos if -_NANOS_END <= nanos < _NANOS_END else None


def _text(value: Any) -> str:
    """Returns the text of bytes, times and decimal numbers."""
    text: str = value if isinstance(value, str) else plain(value)
    return text


def _key(key: Any) -> str:
    """Returns the text of a key as JSON has it.

    Raises:
        TypeError: JSON has no such key.
    """
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    raise TypeError(f"the keys of a record must be str, not {type(key).__name__}")


def _block(value: Any, dtype: str) -> tuple[bytes, tuple[int, ...]] | None:
    """Returns the bytes and the shape of an array with elements of this type."""
    import numpy as np

    if value.dtype.name != dtype:
        return None
    if value.dtype == np.bool_:
        # Every nonzero byte becomes 1.
        return (value.view(np.uint8) != 0).tobytes(), value.shape
    wanted = numpy_dtype(dtype)
    return (value if value.dtype == wanted else value.astype(wanted)).tobytes(), value.shape


def json_text(row: Any) -> str:
    """Returns the JSON text of a value."""
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False, default=plain)
    except ValueError:
        # JSON has no NaN and no infinities; a circular reference raises again.
        whole = json.loads(json.dumps(row, default=plain), parse_constant=_FLOATS.__getitem__)
        return json.dumps(whole, ensure_ascii=False)


#: The names of floats that JSON cannot represent.
_FLOATS = {"NaN": {"$float": "nan"}, "Infinity": {"$float": "inf"}, "-Infinity": {"$float": "-inf"}}


def plain(value: Any) -> Any:
    """Converts values of records that JSON cannot represent: bytes, complex and decimal numbers, times, UUIDs, and
    NumPy scalars, arrays and times.

    Raises:
        TypeError: records have no such value.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, datetime.datetime):
        return value.isoformat() + ("Z" if value.tzinfo is None else "")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    import numpy as np

    if isinstance(value, np.datetime64):
        # A time that does not fit 64 bits of nanoseconds stays as it is, and is refused as text.
        return str(value if _nanos(value) is None else value.astype("datetime64[ns]")) + "Z"
    if isinstance(value, np.ndarray) and value.dtype.kind == "M":
        return list(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise _no_value(value)


def _no_value(value: Any) -> TypeError:
    return TypeError(f"a record has no value of type {type(value).__name__}")
