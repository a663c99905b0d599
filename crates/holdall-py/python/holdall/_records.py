"""Records of datasets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, overload

from . import _holdall
from ._arrow import Arrow, polars
from ._blob import Chosen, Picked, about, chosen, position
from ._columns import HEAD, Columns, Description, describe, is_paths, member
from ._kinds import MAX_MEMBERS, Form, Types, named, ndarray
from .errors import HoldallError, MissingPackageError, NotFoundError, UsageError

if TYPE_CHECKING:
    from .schema import LayoutRow
    import numpy as np
    import pandas as pd
    import polars as pl

    from ._tensor import Tensor

__all__ = ["Records", "Ragged", "Selection"]

#: Bytes of records that are read at a time for a column that is not in memory.
PIECE = 8 << 20
#: The number of records that are decoded at a time.
BATCH = 256
#: The number of columns in a ``repr``, and of rows in a notebook's table.
SHOWN = 10


class Ragged(NamedTuple):
    """Arrays of different lengths, concatenated: the array of record ``i`` is ``values[offsets[i]:offsets[i +
    1]]``."""

    #: The elements of all arrays, read-only.
    values: np.ndarray[Any, Any]
    #: The start of each array, and the end of the last: int64, one more than the number of records.
    offsets: np.ndarray[Any, Any]

    def row(self, index: int) -> np.ndarray[Any, Any]:
        """Returns the elements of one record."""
        at = range(len(self.offsets) - 1)[index]
        return self.values[self.offsets[at] : self.offsets[at + 1]]


class Records(Sequence[Any]):
    """The records of a dataset, or some of them: ``r[i]`` is a decoded record; ``r[a:b]`` is again a sequence of
    records, and only those are read; ``r[[1, 5]]`` and ``r[mask]`` select records.

    A record is a dict: numbers, ``str`` (also for enums), ``bytes``, ``numpy.datetime64``, dicts for structs, JSON
    and unions (with the key of the variant), NumPy arrays for arrays and tensors of numbers, lists for other arrays,
    and ``None`` for absent members. A record that is not a struct is such a value itself. The earliest time that 64
    bits can hold, in 1677, is read as NumPy's NaT.

    Members are named by paths: ``"label"``, ``"image.width"``, ``"corners[0]"``; a variant of a union is named by its
    key.

    Records and their arrays keep a mapped file mapped. After the file is closed, arrays stay usable and everything else raises.
    """

    __slots__ = ("_tensor", "_native", "_types", "_stride", "_range")

    def __init__(
        self, tensor: Tensor, native: _holdall.Records, types: Types, stride: int, positions: range
    ) -> None:
        self._tensor = tensor
        self._native = native
        self._types = types
        self._stride = stride
        self._range = positions

    @property
    def tensor(self) -> Tensor:
        """The tensor that holds the records."""
        return self._tensor

    @property
    def dtype(self) -> np.dtype[Any]:
        """The structured NumPy dtype of a record; its itemsize is the distance between records in the file.

        It has the members that every record has and that have a fixed size: numbers, booleans, times
        (``datetime64[ns]``), enums as the integers they are stored as (see :attr:`enums`), structs of these, arrays
        and tensors as subarrays, and NumPy's fixed-length strings and times. Optional members, unions, text, bytes,
        JSON and arrays of any length are left out: see :meth:`column`, :meth:`texts`, :meth:`ragged` and
        :meth:`values`.

        Raises:
            UnsupportedError: a type needs ml_dtypes, which is not installed.
        """
        with _about(self._tensor):
            return self._named(self._types.dtype())

    def _named(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Returns the dtype with NumPy's string and time types where the schema names them."""
        return named(dtype, self.schema) if "numpy.descr" in self._tensor.attributes["metatensor.kind"] else dtype

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a record."""
        schema: dict[str, Any] = json.loads(self._tensor.attributes["metatensor.kind"])
        return schema

    @property
    def members(self) -> list[LayoutRow]:
        """Every member, including those of structs and arrays, with the offsets of their bytes, as
        :func:`holdall.schema.layout` returns them."""
        from .schema import LayoutRow

        return LayoutRow._of(self._native.members())

    @property
    def columns(self) -> dict[str, str]:
        """The type of each member, by path: ``{"id": "uint32", "at.lat": "float32 or absent", "tags": "string[]"}``."""
        types = self._types
        with _about(self._tensor):
            all = [(path, types.describe(at), maybe) for path, at, maybe in types.columns() if path]
        return {path: what + (" or absent" if maybe else "") for path, what, maybe in all}

    @property
    def enums(self) -> dict[str, tuple[str, ...]]:
        """The names of each enum, by path: the stored integer ``i`` means name ``i``."""
        rows = self._types.rows
        with _about(self._tensor):
            return {path: rows[at].more[1] for path, at, _ in self._types.columns() if rows[at].kind == "enum"}

    def numpy(self) -> np.ndarray[Any, Any]:
        """Returns all records as a read-only structured array of :attr:`dtype`: a view if the file is mapped.

        The bytes are not checked: in a file that :func:`holdall.verify` rejects, booleans may have bytes other than 0
        and 1, and enums may have integers without a name.
        """
        with _about(self._tensor):
            form = self._types.form(self._types.root) or Form(self._types.dtype(), (), ())
            a = self._view(form, 0)
            return a.view(self._named(a.dtype)) if a.dtype.names else a

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        a = self.numpy()
        a = a if dtype is None else a.astype(dtype, copy=False)
        return a.copy() if copy else a

    def column(self, path: str) -> np.ndarray[Any, Any]:
        """Returns one member of all records, of shape ``(len,)`` or, for fixed arrays and tensors, ``(len, *shape)``.

        Numbers, times, enums (as integers) and structs are a read-only strided view if the file is mapped; otherwise
        only the column is kept in memory. An optional member is a ``numpy.ma.MaskedArray``; masked elements have no meaning.
        Strings are an array of ``numpy.dtypes.StringDType()``, with ``None`` for absent ones.

        Raises:
            MissingNameError: the records have no such member.
            UsageError: the member is not a column: bytes, JSON, a union, or an array of any length.
            MalformedError: a byte that is not a boolean, an integer without a name in its enum, text that is not UTF-8.
        """
        import numpy as np

        at, offset, always = self._find(path)
        row = self._types.rows[at]
        if row.kind == "string":
            return self._strings(path, always)
        with _about(self._tensor):
            form = self._types.form(at)
        if form is None:
            ragged = row.kind == "array" and row.more[1] is None
            hint = "ragged(path) gives all elements; " if ragged else ""
            self._wrong(f"`{path}` is not a column: {self._types.describe(at)}", hint + "values(path) gives a list")
        found = self._view(form, offset)
        there = None if always else self._there(path)
        self._check(at, path, found, there)
        if there is None:
            return found
        absent = ~there
        if found.ndim > 1:
            absent = np.broadcast_to(absent.reshape(-1, *[1] * (found.ndim - 1)), found.shape)
        masked: np.ndarray[Any, Any] = np.ma.MaskedArray(found, mask=absent)
        return masked

    def texts(self, path: str) -> list[str | None]:
        """Returns a member of all records as strings: text, names of an enum, or JSON as text; ``None`` if it is
        absent.

        Raises:
            MissingNameError: the records have no such member.
            UsageError: the member is not text, an enum or JSON.
            MalformedError: a text is not UTF-8, or lies outside the heap.
        """
        self._is_text(path)
        return self._native.texts(path, self._picked())

    def _is_text(self, path: str) -> None:
        at, _, _ = self._find(path)
        if self._types.rows[at].kind not in ("string", "enum", "json"):
            self._wrong(f"`{path}` is not text: {self._types.describe(at)}", "values(path) gives a list of anything")

    def ragged(self, path: str = "") -> Ragged:
        """Returns a member of all records that is an array of any length: the elements of all records, and where
        those of each record start. It is a view if the arrays are contiguous in a mapped file. An absent array has no
        elements.

        Raises:
            MissingNameError: the records have no such member.
            UsageError: the member is not an array of any length, or its elements have no fixed size.
            MalformedError: an array lies outside the heap.
        """
        import numpy as np

        at, _, _ = self._find(path)
        row = self._types.rows[at]
        items = row.more[0] if row.kind == "array" and row.more[1] is None else None
        with _about(self._tensor):
            form = None if items is None else self._types.form(items)
        if items is None or form is None or self._types.rows[items].heap:
            what = f"`{path}` is not an array of any length of fixed elements: {self._types.describe(at)}"
            self._wrong(what, "column(path) or values(path)")
        data, offset_bytes = self._native.ragged(path, self._picked())
        buffer: Any = offset_bytes
        offsets: np.ndarray[Any, Any] = np.frombuffer(buffer, "<i8")
        stride = self._types.rows[items].stride
        values = ndarray((int(offsets[-1]), *form.shape), form.dtype, data, 0, (stride, *form.strides))
        self._check_rows(items, path, values, offsets)
        return Ragged(values, offsets)

    def values(self, path: str) -> list[Any]:
        """Returns a member of any kind of all records, as the Python objects that ``r[i]`` returns.

        Raises:
            MissingNameError: the records have no such member.
            MalformedError: a value is not valid.
        """
        self._find(path)
        return self._native.values(self._picked(), path, self._types)

    def to_pandas(self) -> pd.DataFrame:
        """Returns all records as a pandas ``DataFrame`` with a column for each member.

        Numbers and booleans keep their type; optional members have pandas' own types with ``pd.NA`` (``Int32``,
        ``Float32``, ``boolean``). Text is pandas' ``string``, enums are categories, times ``datetime64[ns]`` with ``NaT``.
        Members that pandas has no column type for (structs, arrays, bytes, JSON) are objects as in ``r[i]``. Records that are not
        structs are one column, named after the dataset. ``pd.DataFrame(records)`` has the same columns, but makes them from Python
        objects: slower, and of the types that pandas infers.

        Raises:
            UnsupportedError: pandas is not installed.
            MalformedError: a value is not valid.
        """
        from ._pandas import frame

        return frame(self, self)

    def to_polars(self) -> pl.DataFrame:
        """Returns all records as a Polars ``DataFrame`` with a column for each member, as :meth:`arrow` returns them,
        with strings in Polars' own layout. ``polars.DataFrame(records)`` gives the same frame, but Polars copies
        every string once more.

        Raises:
            UnsupportedError: Polars is not installed.
        """
        frame: pl.DataFrame = polars(self)
        return frame

    def arrow(self, *paths: str, batch: int | None = None) -> Arrow:
        """Returns all members, or only those at ``paths``, as Arrow columns for pandas, Polars, DuckDB, pyarrow and
        other consumers: ``polars.DataFrame(r.arrow("id", "at.lat"))``. Consumers also accept the records themselves,
        with all columns.

        Numbers, times (in UTC), text and bytes have their Arrow types; enums are dictionaries, structs are structs,
        arrays are lists, tensors are extensions of fixed shape, JSON is text. A union is a struct of its
        discriminator and a struct for each variant. Element types that Arrow lacks are fixed-size bytes. Absent
        members are null.

        Args:
            batch: The number of records that are read at a time; by default as many as fit 64 MiB, at most a million.
        """
        return Arrow(self, paths, batch)

    def __arrow_c_schema__(self) -> Any:
        return self.arrow().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.arrow().__arrow_c_stream__(requested_schema)

    def where(self, *conditions: str) -> Selection:
        """Returns the records for which all conditions hold: ``where("stars>=4", "label=cat")``.

        A condition compares a member with a value by ``=``, ``!=``, ``<``, ``<=``, ``>`` or ``>=``, by ``in`` with
        several values (``"label in (cat, dog)"``), by ``between`` (``"stars between 2 and 4"``, with both ends), by
        ``like`` with a pattern of a whole text, in which ``%`` is any text and ``_`` one character (``"name like
        IMG_%"``), and by ``contains`` with a part of a text or an element of an array (``"tags contains sea"``).
        ``"at is null"`` holds if a record lacks the member, ``"at is not null"`` if it has it. The value may be
        another member, if it is not a value of the member's kind: ``"width<height"``; between texts as ``"title =
        member(caption)"``. ``"image"`` holds if a record has the member, ``"!image"`` if it does not; for a
        Boolean member they hold if it is true, or not true (``"flag in (true, false)"`` tests whether it is present).
        ``and``, ``or``, ``not`` and parentheses combine conditions; a value that contains these words is quoted as a
        JSON string: ``'title = "this and that"'``. Every record is read once.

        Raises:
            UsageError: a value does not have the member's kind, or the kind has no order (``records/condition``).
            MissingNameError: the records have no such member.
        """
        import numpy as np

        if any(not isinstance(condition, str) for condition in conditions):
            raise TypeError("a condition must be a string such as 'stars>=4'")
        low, high, step = self._run()
        buffer: Any = self._native.query(low, high, list(conditions))
        positions = np.frombuffer(buffer, "<i8") if len(buffer) else np.zeros(0, "<i8")
        if abs(step) != 1:
            positions = positions[(positions - low) % abs(step) == 0]
        return Selection(self._whole(), positions[:: 1 if step > 0 else -1])

    def sample(self, count: int, seed: int = 0) -> Selection:
        """Returns ``count`` records chosen at random, all equally likely, in their original order. The same
        ``seed`` gives the same records, which are also those of ``holdall records --sample``."""
        import numpy as np

        low, high, step = self._run()
        if step == 1:
            positions = np.array(_holdall.sample(low, high, count, seed), "<i8")
        else:
            picked = _holdall.sample(0, len(self), count, seed)
            positions = np.array([self._range[at] for at in picked], "<i8")
        return Selection(self._whole(), positions)

    def sort(self, *members: str) -> Selection:
        """Returns all records sorted by members: ``sort("label", "-stars")``, where ``-`` sorts in descending order.
        NaN comes after all numbers, absent values come last; enums have the order of the schema.

        Raises:
            UsageError: the member has no order (``records/condition``).
            MissingNameError: the records have no such member.
        """
        return Selection(self._whole(), _order(self, self._picked(), members))

    def groups(self, *members: str, aggregates: Iterable[str] = ()) -> list[tuple[Any, ...]]:
        """Counts the records for each value of a member, the most frequent first: ``[("cat", 12), ("dog", 7)]``. For
        several members values are tuples; absent ones are ``None``.

        Args:
            aggregates: Aggregates of each group, which follow its count: ``groups("label", aggregates=["mean(stars)"])``
                is ``[("cat", 12, 3.5), ("dog", 7, 2.0)]``. They are ``count``, ``sum``, ``mean``, ``std``, ``min`` and
                ``max`` of a member. Records without the member do not contribute, and ``None`` means that no record
                has it. Sums of integers are exact, Booleans are 0 and 1, and ``min`` and ``max`` ignore NaN. Without
                members, all records are one group, whose value is ``()``.

        Raises:
            MissingNameError: the records have no such member.
            UsageError: an aggregate is not possible (``records/aggregate``).
        """
        return _groups(self, self._picked(), members, aggregates)

    def select(self, *members: str) -> Columns:
        """Returns only these members of the records, also as ``r[["id", "at.lat"]]``: see :class:`Columns`.

        Raises:
            MissingNameError: the records have no such member.
        """
        return Columns(self, members)

    def head(self, count: int = HEAD) -> Records:
        """Returns the first records."""
        return self[: max(count, 0)]

    def describe(self, *members: str) -> Description:
        """Summarises members, by default the first 256: how many records have them, and of values with an order the
        smallest and the largest, of numbers the mean and the standard deviation. All records are read once.

        Raises:
            MissingNameError: the records have no such member.
        """
        with _about(self._tensor):
            return describe(self, members)

    def export(
        self, member: str, folder: str | os.PathLike[str], *, names: str | None = None, overwrite: bool = False
    ) -> list[str | None]:
        """Writes a member of each record (bytes or text) to a file in a folder, and returns the names of the files,
        ``None`` for records without the member. :func:`holdall.build` with ``files=`` and ``file_members=`` reads
        them back.

        Args:
            names: The member that names the files: text, an enum or a number. By default files are numbered by the
                position of the record, with an extension for the type that their first bytes show: ``000012.png``.
            overwrite: Replace existing files.

        Raises:
            UsageError: a name leads out of the folder, or two records have the same name (``build/file-name``); a
                file exists (``write/exists``); the member is neither bytes nor text (``records/file-member``).
            MissingNameError: the records have no such member.
        """
        return self._native.export(list(self._range), member, os.fspath(folder), names, overwrite)

    def _whole(self) -> Records:
        """Returns all records of the dataset."""
        return Records(self._tensor, self._native, self._types, self._stride, range(self._native.head()[0]))

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> Records: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
    @overload
    def __getitem__(self, key: list[str]) -> Columns: ...
    @overload
    def __getitem__(self, key: Chosen) -> Selection: ...
    def __getitem__(self, key: int | slice | str | list[str] | Chosen) -> Any:
        """Returns a record by its index, records by a slice, positions or a mask, or a member by its path: as
        :meth:`column` does, or as :meth:`values` if it is not a column. A list of paths gives :class:`Columns`."""
        if isinstance(key, str):
            return member(self, key)
        if is_paths(key):
            return Columns(self, key)
        if isinstance(key, slice):
            self._native.head()
            return Records(self._tensor, self._native, self._types, self._stride, self._range[key])
        numbers = chosen(key, len(self), "records")
        if numbers is not None:
            return Selection(self._whole(), numbers * self._range.step + self._range.start)
        at = position(self._range, key, "records", "column(path) gives a member")
        return self._native.values((at, at + 1), None, self._types)[0]

    def __iter__(self) -> Iterator[Any]:
        every = max(1, min(BATCH, PIECE // self._stride))
        for start in range(0, len(self._range), every):
            yield from self._native.values(self[start : start + every]._picked(), None, self._types)

    def __reduce__(self) -> Any:
        return _some, (self._tensor, self._range)

    def _find(self, path: str) -> tuple[int, int, bool]:
        """Returns the type of a member, its offset in bytes, and whether every record has it."""
        try:
            return self._native.find(path)
        except NotFoundError as e:
            e.hint = e.hint or "`columns` lists the members"
            raise

    def _run(self) -> tuple[int, int, int]:
        """Returns the first and last position of these records in the file, and the step between them."""
        positions = self._range
        if not positions:
            return 0, 0, 1
        step = positions.step if len(positions) > 1 else 1
        return min(positions[0], positions[-1]), max(positions[0], positions[-1]) + 1, step

    def _picked(self) -> Picked:
        """Returns the positions, for the native half."""
        import numpy as np

        low, high, step = self._run()
        return (low, high) if step == 1 else np.array(self._range, "<i8")

    def _view(self, form: Form, offset: int) -> np.ndarray[Any, Any]:
        import numpy as np

        low, high, step = self._run()
        stride, native, at = self._stride, self._tensor._native(), self._tensor._at
        self._native.head()
        if low == high:
            return ndarray((0, *form.shape), form.dtype, None, 0, ())
        strides = (stride, *form.strides)

        def part(first: int, last: int) -> np.ndarray[Any, Any]:
            data = native.read_range(at, "data", first * stride, last * stride)
            return ndarray((last - first, *form.shape), form.dtype, data, offset, strides)

        if native.is_view(at, "data"):
            # A view of the map, of which nothing is read now.
            data = native.read(at, "data")
            return ndarray((high - low, *form.shape), form.dtype, data, low * stride + offset, strides)[::step]
        size = form.dtype.itemsize
        for count in form.shape:
            size *= count
        if 2 * size > stride:
            return part(low, high)[::step]
        out = np.empty((high - low, *form.shape), form.dtype)
        every = max(1, PIECE // stride)
        for first in range(low, high, every):
            last = min(high, first + every)
            out[first - low : last - low] = part(first, last)
        out.flags.writeable = False
        return out[::step]

    def _there(self, path: str) -> np.ndarray[Any, Any]:
        return bits(self._native.presence(path, self._picked()), len(self))

    def _strings(self, path: str, always: bool) -> np.ndarray[Any, Any]:
        import numpy as np

        if not hasattr(np.dtypes, "StringDType"):
            raise MissingPackageError(
                f"this NumPy ({np.__version__}) has no StringDType",
                code="python/extra",
                kind="unsupported",
                hint="pip install 'numpy>=2'; or texts(path)",
            )
        dtype: Any = np.dtypes.StringDType() if always else np.dtypes.StringDType(na_object=None)
        return np.array(self.texts(path), dtype)

    def _check(self, at: int, path: str, found: np.ndarray[Any, Any], there: Any) -> None:
        """Raises for bytes that are not booleans, or integers that are not values of their enum."""
        bad = self._types.odd(at, found)
        if bad is None:
            return
        for place in _rows(bad):
            record = self._range[place]
            if there is not None and not there[place]:
                continue
            self._native.values((record, record + 1), path, self._types)

    def _check_rows(self, items: int, path: str, values: Any, offsets: Any) -> None:
        bad = self._types.odd(items, values)
        if bad is None:
            return
        for place in _rows(bad)[:1]:
            record = self._range[int(offsets.searchsorted(place, "right")) - 1]
            self._native.values((record, record + 1), path, self._types)

    def _wrong(self, message: str, hint: str | None) -> NoReturn:
        raise _misuse(self._tensor, message, hint, "python/column")

    def __repr__(self) -> str:
        types = self._types
        columns = self.columns if types.count(types.root) <= MAX_MEMBERS else {}
        of = ", ".join(f"{path} {what}" for path, what in list(columns.items())[:SHOWN])
        more = ", …" if len(columns) > SHOWN else ""
        root = types.describe(types.root)
        count = len(self)
        what = f"{count} record{'' if count == 1 else 's'} of {self._stride} bytes"
        return f"<holdall.Records {self._tensor.name!r}, {what}: {of or root}{more}>"

    def _repr_html_(self) -> str:
        from ._html import records

        return records(self)


class Selection(Sequence[Any]):
    """Records of a dataset selected by conditions, by position or by chance: ``s[i]`` is a record; ``s[a:b]``,
    ``s[[1, 5]]`` and ``s[mask]`` are selections again. Only the parts that are used are read."""

    __slots__ = ("_records", "_positions")

    def __init__(self, records: Records, positions: np.ndarray[Any, Any]) -> None:
        self._records = records
        self._positions = positions

    @property
    def positions(self) -> np.ndarray[Any, Any]:
        """The positions of the selected records in the dataset, int64."""
        return self._positions

    def sample(self, count: int, seed: int = 0) -> Selection:
        """Returns ``count`` of these records chosen at random, in their original order. The same ``seed`` gives
        the same records, which are also those of ``holdall records --where … --sample``."""
        import numpy as np

        order = np.sort(self._positions)
        return Selection(self._records, np.array(_holdall.sample_among(order.tolist(), count, seed), "<i8"))

    def where(self, *conditions: str) -> Selection:
        """Returns the selected records for which all conditions hold: see :meth:`Records.where`."""
        import numpy as np

        found = self._records.where(*conditions).positions
        return Selection(self._records, self._positions[np.isin(self._positions, found)])

    def sort(self, *members: str) -> Selection:
        """Returns the selected records sorted by members: see :meth:`Records.sort`."""
        return Selection(self._records, _order(self._records, self._picked(), members))

    def groups(self, *members: str, aggregates: Iterable[str] = ()) -> list[tuple[Any, ...]]:
        """Counts the selected records for each value of a member, with aggregates: see :meth:`Records.groups`."""
        return _groups(self._records, self._picked(), members, aggregates)

    def select(self, *members: str) -> Columns:
        """Returns only these members of the selected records: see :meth:`Records.select`."""
        return Columns(self, members)

    def head(self, count: int = HEAD) -> Selection:
        """Returns the first of the selected records."""
        return self[: max(count, 0)]

    def describe(self, *members: str) -> Description:
        """Summarises members of the selected records: see :meth:`Records.describe`."""
        with _about(self._records._tensor):
            return describe(self, members)

    def export(
        self, member: str, folder: str | os.PathLike[str], *, names: str | None = None, overwrite: bool = False
    ) -> list[str | None]:
        """Writes a member of each selected record to a file in a folder: see :meth:`Records.export`."""
        positions = self._positions.tolist()
        return self._records._native.export(positions, member, os.fspath(folder), names, overwrite)

    def column(self, path: str) -> np.ndarray[Any, Any]:
        """Returns a copy of one member of the selected records: see :meth:`Records.column`."""
        found: np.ndarray[Any, Any] = self._records.column(path)[self._positions]
        return found

    def texts(self, path: str) -> list[str | None]:
        """Returns a member of the selected records as strings: see :meth:`Records.texts`."""
        self._records._is_text(path)
        return self._records._native.texts(path, self._picked())

    def values(self, path: str) -> list[Any]:
        """Returns a member of the selected records as Python objects: see :meth:`Records.values`."""
        self._records._find(path)
        return self._records._native.values(self._picked(), path, self._records._types)

    def to_pandas(self) -> pd.DataFrame:
        """Returns the selected records as a pandas ``DataFrame`` whose index is :attr:`positions`: see
        :meth:`Records.to_pandas`."""
        from ._pandas import frame

        return frame(self._records, self).set_index(self._positions)

    def to_polars(self) -> pl.DataFrame:
        """Returns the selected records as a Polars ``DataFrame``: see :meth:`Records.to_polars`."""
        frame: pl.DataFrame = polars(self)
        return frame

    def arrow(self, *paths: str, batch: int | None = None) -> Arrow:
        """Returns the members of the selected records, or those at ``paths``, as Arrow columns: see
        :meth:`Records.arrow`."""
        return Arrow(self, paths, batch)

    def __arrow_c_schema__(self) -> Any:
        return self.arrow().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.arrow().__arrow_c_stream__(requested_schema)

    def _picked(self) -> Picked:
        import numpy as np

        return np.ascontiguousarray(self._positions, "<i8")

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> Selection: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
    @overload
    def __getitem__(self, key: list[str]) -> Columns: ...
    @overload
    def __getitem__(self, key: Chosen) -> Selection: ...
    def __getitem__(self, key: int | slice | str | list[str] | Chosen) -> Any:
        if isinstance(key, str):
            return member(self, key)
        if is_paths(key):
            return Columns(self, key)
        if isinstance(key, slice):
            return Selection(self._records, self._positions[key])
        numbers = chosen(key, len(self), "records")
        if numbers is not None:
            return Selection(self._records, self._positions[numbers])
        at = position(range(len(self)), key, "records", "column(path) gives a member")
        return self._records[int(self._positions[at])]

    def __iter__(self) -> Iterator[Any]:
        every = max(1, min(BATCH, PIECE // self._records._stride))
        for start in range(0, len(self._positions), every):
            positions = self[start : start + every]._picked()
            yield from self._records._native.values(positions, None, self._records._types)

    def __reduce__(self) -> Any:
        return Selection, (self._records, self._positions)

    def __repr__(self) -> str:
        count = len(self)
        of = f"{len(self._records)} in {self._records.tensor.name!r}"
        return f"<holdall.Selection, {count} record{'' if count == 1 else 's'} of {of}>"

    def _repr_html_(self) -> str:
        from ._html import records

        return records(self)


def bits(packed: Any, count: int) -> np.ndarray[Any, Any]:
    """Unpacks booleans from bits, lowest bit first; returns ``count`` times ``True`` if ``packed`` is empty."""
    import numpy as np

    if packed is None:
        return np.ones(count, bool)
    return np.unpackbits(np.ndarray(len(packed), np.uint8, packed), count=count, bitorder="little").view(bool)


def records(tensor: Tensor) -> Records:
    """Opens the records of a tensor of the layout ``records``."""
    native = _holdall.Records.open(tensor._native(), tensor._at)
    count, stride = native.head()
    return Records(tensor, native, Types(native.types()), stride, range(count))


def _order(of: Records, positions: Picked, members: tuple[str, ...]) -> np.ndarray[Any, Any]:
    """Sorts positions by members."""
    import numpy as np

    order: Any = of._native.order(positions, list(members))
    return np.ndarray(len(order) // 8, "<i8", order).copy()


def _groups(of: Records, positions: Picked, members: tuple[str, ...], aggregates: Iterable[str]) -> list[tuple[Any, ...]]:
    """Returns the values of members, with the number of records at those positions that have each, and aggregates."""
    asked = [aggregates] if isinstance(aggregates, str) else list(aggregates)
    found: list[tuple[Any, ...]] = []
    for texts, count, results in of._native.groups(positions, list(members), asked):
        values = _plain_values(texts)
        found.append((values[0] if len(members) == 1 else tuple(values), count, *_plain_values(results)))
    return found


def _plain_values(texts: list[str | None]) -> list[Any]:
    """Parses JSON texts."""
    return [None if text is None else _plain(json.loads(text)) for text in texts]


def _plain(value: Any) -> Any:
    """Replaces the JSON forms of NaN and infinities by floats."""
    if isinstance(value, dict) and list(value) == ["$float"]:
        return float(value["$float"])
    return value


def _some(tensor: Tensor, positions: range) -> Records:
    """Restores pickled records."""
    all = records(tensor)
    return Records(tensor, all._native, all._types, all._stride, positions)


class _about:
    """Adds the tensor's name to errors about types that NumPy lacks."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, e: Any, traceback: object) -> None:
        if isinstance(e, HoldallError) and e.tensor is None:
            raise about(e, self._tensor) from None


def _rows(bad: np.ndarray[Any, Any]) -> list[int]:
    """Returns the rows with at least one true element."""
    found: list[int] = sorted(set(bad.nonzero()[0].tolist()))
    return found


def _misuse(tensor: Tensor, message: str, hint: str | None, code: str) -> UsageError:
    return UsageError(
        f"{tensor.file.name}: tensor `{tensor.name}`: {message}",
        code=code,
        kind="misuse",
        source=tensor.file.name,
        tensor=tensor.name,
        hint=hint,
    )
