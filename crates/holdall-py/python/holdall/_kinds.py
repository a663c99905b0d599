"""Types of records as NumPy dtypes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ._arrays import extra_dtype, numpy_dtype, unpack
from ._encode import PACKED, SUBSTITUTES
from .errors import LimitError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np

#: Maximum number of members of a dtype, nested ones included: NumPy traverses all of them repeatedly.
MAX_MEMBERS = 1 << 16


class Row(NamedTuple):
    """One type of a schema, as the native half returns it."""

    kind: str
    #: Size of a value in bytes.
    size: int
    #: Distance between consecutive elements of an array, in bytes.
    stride: int
    #: Whether values, or parts of them, are stored in the heap.
    heap: bool
    more: Any


class Form(NamedTuple):
    """The memory layout of one value of a type: an array with this dtype, shape and strides."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Types:
    """The types of a record. The native half calls :meth:`block`, :meth:`time` and :meth:`json`."""

    __slots__ = ("rows", "root", "_forms", "_counts")

    def __init__(self, rows: list[Any]) -> None:
        self.rows = [Row(*row) for row in rows]
        self.root = len(rows) - 1
        self._forms: dict[int, Form | None] = {}
        self._counts: dict[int, int] = {}

    def form(self, at: int) -> Form | None:
        """Returns the memory layout of values of that type; ``None`` if they are not an array of fixed shape.

        Raises:
            UnsupportedError: an element type needs ml_dtypes, or NumPy has no such dtype.
        """
        if at not in self._forms:
            self._forms[at] = self._form(self.rows[at])
        return self._forms[at]

    def _form(self, row: Row) -> Form | None:
        import numpy as np

        if row.kind == "scalar":
            return Form(_element(row.more), (), ())
        if row.kind == "enum":
            return Form(np.dtype(f"<u{row.more[0]}"), (), ())
        if row.kind == "tensor":
            name, shape = row.more
            if name in PACKED:
                return None
            dtype = _element(name)
            return Form(dtype, shape, _contiguous(shape, dtype.itemsize))
        if row.kind == "array" and row.more[1] is not None:
            items, count = row.more
            inner = self.form(items)
            if inner is None:
                return None
            strides = (self.rows[items].stride, *inner.strides)
            return Form(inner.dtype, (count, *inner.shape), strides)
        if row.kind == "struct":
            return Form(self._struct(row), (), ())
        return None

    def _struct(self, row: Row) -> np.dtype[Any]:
        names, formats, offsets = [], [], []
        for name, at, offset, optional in row.more:
            dtype = None if optional else self._member(at)
            if dtype is not None:
                names.append(name)
                formats.append(dtype)
                offsets.append(offset)
        return _record_dtype(names, formats, offsets, row.size)

    def _member(self, at: int) -> np.dtype[Any] | None:
        """Returns the dtype of a member; ``None`` if it cannot be part of a dtype."""
        if self.count(at) > MAX_MEMBERS:
            raise _too_many()
        form = self.form(at)
        if form is None or (self.rows[at].kind == "struct" and not form.dtype.names):
            return None
        return _whole(form)

    def count(self, at: int) -> int:
        """Returns the number of members of a type, nested ones included."""
        if at not in self._counts:
            row = self.rows[at]
            below: list[int] = []
            if row.kind == "struct":
                below = [member[1] for member in row.more]
            elif row.kind == "union":
                below = [variant[1] for variant in row.more[1]]
            elif row.kind == "array":
                below = [row.more[0]]
            self._counts[at] = 1 + sum(self.count(b) for b in below)
        return self._counts[at]

    def is_plain(self) -> bool:
        """Returns whether every part of every record is a number, a boolean or a time, in a place of its own."""
        for row in self.rows:
            if row.heap or row.kind not in ("scalar", "struct", "array", "tensor") or (row.kind == "array" and row.more[1] is None):
                return False
            if row.kind == "tensor" and row.more[0] in PACKED:
                return False
            if row.kind == "struct" and any(optional for _, _, _, optional in row.more):
                return False
        return True

    def dtype(self) -> np.dtype[Any]:
        """Returns the dtype of a record; it has no fields if no member has a fixed size."""
        form = self.form(self.root)
        dtype = None if form is None else _whole(form)
        if dtype is None:
            return _record_dtype([], [], [], self.rows[self.root].stride)
        return dtype

    def columns(self) -> Iterator[tuple[str, int, bool]]:
        """Yields path, type and whether it may be absent, for every member that is not itself a struct or a union.

        Raises:
            LimitError: the record has too many members.
        """
        if self.count(self.root) > MAX_MEMBERS:
            raise _too_many()
        ahead = [("", self.root, False)]
        while ahead:
            path, at, optional = ahead.pop()
            row = self.rows[at]
            below: list[tuple[str, int, bool]] = []
            if row.kind == "struct":
                below = [(_join(path, n), to, optional or maybe) for n, to, _, maybe in row.more]
            elif row.kind == "union":
                below = [(_join(path, key), to, True) for key, to in row.more[1]]
            if row.kind in ("struct", "union"):
                ahead.extend(reversed(below))
            else:
                yield path, at, optional

    def describe(self, at: int) -> str:
        """Returns a short description of a type: ``float32[2]``, ``enum of 3``, ``string[]``."""
        row = self.rows[at]
        if row.kind == "scalar":
            return str(row.more)
        if row.kind == "enum":
            return f"enum of {len(row.more[1])}"
        if row.kind == "array":
            items, count = row.more
            return f"{self.describe(items)}[{'' if count is None else count}]"
        if row.kind == "tensor":
            return f"{row.more[0]}{list(row.more[1])}"
        return row.kind

    def odd(self, at: int, found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """Returns a mask of invalid elements (bytes that are not booleans, integers that are not in the enum);
        ``None`` if all are valid."""
        import numpy as np

        row = self.rows[at]
        while row.kind == "array":
            row = self.rows[row.more[0]]
        if (row.kind == "scalar" and row.more == "bool") or (row.kind == "tensor" and row.more[0] == "bool"):
            bad = found.view(np.uint8) > 1
        elif row.kind == "enum":
            bad = found >= len(row.more[1])
        else:
            return None
        return np.asarray(bad) if bad.any() else None

    def block(self, at: int, data: bytearray, count: int | None) -> np.ndarray[Any, Any]:
        """Returns the array of a value of that type, or of ``count`` consecutive values."""
        import numpy as np

        row = self.rows[at]
        if row.kind == "tensor" and row.more[0] in PACKED:
            name, shape = row.more
            starts = [0] if count is None else range(0, count * row.stride, row.stride)
            buffer: Any = data
            each = [unpack(buffer, start, shape, PACKED[name]).view(numpy_dtype(name)) for start in starts]
            return each[0] if count is None else np.array(each).reshape(count, *shape)
        form = self.form(at)
        assert form is not None
        shape, strides = form.shape, form.strides
        if count is not None:
            shape, strides = (count, *shape), (row.stride, *strides)
        return ndarray(shape, form.dtype, data, 0, strides)

    def time(self, nanoseconds: int) -> np.datetime64:
        """Returns a time from its nanoseconds since 1970."""
        import numpy as np

        return np.datetime64(nanoseconds, "ns")

    def json(self, text: str) -> Any:
        """Parses a JSON text, which was already validated."""
        return json.loads(text)


def ndarray(
    shape: tuple[int, ...], dtype: np.dtype[Any], buffer: Any, offset: int, strides: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """Returns an array that views a buffer.

    Raises:
        UnsupportedError: NumPy does not support the shape.
    """
    import numpy as np

    try:
        if 0 in shape:
            out: np.ndarray[Any, Any] = np.empty(shape, dtype)
            out.flags.writeable = not memoryview(buffer).readonly if buffer is not None else False
            return out
        return np.ndarray(shape, dtype, buffer, offset, strides)
    except ValueError as e:
        raise UnsupportedError(
            f"NumPy has no arrays of shape {list(shape)}: {e}", code="python/shape", kind="unsupported"
        ) from None


def written(name: str) -> str:
    """Escapes a name for use in a path."""
    return re.sub(r"([.\[\\])", r"\\\1", name) if name else "\\_"


def _join(path: str, name: str) -> str:
    return f"{path}.{written(name)}" if path else written(name)


def _element(name: str) -> np.dtype[Any]:
    import numpy as np

    if name == "datetime64[ns]":
        return np.dtype("<M8[ns]")
    return numpy_dtype(name)


def _contiguous(shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    strides = []
    for count in reversed(shape):
        strides.append(width)
        width *= count
    return tuple(reversed(strides))


def _whole(form: Form) -> np.dtype[Any] | None:
    """Returns a form as one dtype; ``None`` if there are gaps between its elements."""
    import numpy as np

    if not form.shape:
        return form.dtype
    if 0 not in form.shape and form.strides != _contiguous(form.shape, form.dtype.itemsize):
        return None
    try:
        return np.dtype((form.dtype, form.shape))
    except ValueError as e:
        raise _no_dtype(e) from None


def _record_dtype(names: list[str], formats: list[Any], offsets: list[int], size: int) -> np.dtype[Any]:
    import numpy as np

    try:
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
    except (ValueError, OverflowError) as e:
        raise _no_dtype(e) from None


def _too_many() -> LimitError:
    return LimitError(
        f"records with more than {MAX_MEMBERS} members",
        code="python/dtype",
        kind="limit",
        hint="column(path) and values(path) give one member",
    )


def _no_dtype(e: Exception) -> UnsupportedError:
    return UnsupportedError(f"NumPy has no such dtype: {e}", code="python/dtype", kind="unsupported")


def named(dtype: np.dtype[Any], schema: Any) -> np.dtype[Any]:
    """Returns the dtype with the NumPy types that the schema names for strings, bytes and times; the bytes stay
    the same."""
    import numpy as np

    base, rest = dtype.subdtype or (dtype, ())
    shape: tuple[int, ...] = ()
    while isinstance(schema, dict):
        descr = _named_dtype(schema.get("numpy.descr"))
        if descr is not None and descr.itemsize == base.itemsize * int(np.prod(rest, dtype=int)):
            return np.dtype((descr, shape)) if shape else descr
        if not rest:
            break
        shape, rest, schema = (*shape, rest[0]), rest[1:], schema.get("items")
    if base.fields is None or base.names is None or not isinstance(schema, dict):
        return dtype
    properties = schema.get("properties", {})
    formats = [named(base.fields[member][0], properties.get(member)) for member in base.names]
    offsets = [base.fields[member][1] for member in base.names]
    of = _record_dtype(list(base.names), formats, offsets, base.itemsize)
    return np.dtype((of, shape)) if shape else of


class Restored(NamedTuple):
    """The conversion of a tensor's numbers to NumPy strings, bytes or times."""

    dtype: np.dtype[Any]
    #: The shape in NumPy: without the dimension of the characters.
    shape: tuple[int, ...]
    #: The number of stored numbers per element.
    per_element: int

    def of(self, a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Returns the elements of an array of such numbers, without a copy if they are contiguous."""
        import numpy as np

        if self.dtype.name in SUBSTITUTES or self.dtype.name in PACKED:
            return a.astype(self.dtype) if "int" in self.dtype.name else a.view(self.dtype)
        if self.dtype.kind in "Mm":
            return a.view(self.dtype)
        if not self.per_element or not a.size:
            empty: np.ndarray[Any, Any] = np.zeros(a.shape[:-1], self.dtype)
            empty.flags.writeable = a.flags.writeable
            return empty
        # The characters of an element lie together, also in arrays that are not in row-major order.
        together = a if a.strides[-1] == a.itemsize else np.ascontiguousarray(a)
        made: np.ndarray[Any, Any] = together.view(self.dtype)[..., 0]
        return made


def restoring(descr: str | None, shape: tuple[int, ...], width: int) -> Restored | None:
    """Returns how numbers of ``width`` bytes, in that shape, become elements of the NumPy type ``descr``; ``None``
    if they stay numbers."""
    dtype = _named_dtype(descr)
    if dtype is None:
        return None
    if dtype.kind in "Mm" or dtype.name in SUBSTITUTES or dtype.name in PACKED:
        return Restored(dtype, shape, 1) if width == dtype.itemsize else None
    # The last dimension holds the characters.
    if not shape or shape[-1] * width != dtype.itemsize:
        return None
    return Restored(dtype, shape[:-1], shape[-1])


def restored(a: np.ndarray[Any, Any], descr: str | None) -> np.ndarray[Any, Any]:
    """Returns the numbers of a whole tensor as NumPy strings, bytes or times of the type ``descr``."""
    how = restoring(descr, a.shape, a.dtype.itemsize)
    return a if how is None else how.of(a)


def _named_dtype(name: Any) -> np.dtype[Any] | None:
    """Returns NumPy's dtype of that name if it is a type of strings, bytes or times, or one of ml_dtypes that no file
    has elements of.

    Raises:
        UnsupportedError: it needs ml_dtypes, which is not installed.
    """
    import numpy as np

    if isinstance(name, str) and (name in SUBSTITUTES or name in PACKED):
        return extra_dtype(name)
    if not isinstance(name, str) or name[1:2] not in ("S", "U", "V", "M", "m"):
        return None
    try:
        return np.dtype(name)
    except (TypeError, ValueError):
        return None
