"""Records and runs to be written, as values that :func:`holdall.save` and :class:`holdall.Writer` accept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from . import _holdall
from ._arrays import CHUNK
from ._rows import Form, Rows, Schema, content_name, filling, kind_of, rows, rows_of_columns
from ._rows import Runs as _Runs
from ._rows import runs as _runs
from ._rows import schema as _schema

__all__ = ["Dataset", "Runs"]

#: The attribute of a dataset or a blob that holds its schema.
KIND = "metatensor.kind"


class Dataset:
    """Records to be written, with the schema of one: a value for :func:`save` and :meth:`Writer.add`.

    ::

        kind = holdall.schema.infer(people)
        holdall.save("people.zt", {"people": holdall.Dataset(people, kind), "weight": weight})
        holdall.save("points.mt", {"points": holdall.Dataset({"at": points, "name": names}, kind)})

    Values of records have the types that :class:`Records` returns: strings, ``bytes``, lists, arrays, times with a
    zone or ``numpy.datetime64``, mappings for structs and unions, ``None`` for absent members. Records from an
    iterator are read once and buffered on disk.

    Args:
        records: A file of records (NDJSON, JSON, CSV, TSV, Parquet, Arrow), an iterable of them, an Arrow table, or a
            mapping of their columns: sequences of equal length, masked arrays for optional members, :class:`Ragged`
            for arrays of any length, mappings of columns for structs.
        schema: The schema of a record, or of a file with a dataset: a mapping, a JSON file, or a tensor file.
            Without one, it is inferred from all records, or from the types of the columns of a table.
        path: The path of the dataset, if the schema has several.
        form: The format of the records file; by default its extension decides.
        ignore_unknown: Whether members that the schema does not have are ignored.
        check: Whether every record is checked against the keywords of the schema even if it has none besides those of
            its kinds. A schema with further keywords (``minimum``, ``pattern``) is always checked.
        dedup: Whether equal strings, bytes and arrays that are close to each other share their bytes.

    Raises:
        UsageError: a record does not fit the schema (raised when it is written, with its line and its path,
            ``record/…``), or columns differ in length. TypeError: a value has a type that records do not support.
    """

    __slots__ = ("_source", "_kind", "_form", "_how", "_dedup")

    def __init__(
        self,
        records: Rows | Mapping[str, Any],
        schema: Schema | None = None,
        *,
        path: str | None = None,
        form: Form | None = None,
        ignore_unknown: bool = False,
        check: bool = False,
        dedup: bool = False,
    ) -> None:
        found, records, _ = kind_of(records, schema, form)
        self._kind = _holdall.record_schema(_schema(found), path)
        self._source = rows_of_columns(records) if isinstance(records, Mapping) else rows(records, json.loads(self._kind))
        self._form = form
        self._how = filling(ignore_unknown, True, check, None, ())
        self._dedup = bool(dedup)

    def _encode(self, name: str, folder: str) -> _holdall.Part:
        return _holdall.encode_records(name, self._kind, self._source, self._form, self._how, self._dedup, folder)

    def __repr__(self) -> str:
        return "<holdall.Dataset>"


class Runs:
    """Runs of a blob to be written: a value for :func:`save` and :meth:`Writer.add`.

    ::

        holdall.save("texts.zt", {"texts": holdall.Runs(["one", "two"], "utf-8")})
        holdall.save("rows.mt", {"rows": holdall.Runs([[1.0, 2.0], [], [3.0]], "float32")})

    Args:
        runs: An iterable of runs: ``str`` for text, ``bytes``, JSON values, arrays or lists of numbers; numbers may
            also be a :class:`Ragged`. Or a file with one JSON value per line (a string, base64, any value, or a list
            of numbers, by content).
        content: The content of the runs: ``"utf-8"``, ``"bytes"``, ``"json"``, or the type of their numbers
            (``"float32"``).
        form: The format of the file; by default its extension decides.
        dedup: Whether equal runs that are close to each other share their bytes.

    Raises:
        UsageError: a run does not have this content (raised when it is written, ``record/…``). TypeError: a run has a
            wrong type.
    """

    __slots__ = ("_source", "_content", "_form", "_dedup")

    def __init__(self, runs: _Runs, content: Any, *, form: Form | None = None, dedup: bool = False) -> None:
        self._content = content_name(content)
        self._source = _runs(runs, self._content)
        self._form = form
        self._dedup = bool(dedup)

    def _encode(self, name: str, folder: str) -> _holdall.Part:
        return _holdall.encode_runs(name, self._content, self._source, self._form, self._dedup, folder)

    def __repr__(self) -> str:
        return f"<holdall.Runs of {self._content}>"


class Component:
    """One component of a dataset or a blob about to be written."""

    identity = None
    lent = None

    def __init__(self, part: _holdall.Part, at: int, dtype: str, nbytes: int) -> None:
        self._part = part
        self._at = at
        #: The element type in the file.
        self.dtype = dtype
        self.nbytes = nbytes

    def chunks(self) -> Iterator[Any]:
        """Yields its bytes in chunks, once."""
        while chunk := self._part.read(self._at, CHUNK):
            yield chunk
