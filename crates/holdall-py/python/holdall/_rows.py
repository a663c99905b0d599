"""Conversion of rows and schemas for the native half."""

from __future__ import annotations

import base64
import datetime
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Literal

from ._arrays import dtype_name, numpy_dtype
from ._arrow_in import batches_of, says_its_types, schema_of, table
from ._columns_in import batches_of_columns, columns_of_struct
from ._file import File
from ._kinds import Types
from ._records import Ragged
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


def rows(of: Rows, made: Callable[[Iterator[Any]], Iterator[Any]] = iter) -> tuple[str, Any]:
    """Prepares rows for the native half; ``made`` converts rows that are not in a file to JSON values.

    Raises:
        TypeError: ``of`` is neither a path nor an iterable.
    """
    found = table(of)
    if found is not None:
        return "columns", batches_of(found)
    if isinstance(of, (str, os.PathLike)):
        return "path", os.fspath(of)
    struct = columns_of_struct(of)
    if struct is not None:
        return rows_of_columns(struct, made)
    if isinstance(of, (bytes, bytearray, memoryview, Mapping)) or not isinstance(of, Iterable):
        raise TypeError(f"records must be a path or an iterable of records, not {type(of).__name__}")
    return "lines", _lines(made(iter(of)))


def rows_of_columns(
    of: Mapping[str, Any], made: Callable[[Iterator[Any]], Iterator[Any]] = iter
) -> tuple[str, Any]:
    """Prepares columns for the native half; ``made`` converts rows that are not numbers, times or strings to JSON
    values."""
    batches = batches_of_columns(of)
    return ("lines", _lines(made(columns(of)))) if batches is None else ("columns", batches)


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


def kind_of(records: Any, given: Schema | None) -> Schema:
    """Returns the schema of records: the given one, or one from the column types of a table.

    Raises:
        TypeError: no schema is given, and the records have no types.
    """
    if given is not None:
        return given
    if not says_its_types(records):
        raise TypeError("records require a schema: holdall.schema.infer(records) creates one")
    return schema_of(table(records))


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
    return json.dumps(run, ensure_ascii=False, allow_nan=False, default=_plain)


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
    return _json(list(run) if is_list else run)


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


def shaped(types: Types, all: Iterable[Any]) -> Iterable[Any]:
    """Converts arrays for tensor members to the nested lists of the records' JSON."""
    if not any(row.kind == "tensor" for row in types.rows):
        return all
    return (_shaped(types, types.root, value) for value in all)


def _shaped(types: Types, at: int, value: Any) -> Any:
    row = types.rows[at]
    if row.kind == "tensor" and isinstance(value, Iterable) and not isinstance(value, Mapping):
        import numpy as np

        array = np.asarray(value)
        if array.shape != row.more[1]:
            message = f"a tensor of shape {list(row.more[1])}, not {list(array.shape)}"
            raise UsageError(message, code="python/shape", kind="misuse")
        return {"data": array.reshape(-1)}
    if isinstance(value, Mapping):
        members: list[Any] = row.more if row.kind == "struct" else []
        if row.kind == "union":
            discriminator, variants = row.more
            members = [m for key, to in variants if key == value.get(discriminator) for m in types.rows[to].more]
        out = dict(value)
        out.update((name, _shaped(types, to, value[name])) for name, to, _, _ in members if name in value)
        return out
    if row.kind == "array" and isinstance(value, (list, tuple)):
        return [_shaped(types, row.more[0], each) for each in value]
    return value


def _lines(all: Iterator[Any]) -> Callable[[], bytes]:
    """Returns a function that returns the next JSON lines at each call, and an empty result at the end."""

    def chunk() -> bytes:
        parts: list[str] = []
        size = 0
        for row in all:
            text = _json(row)
            parts.append(text)
            size += len(text)
            if size >= CHUNK:
                break
        return ("\n".join(parts) + "\n").encode() if parts else b""

    return chunk


def _json(row: Any) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False, default=_plain)
    except ValueError:
        # JSON has no NaN and no infinities; a circular reference raises again.
        whole = json.loads(json.dumps(row, default=_plain), parse_constant=_FLOATS.__getitem__)
        return json.dumps(whole, ensure_ascii=False)


#: The names of floats that JSON cannot represent.
_FLOATS = {"NaN": {"$float": "nan"}, "Infinity": {"$float": "inf"}, "-Infinity": {"$float": "-inf"}}


def _plain(value: Any) -> Any:
    """Converts values of records that JSON cannot represent: bytes, complex numbers, and NumPy scalars, arrays and
    times."""
    import numpy as np

    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[ns]")) + "Z"
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.isoformat()
    if isinstance(value, np.ndarray) and value.dtype.kind == "M":
        return list(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")
