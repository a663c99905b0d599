"""Conversion of rows and schemas for the native half."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Literal

from . import _holdall
from ._arrays import dtype_name, numpy_dtype
from ._arrow import pyarrow
from ._arrow_in import batches_of, is_in_memory, says_its_types, schema_of, table
from ._columns_in import batches_of_columns, columns_of_struct
from ._file import File
from ._records import Ragged
from ._row_values import columns_of_rows, json_text, objects, plain
from .errors import UsageError

if TYPE_CHECKING:
    import numpy as np

#: The format of a file of records: one JSON value per line, one JSON array, or a table with names in its first line.
Form = Literal["ndjson", "json", "csv", "tsv"]
#: A path in the file system.
Path = str | os.PathLike[str]
#: Sources of records: a file of records or of columns (Parquet, Arrow), an Arrow table, or an iterable of mappings or
#: JSON values.
Rows = Path | Iterable[Any]
#: Sources of runs of a blob: a file of JSON values, an iterable of runs, or concatenated arrays.
Runs = Path | Iterable[Any] | Ragged
#: Sources of a schema: a mapping, a JSON file, a tensor file, or an open file.
Schema = Mapping[str, Any] | Path | File

#: Bytes of text that are passed to the native half at a time.
CHUNK = 1 << 18


def rows(of: Rows, kind: Any = None) -> tuple[str, Any]:
    """Prepares rows for the native half. ``kind`` is the schema of a record, if it is known.

    Raises:
        TypeError: ``of`` is neither a path nor an iterable.
    """
    if isinstance(of, _holdall.Columns):
        return "batches", of
    found = table(of)
    if found is not None:
        return "table" if is_in_memory(of) else "columns", batches_of(found, kind)
    if isinstance(of, (str, os.PathLike)):
        return "path", os.fspath(of)
    struct = columns_of_struct(of)
    if struct is not None:
        return rows_of_columns(struct)
    if isinstance(of, (bytes, bytearray, memoryview, Mapping)) or not isinstance(of, Iterable):
        raise TypeError(f"records must be a path or an iterable of records, not {type(of).__name__}")
    return "rows", objects(iter(of))


def lines(of: Rows) -> tuple[str, Any]:
    """Prepares rows for the native half like :func:`rows`; rows that are not in a file become lines of JSON.

    Raises:
        TypeError: ``of`` is neither a path nor an iterable.
    """
    found = rows(of)
    return ("lines", _lines(iter(of))) if found[0] == "rows" else found  # type: ignore[arg-type]


def rows_of_columns(of: Mapping[str, Any]) -> tuple[str, Any]:
    """Prepares columns for the native half."""
    batches = batches_of_columns(of)
    return ("rows", objects(columns(of))) if batches is None else ("columns", batches)


def schema(of: Schema) -> tuple[str, Any]:
    """Prepares a schema for the native half.

    Raises:
        TypeError: ``of`` is neither a mapping, a path nor a file.
    """
    if isinstance(of, File):
        return "file", of._native
    if isinstance(of, Mapping):
        return "json", json.dumps(of, allow_nan=False)
    if isinstance(of, (str, os.PathLike)):
        return "path", os.fspath(of)
    raise TypeError(f"a schema must be a mapping, a path or an open file, not {type(of).__name__}")


def kind_of(
    records: Any, given: Schema | None, form: Form | None = None, members: Iterable[str] = ()
) -> tuple[Schema, Any, dict[str, Any] | None]:
    """Returns the schema of records, and the records. Without a given schema it is that of the columns of a table, or
    is inferred from all records, and also returned as the third value. Records that can be read only once are then
    kept in memory.

    Raises:
        UnsupportedError: the records have values of two types at one path (``infer/mixed``).
    """
    if given is not None:
        return given, records, None
    if table(records) is not None:
        if not says_its_types(records):
            records = pyarrow().RecordBatchReader.from_stream(records).read_all()
        found = schema_of(table(records))
    else:
        if isinstance(records, Iterator):
            records = list(records)
        of_columns = None if members else columns_of_rows(records)
        seen, records = (records, records) if of_columns is None else of_columns
        source = rows_to_infer(seen)
        found = json.loads(_holdall.schema_infer(source, form, False, 0, None, list(members), None))
    return found, records, found


def rows_to_infer(of: Any) -> tuple[str, Any]:
    """Prepares rows, or a mapping of columns, for the native half: as rows, which a schema is inferred from."""
    if isinstance(of, Mapping):
        return "rows", objects(columns(of))
    struct = columns_of_struct(of)
    return rows(of) if struct is None else ("rows", objects(columns(struct)))


def filling(
    ignore_unknown: bool,
    null_absent: bool,
    check: bool,
    files: Path | None,
    file_members: Iterable[str],
) -> dict[str, Any]:
    """Returns options of how rows become records, for the native half."""
    members = [file_members] if isinstance(file_members, str) else list(file_members)
    if members and files is None:
        raise TypeError("file_members requires files, the folder of the files")
    return {
        "ignore_unknown": bool(ignore_unknown),
        "null_absent": bool(null_absent),
        "check": bool(check),
        "files": None if files is None else os.fspath(files),
        "file_members": members,
    }


def runs(of: Runs, content: Any) -> tuple[str, Any]:
    """Prepares the runs of a blob for the native half.

    Raises:
        TypeError: ``of`` is neither a path nor an iterable.
    """
    if isinstance(of, (str, os.PathLike)):
        return "path", os.fspath(of)
    if isinstance(of, Ragged):
        return "runs", _chunks((of.row(at) for at in range(len(of.offsets) - 1)), content)
    if isinstance(of, (bytes, bytearray, memoryview, Mapping)) or not isinstance(of, Iterable):
        raise TypeError(f"runs must be a path or an iterable of runs, not {type(of).__name__}")
    return "runs", _chunks(iter(of), content)


def content_name(content: Any) -> str:
    """Returns the native half's name for the content of a blob: ``"utf-8"``, ``"json"``, ``"bytes"``, or an
    element type."""
    if isinstance(content, str) and content in ("utf-8", "json", "bytes"):
        return content
    return dtype_name(content)


def _chunks(all: Iterator[Any], content: Any) -> Callable[[], list[bytes | str]]:
    """Returns a function that returns the next runs at each call: as bytes, or as JSON text."""
    name = content_name(content)
    made: dict[str, Callable[[Any], bytes | str]] = {"utf-8": _text, "json": _strict, "bytes": _bytes}
    make = made.get(name) or partial(_elements, dtype=numpy_dtype(name))

    def chunk() -> list[bytes | str]:
        parts: list[bytes | str] = []
        size = 0
        for run in all:
            part = make(run)
            parts.append(part)
            size += len(part)
            if size >= CHUNK:
                break
        return parts

    return chunk


def _text(run: Any) -> bytes:
    if not isinstance(run, str):
        raise TypeError(f"a run of text must be a str, not {type(run).__name__}")
    return run.encode()


def _bytes(run: Any) -> bytes:
    if isinstance(run, str):
        raise TypeError("a run of bytes is bytes, not str")
    return bytes(memoryview(run))


def _strict(run: Any) -> str:
    return json.dumps(run, ensure_ascii=False, allow_nan=False, default=plain)


def _elements(run: Any, dtype: np.dtype[Any]) -> bytes | str:
    """Returns elements as bytes if they have that type, otherwise as a JSON array of numbers, which is checked."""
    import numpy as np

    if isinstance(run, np.ma.MaskedArray):
        raise TypeError("a run of numbers has no mask")
    if isinstance(run, (np.ndarray, np.generic)):
        if run.ndim != 1:
            raise TypeError(f"a run of numbers has one dimension, not {run.ndim}")
        if run.dtype.newbyteorder("=") == dtype.newbyteorder("="):
            if dtype == np.bool_:
                # Every nonzero byte becomes 1.
                run = run.view(np.uint8) != 0
            return bytes(run.astype(dtype).tobytes())
    is_list = isinstance(run, Iterable) and not isinstance(run, (str, bytes, Mapping, np.ndarray))
    return json_text(list(run) if is_list else run)


def columns(of: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields records from columns: sequences of equal length, or mappings of columns for structs.

    Raises:
        TypeError: a column is not a sequence.
        UsageError: columns differ in length.
    """
    found = {name: _column(name, values) for name, values in of.items()}
    lens = {name: len(values) for name, values in found.items()}
    for name, count in lens.items():
        first, expected = next(iter(lens.items()))
        if count != expected:
            message = f"column `{name}` has {count} values, column `{first}` {expected}"
            raise UsageError(message, code="python/shape", kind="misuse")
    names = list(found)
    return (dict(zip(names, row)) for row in zip(*found.values()))


def _column(name: str, values: Any) -> list[Any]:
    import numpy as np

    if isinstance(values, Mapping):
        return list(columns(values))
    if isinstance(values, Ragged):
        return [values.row(at) for at in range(len(values.offsets) - 1)]
    if isinstance(values, np.ma.MaskedArray):
        gone = np.ma.getmaskarray(values)
        if gone.ndim != 1:
            raise TypeError(f"column `{name}`: a mask has one dimension, not {gone.ndim}")
        return [None if absent else value for value, absent in zip(values.data, gone)]
    if isinstance(values, (str, bytes, bytearray, memoryview)) or not isinstance(values, Iterable):
        raise TypeError(f"column `{name}` must be a sequence of values, not {type(values).__name__}")
    return list(values)


def _lines(all: Iterator[Any]) -> Callable[[], bytes]:
    """Returns a function that returns the next JSON lines at each call, and an empty result at the end."""

    def chunk() -> bytes:
        parts: list[str] = []
        size = 0
        for row in all:
            text = json_text(row)
            parts.append(text)
            size += len(text)
            if size >= CHUNK:
                break
        return ("\n".join(parts) + "\n").encode() if parts else b""

    return chunk
