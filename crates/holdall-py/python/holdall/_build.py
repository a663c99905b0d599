"""Files of records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _holdall
from ._progress import Progress, listening
from ._rows import Form, Path, Rows, Runs, Schema, content_name, filling, kind_of, rows
from ._rows import runs as _runs
from ._rows import schema as _schema
from ._write import Digest, Encoding, _writing

__all__ = ["BuildReport", "build"]


@dataclass(frozen=True)
class BuildReport:
    """What was put into a file."""

    #: The path of the dataset and how many records it has.
    records: tuple[str, int] | None
    #: The name of the blob and how many files it has.
    files: tuple[str, int] | None
    #: The name of the blob and how many runs it has.
    runs: tuple[str, int] | None
    #: Bytes of the file.
    nbytes: int


def build(
    target: Path,
    records: Rows | None = None,
    schema: Schema | None = None,
    *,
    path: str | None = None,
    form: Form | None = None,
    ignore_unknown: bool = False,
    null_absent: bool = False,
    check: bool = False,
    dedup: bool = False,
    files: Path | None = None,
    file_members: Iterable[str] = (),
    blob: str | None = None,
    runs: Runs | None = None,
    content: Any = None,
    attributes: Mapping[str, Any] | None = None,
    format: str | None = None,
    version: str | None = None,
    encoding: Encoding | None = None,
    level: int | None = None,
    digest: Digest | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> BuildReport:
    """Makes a file of records, and of a blob of runs or files, in bounded memory; the disk needs room for the data twice.

    ::

        holdall.build("points.mt", "points.csv", holdall.schema.infer("points.csv"))
        holdall.build("train.mt", ({"text": t, "label": n} for t, n in samples), kind)

    Args:
        target: The file to write; it appears when it is whole.
        records: A file of records (NDJSON, JSON, CSV, TSV), or an iterable of them, as mappings or values of JSON; NumPy's
            numbers, arrays and times will do. Or a Parquet or Arrow file, or a table that gives ``__arrow_c_stream__`` (pyarrow, pandas,
            Polars, DuckDB), which pyarrow reads; what is null is absent.
        schema: The schema of a record, or of the whole file: a mapping, a JSON file, or a tensor file that has it. Tables and
            files of columns say theirs by their types.
        path: Where the records stand in the file; the one dataset of the schema unless said, or ``records``.
        form: How the records are written; otherwise the file's extension says it.
        ignore_unknown: Whether members that the schema does not have are passed over.
        null_absent: Whether ``None`` for an optional member is its absence.
        check: Whether every record is checked against the keywords of the schema (``minimum``, ``pattern``) even if it has
            none beyond those of its kinds; if it has some, every record is checked in any case.
        dedup: Whether equal texts, bytes and arrays that come near each other share their bytes.
        files: A folder that file names start from.
        file_members: Members whose bytes, or text, are those of the files that the records name there.
        blob: Make a blob of this name: of ``runs``, or of every file of ``files``, with their names in ``NAME_names``.
        runs, content: The runs of the blob and what they hold: see :class:`Runs`. Without ``content``, it is what the
            schema says, and bytes for files.
        overwrite: Whether a file that is there is replaced.

    Raises:
        UsageError: a record does not fit the schema, with its line and its path (``record/…``); a table whose columns do not
            fit; a file outside the folder. MalformedError: what is not JSON. What was at the target stays.
        TypeError: an argument is of another type, or a value is not JSON.
    """
    if records is None and blob is None:
        raise TypeError("nothing to put into the file: give records, or blob and files")
    if records is not None:
        schema = kind_of(records, schema)
    if blob is not None and files is None and runs is None:
        raise TypeError("nothing says what is in the blob: give runs, or the folder `files`")
    if runs is not None and (blob is None or content is None):
        raise TypeError("runs need the name of their blob, and content, which says what they hold")
    how = filling(ignore_unknown, null_absent, check, files, file_members)
    writing = _writing(format, version, attributes, encoding, level, digest, None, overwrite, sync, threads)
    with listening(progress) as listener:
        found = _holdall.build(
            os.fspath(target),
            None if schema is None else _schema(schema),
            None if records is None else rows(records),
            form,
            path,
            how,
            bool(dedup),
            blob,
            None if runs is None else _runs(runs, content),
            None if content is None else content_name(content),
            writing,
            listener,
        )
    return BuildReport(**found)
