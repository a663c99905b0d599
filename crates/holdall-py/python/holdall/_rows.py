"""What people bring for the native half: rows, and schemas."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable, Literal, Optional, Union

from ._file import File

#: How records are written down: JSON values on lines, one JSON array, or a table with names in its first line.
Form = Literal["ndjson", "json", "csv", "tsv"]
#: A path of the file system.
Path = Union[str, "os.PathLike[str]"]
#: Records as people have them: a file of them, or the records themselves, as mappings or values of JSON.
Rows = Union[Path, Iterable[Any]]
#: A schema: its JSON, a file of it, a tensor file, or an open one.
Schema = Union[Mapping[str, Any], Path, File]

#: Bytes of text that go to the native half at a time.
CHUNK = 1 << 18


def rows(of: Rows) -> tuple[str, Any]:
    """Rows for the native half.

    Raises:
        TypeError: what is neither a path nor an iterable.
    """
    if isinstance(of, (str, os.PathLike)):
        return "path", os.fspath(of)
    if isinstance(of, (bytes, bytearray, memoryview, Mapping)) or not isinstance(of, Iterable):
        raise TypeError(f"records are a path or an iterable of records, not {type(of).__name__}")
    return "lines", _lines(iter(of))


def schema(of: Schema) -> tuple[str, Any]:
    """A schema for the native half.

    Raises:
        TypeError: what is neither a mapping, a path nor a file.
    """
    if isinstance(of, File):
        return "file", of._native
    if isinstance(of, Mapping):
        return "json", json.dumps(of, allow_nan=False)
    if isinstance(of, (str, os.PathLike)):
        return "path", os.fspath(of)
    raise TypeError(f"a schema is a mapping, a path or an open file, not {type(of).__name__}")


def filling(
    ignore_unknown: bool,
    null_absent: bool,
    check: bool,
    files: Optional[Path],
    file_members: Iterable[str],
) -> dict[str, Any]:
    """How rows become records, for the native half."""
    members = [file_members] if isinstance(file_members, str) else list(file_members)
    if members and files is None:
        raise TypeError("file_members are read from the folder `files`, which is not given")
    return {
        "ignore_unknown": bool(ignore_unknown),
        "null_absent": bool(null_absent),
        "check": bool(check),
        "files": None if files is None else os.fspath(files),
        "file_members": members,
    }


def _lines(all: Iterator[Any]) -> Callable[[], bytes]:
    """A function that gives lines of JSON, some at a time, and nothing at the end."""

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
        # JSON has no NaN and no infinities; what circles raises again.
        whole = json.loads(json.dumps(row, default=_plain), parse_constant=_FLOATS.__getitem__)
        return json.dumps(whole, ensure_ascii=False)


#: How floats that JSON has not are written: by name.
_FLOATS = {"NaN": {"$float": "nan"}, "Infinity": {"$float": "inf"}, "-Infinity": {"$float": "-inf"}}


def _plain(value: Any) -> Any:
    """What records have that JSON has not: bytes, complex numbers, and NumPy's scalars, arrays and times."""
    import numpy as np

    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[ns]")) + "Z"
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")
