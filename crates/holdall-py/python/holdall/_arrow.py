"""Records, blobs and tensors as columns of Arrow, by its C data interface: what pandas, Polars, DuckDB and pyarrow read.

A type is a tuple as the native half takes it: format, name, flags, metadata, children, dictionary values. A column is
a tuple too: length, number of nulls, buffers, children, dictionary values; columns of records are objects of the
native half.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING, Any

from . import _holdall
from ._arrow_types import dictionary, extension, has_nulls, restored, declared_format
from ._kinds import MAX_MEMBERS, Types, _element, _too_many, written
from ._packages import package
from .errors import TargetExistsError, UsageError

if TYPE_CHECKING:
    import numpy as np

    from ._blob import Blob
    from ._records import Records, Selection
    from ._tensor import Tensor

__all__ = ["Arrow", "array_of_tensor", "polars", "stream_of_blob"]

Field = tuple[str, str, int, list[tuple[str, str]], list[Any], list[Any]]
Elements = tuple[int, int, list[Any], list[Any], list[Any]]

#: Records per batch for query engines, and runs per batch of a blob.
BATCH = 1 << 16
#: Default size of a batch of records, in bytes.
_BYTES = 64 << 20
#: Records and bytes per row group of written files.
_GROUP = (1 << 20, 64 << 20)
_NULLABLE = 2
#: Arrow's format strings of element types.
_FORMATS = {
    "bool": "b",
    "int8": "c",
    "uint8": "C",
    "int16": "s",
    "uint16": "S",
    "int32": "i",
    "uint32": "I",
    "int64": "l",
    "uint64": "L",
    "float16": "e",
    "float32": "f",
    "float64": "g",
    "datetime64[ns]": "tsn:UTC",
}
#: Arrow's format strings of the integers of an enum, by their size in bytes.
_NUMBERS = {1: "C", 2: "S", 4: "I"}


def _groups(batches: Iterator[Any]) -> Iterator[list[Any]]:
    group, rows, size = [], 0, 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GROUP[0] or size >= _GROUP[1]:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


class Arrow:
    """Columns of records, for every consumer of ``__arrow_c_stream__``: ``pyarrow.table(a)``,
    ``polars.DataFrame(a)``, ``pandas.DataFrame.from_arrow(a)``, or a query of DuckDB. Batches are read when the
    consumer requests them, and only the selected columns."""

    __slots__ = ("_of", "_all", "_columns", "_batch", "_as_views")

    def __init__(
        self, of: Records | Selection, paths: Sequence[str], batch: int | None = None, as_views: bool = False
    ) -> None:
        if batch is not None and batch < 1:
            raise UsageError("batch must be at least 1", code="python/option", kind="misuse")
        all = of if not hasattr(of, "_records") else of._records
        types = all._types
        if types.count(types.root) > MAX_MEMBERS:
            raise _too_many()
        self._of = of
        self._all = all
        self._batch = batch
        self._as_views = as_views
        #: Of each column: its name, its path, its type, whether every record has it, and its schema.
        self._columns: list[tuple[str, str, int, bool, Any]] = []
        row = types.rows[types.root]
        nodes = all.schema.get("properties")
        nodes = nodes if isinstance(nodes, dict) else {}
        if paths:
            for path in paths:
                at, _, always = all._find(path)
                self._columns.append((path, path, at, always, nodes.get(path)))
        elif row.kind == "struct":
            self._columns = [(name, written(name), at, not optional, nodes.get(name)) for name, at, _, optional in row.more]
        else:
            self._columns = [(all.tensor.name, "", types.root, True, None)]

    def __arrow_c_schema__(self) -> Any:
        return _holdall.arrow_schema(self._restored(self._as_views)[0])

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        as_views = self._as_views or (requested_schema is not None and _holdall.arrow_views(requested_schema))
        field, other = self._restored(as_views)
        batches = self._batches(as_views, [of[0] in ("u", "z") for of in (other or field)[4]])
        if other is None:
            return _holdall.arrow_stream(field, lambda: next(batches, None))
        pa = pyarrow()
        stream = _Stream(other, lambda: next(batches, None))
        schema = pa.schema(pa.field(_TypeForPyarrow(field)).type)
        nodes = [node for *_, node in self._columns]

        def restore() -> Iterator[Any]:
            for batch in pa.RecordBatchReader.from_stream(stream):
                of = zip(batch.columns, schema, nodes)
                columns = [restored(column, field.type, node) for column, field, node in of]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

        return pa.RecordBatchReader.from_batches(schema, restore()).__arrow_c_stream__(requested_schema)

    def _restored(self, as_views: bool) -> tuple[Field, Field | None]:
        """Returns the type of the columns as they were given, and that of the stored values if they have another form.
        Values of another form are converted by pyarrow; without it, the type is that of the stored values."""
        plain = self._field(as_views)
        if not any(isinstance(node, dict) and "arrow." in json.dumps(node) for *_, node in self._columns):
            return plain, None
        given = self._field(as_views, True)
        # Strings can have offsets of 32 bits from the beginning.
        columns = [(to[0], *of[1:]) if _SHORT.get(of[0]) == to[0] else of for of, to in zip(plain[4], given[4])]
        stored: Field = (*plain[:4], columns, plain[5])
        if _has_form(stored, given):
            return given, None
        return (given, stored) if find_spec("pyarrow") is not None else (plain, None)

    def to_parquet(self, target: str | os.PathLike[str], *, overwrite: bool = False, **options: Any) -> None:
        """Writes the columns as a Parquet file by pyarrow, in row groups of about a million records or 64 MiB. The
        file appears when it is complete.

        Args:
            overwrite: Whether an existing file is replaced.
            options: Options of ``pyarrow.parquet.ParquetWriter``, such as ``compression="zstd"``.

        Raises:
            UnsupportedError: pyarrow is not installed. UsageError: the file exists and ``overwrite`` is false.
        """
        pa = pyarrow()
        parquet = importlib.import_module("pyarrow.parquet")
        reader = pa.RecordBatchReader.from_stream(self)
        with _written(target, overwrite) as path, parquet.ParquetWriter(path, reader.schema, **options) as out:
            for group in _groups(reader):
                out.write_table(pa.Table.from_batches(group))

    def to_ipc(self, target: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the columns as an Arrow IPC file (Feather) by pyarrow: see :meth:`to_parquet`."""
        pa = pyarrow()
        reader = pa.RecordBatchReader.from_stream(self)
        with _written(target, overwrite) as path, pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, reader.schema) as out:
            for batch in reader:
                out.write_batch(batch)

    def _field(self, as_views: bool, restores: bool = False) -> Field:
        types = self._all._types
        of = self._columns
        fields = [_field(types, at, name, not always, as_views, node if restores else None) for name, _, at, always, node in of]
        return "+s", "", 0, [], fields, []

    def _batches(self, as_views: bool, short: list[bool]) -> Iterator[Elements]:
        of, native = self._of, self._all._native
        paths = [path for _, path, *_ in self._columns]
        batch = self._batch or native.rows_in(_BYTES)
        for start in range(0, len(of), batch):
            part = of[start : start + batch]
            yield len(part), 0, [None], native.gather(paths, part._picked(), as_views, short), []


def polars(of: Records | Selection, paths: Sequence[str] = ()) -> Any:
    """Returns the records, or their members at ``paths``, as a Polars frame."""
    return package("polars").DataFrame(Arrow(of, paths, as_views=True))


def pyarrow() -> Any:
    """Imports pyarrow, or raises an error that says how to install it."""
    return package("pyarrow")


class _Stream:
    """A stream of batches of columns."""

    def __init__(self, field: Field, step: Any) -> None:
        self._of = field, step

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return _holdall.arrow_stream(*self._of)


class _TypeForPyarrow:
    """A type, for pyarrow."""

    def __init__(self, field: Field) -> None:
        self._field = field

    def __arrow_c_schema__(self) -> Any:
        return _holdall.arrow_schema(self._field)


@contextmanager
def _written(target: str | os.PathLike[str], overwrite: bool) -> Iterator[str]:
    """Yields a temporary path next to the target, which is renamed to the target at the end; an error removes it."""
    target = os.fspath(target)
    if not overwrite and os.path.lexists(target):
        message = f"{target}: the file exists"
        hint = "pass overwrite=True to replace it"
        raise TargetExistsError(message, code="write/exists", kind="misuse", source=target, hint=hint)
    import tempfile

    handle, path = tempfile.mkstemp(prefix=".holdall-", dir=os.path.dirname(os.path.abspath(target)))
    os.close(handle)
    try:
        yield path
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(path, 0o666 & ~mask)
        try:
            if not overwrite:
                os.link(path, target)
        except FileExistsError:
            raise
        except OSError:
            overwrite = True  # Without hard links there is no way that would not replace what came meanwhile.
        if overwrite:
            os.replace(path, target)
    finally:
        if os.path.lexists(path):
            os.unlink(path)


def stream_of_blob(blob: Blob) -> Any:
    """Returns the runs of a blob as a stream of one column, named after its tensor."""
    name = blob.tensor.name
    if blob.dtype is not None:
        field: Field = ("+L", name, 0, [], [_scalar_field(blob.dtype, "item")], [])
    else:
        field = ("Z" if blob.content == "bytes" else "U", name, 0, [], [], [])

    def batches() -> Iterator[Elements]:
        import numpy as np

        if blob.dtype is None:
            # As many as take about as many bytes as a batch of records; a small blob is one batch.
            each = max(1, blob.tensor.nbytes // max(1, blob._native.head()[0]))
            for start in range(0, len(blob), max(1, _BYTES // each)):
                part = blob[start : start + max(1, _BYTES // each)]
                yield len(part), 0, [None], [blob._native.gather(part._picked())], []
            return
        for start in range(0, len(blob), BATCH):
            rows = list(blob[start : start + BATCH])
            offsets = np.cumsum([0, *map(len, rows)], dtype="<i8")
            below = _scalars(np.concatenate(rows))
            column: Elements = (len(rows), 0, [None, _bytes(offsets)], [below], [])
            yield len(rows), 0, [None], [column], []

    every = batches()
    return _holdall.arrow_stream(("+s", "", 0, [], [field], []), lambda: next(every, None))


def array_of_tensor(tensor: Tensor) -> tuple[Any, Any]:
    """Returns the Arrow type and the elements of a dense tensor: a tensor of one dimension as numbers, one of more
    as rows that are tensors of fixed shape. Elements are views into the map if the file stores them as Arrow does."""
    if not tensor.shape:
        raise UsageError(
            f"{tensor.file.name}: tensor `{tensor.name}`: Arrow has no array of a scalar", code="python/arrow", kind="misuse"
        )
    a = tensor._numbers()
    field = _tensor_field(tensor.dtype, tensor.shape[1:], tensor.name) if a.ndim > 1 else None
    field = field or _scalar_field(tensor.dtype, tensor.name)
    flat = _scalars(a.reshape(-1))
    return _holdall.arrow_array(field, (len(a), 0, [None], [flat], []) if a.ndim > 1 else flat)


def schema_of_tensor(tensor: Tensor) -> Any:
    """Returns only the Arrow type of a dense tensor."""
    return array_of_tensor(tensor)[0]


# Types.


def _field(types: Types, at: int, name: str, optional: bool, as_views: bool = False, node: Any = None) -> Field:
    """Returns the type of a column. With ``node``, its schema, it is the type that was given, if the schema names it."""
    row = types.rows[at]
    is_nullable = optional or (isinstance(node, dict) and node.get("arrow.nullable") is True)
    flags = _NULLABLE if is_nullable else 0
    format, indices = declared_format(node, str(row.more) if row.kind == "scalar" else row.kind), dictionary(node)
    if indices is not None:
        index, is_ordered = indices
        flags |= 1 if is_ordered else 0
        if row.kind == "enum":
            return index, name, flags, extension(node), [], [("u", "", 0, [], [], [])]
        plain = {key: value for key, value in node.items() if key != "arrow.dictionary"}
        return index, name, flags, [], [], [_field(types, at, "", False, as_views, plain)]
    said_more = extension(node)
    if row.kind == "scalar":
        return (format, name, flags, said_more, [], []) if format else _extended(_scalar_field(row.more, name, flags), said_more)
    if row.kind == "enum":
        return _NUMBERS[row.more[0]], name, flags, [], [], [("u", "", 0, [], [], [])]
    properties = node.get("properties") if isinstance(node, dict) else None
    nodes = properties if isinstance(properties, dict) else {}
    if row.kind == "struct":
        below = [
            _field(types, to, member, optional or maybe, as_views, nodes.get(member)) for member, to, _, maybe in row.more
        ]
        return "+s", name, flags, said_more, below, []
    if row.kind == "union":
        key, variants = row.more
        below = [("U", key, flags, [], [], [])]
        below += [_field(types, to, variant, True, as_views) for variant, to in variants if variant != key]
        return "+s", name, flags, [], below, []
    if row.kind == "array":
        items, count = row.more
        below_node = node.get("items") if isinstance(node, dict) else None
        below_row = types.rows[items]
        if format == "+m" and below_row.kind == "struct" and [member for member, *_ in below_row.more] == ["key", "value"]:
            pairs = _field(types, items, "entries", False, as_views, below_node)
            key_field, value_field = pairs[4]
            key_field = (*key_field[:2], key_field[2] & ~_NULLABLE, *key_field[3:])
            return "+m", name, flags, said_more, [("+s", "entries", 0, [], [key_field, value_field], [])], []
        form = "+L" if count is None else f"+w:{count}"
        form = "+l" if format == "+l" and count is None else form
        if has_nulls(node) and below_row.kind == "struct" and len(below_row.more) == 1:
            items = below_row.more[0][1]
            wrapped = below_node.get("properties") if isinstance(below_node, dict) else None
            below_node = wrapped.get("value") if isinstance(wrapped, dict) else None
        return form, name, flags, said_more, [_field(types, items, "item", True, as_views, below_node)], []
    if row.kind == "tensor":
        dtype, shape = row.more
        return _tensor_field(dtype, shape, name, flags)
    # Polars has decimals of 128 bits only.
    if format and not (as_views and (format in ("u", "z") or (format[0] == "d" and (format.count(",") > 1 or "-" in format)))):
        return format, name, flags, said_more, [], []
    texts, runs = ("vu", "vz") if as_views else ("U", "Z")
    return runs if row.kind == "bytes" else texts, name, flags, said_more, [], []


def _extended(field: Field, said_more: list[tuple[str, str]]) -> Field:
    format, name, flags, metadata, below, values = field
    return format, name, flags, [*metadata, *said_more], below, values


def _has_form(plain: Field, given: Field) -> bool:
    """Returns whether columns of both types have the same buffers."""
    if plain[0] != given[0]:
        is_zone = plain[0].startswith("tsn:") and given[0].startswith("tsn:")
        is_count = (plain[0] == "i" and given[0] in ("tts", "ttm")) or (plain[0] == "l" and given[0] in _COUNTS)
        if not (is_zone or is_count):
            return False
    if len(plain[4]) != len(given[4]) or len(plain[5]) != len(given[5]):
        return False
    return all(_has_form(a, b) for a, b in zip([*plain[4], *plain[5]], [*given[4], *given[5]]))


#: Format strings of columns of strings with 32-bit offsets, by those with 64-bit offsets.
_SHORT = {"U": "u", "Z": "z"}
#: Format strings of times of day and durations of 64 bits.
_COUNTS = ("ttu", "ttn", "tDs", "tDm", "tDu", "tDn")


def _scalar_field(dtype: str, name: str, flags: int = 0) -> Field:
    """Returns the type of scalars. Element types that Arrow lacks are fixed-size bytes, with their name in the
    metadata."""
    if dtype in _FORMATS:
        return _FORMATS[dtype], name, flags, [], [], []
    return f"w:{_element(dtype).itemsize}", name, flags, [("holdall.dtype", dtype)], [], []


def _tensor_field(dtype: str, shape: Sequence[int], name: str, flags: int = 0) -> Field:
    item = _scalar_field(dtype, "item", _NULLABLE)
    metadata = []
    if dtype in _FORMATS:
        metadata = [
            ("ARROW:extension:name", "arrow.fixed_shape_tensor"),
            ("ARROW:extension:metadata", json.dumps({"shape": list(shape)})),
        ]
    return f"+w:{prod(shape)}", name, flags, metadata, [item], []


# Elements.


def _scalars(a: np.ndarray[Any, Any]) -> Elements:
    import numpy as np

    data = np.packbits(a.view(np.uint8) != 0, bitorder="little") if a.dtype == np.bool_ else _bytes(a)
    return len(a), 0, [None, data], [], []


def _bytes(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the bytes of the elements in C order, at an aligned address."""
    import numpy as np

    a = np.ascontiguousarray(a)
    if a.size and a.__array_interface__["data"][0] % min(8, a.dtype.itemsize):
        a = a.copy()
    out: np.ndarray[Any, Any] = a.reshape(-1).view(np.uint8)
    return out


def _runs(runs: Sequence[bytes]) -> Elements:
    """Returns a column of strings or of byte strings."""
    import numpy as np

    offsets = np.cumsum([0, *map(len, runs)], dtype="<i8")
    return len(runs), 0, [None, _bytes(offsets), np.frombuffer(b"".join(runs), np.uint8)], [], []
