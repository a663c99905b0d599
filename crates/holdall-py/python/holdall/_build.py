"""Files of records."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _holdall
from ._arrow_in import table
from ._progress import Progress, listening
from ._rows import Form, Path, Rows, Runs, Schema, content_name, filling, kind_of, lines, rows
from ._rows import runs as _runs
from ._rows import schema as _schema
from ._write import Digest, Encoding, _writing

__all__ = ["BuildReport", "build"]


@dataclass(frozen=True)
class BuildReport:
    """The report of :func:`build`."""

    #: The path of the dataset and its number of records.
    records: tuple[str, int] | None
    #: The name of the blob and its number of files.
    files: tuple[str, int] | None
    #: The name of the blob and its number of runs.
    runs: tuple[str, int] | None
    #: The size of the file in bytes.
    nbytes: int
    #: The schema of a record that was inferred from the records, because none was given; ``None`` otherwise.
    inferred: dict[str, Any] | None = None


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
    """Writes a file of records, and of a blob of runs or files, in bounded memory; needs disk space for twice the
    data, unless the records are a table in memory or a list of dicts.

    ::

        holdall.build("points.mt", "points.csv")
        holdall.build("train.mt", ({"text": t, "label": n} for t, n in samples), kind)

    Args:
        target: The file to write; it appears when it is complete.
        records: A file of records (NDJSON, JSON, CSV, TSV), or an iterable of them, as mappings or JSON values; NumPy
            numbers, arrays and times are accepted. Or a Parquet or Arrow file, or a table with ``__arrow_c_stream__``
            (pyarrow, pandas, Polars, DuckDB), which pyarrow reads, or a structured NumPy array, which become records column
            by column; null values are absent.
        schema: The schema of a record, or of the whole file: a mapping, a JSON file, or a tensor file with the
            schema. Without one, it is inferred from all records, as :func:`holdall.schema.infer` does it, or from the
            types of the columns of a table; :attr:`BuildReport.inferred` is that schema. Rows from an iterator, which
            are read twice then, are kept in memory.
        path: The path of the dataset in the file; by default the only dataset of the schema, or ``records``.
        form: The format of the records file; by default its extension decides.
        ignore_unknown: Whether members that the schema does not have are ignored.
        null_absent: Whether ``None`` for an optional member means that it is absent.
        check: Whether every record is checked against the keywords of the schema even if it has none besides those of
            its kinds. A schema with further keywords (``minimum``, ``pattern``) is always checked.
        dedup: Whether equal strings, bytes and arrays that are close to each other share their bytes.
        files: The folder that file names are relative to.
        file_members: Members that hold the name of a file; the bytes or text of that file are stored instead.
        blob: The name of a blob to write: of ``runs``, or of every file in ``files``, with the file names in
            ``NAME_names``.
        runs, content: The runs of the blob and their content: see :class:`Runs`. By default the content comes from
            the schema, and is bytes for files.
        overwrite: Whether an existing file is replaced.
        progress: ``True`` for a bar, or a function that is called with the bytes done and the total, which grows when
            the file is written.

    Raises:
        UsageError: a record does not fit the schema (the error has its line, or its row counted from 0, and its path,
            ``record/…``); the columns of a table do not fit; a file lies outside the folder. MalformedError: the input is not JSON. An existing
            target stays unchanged.
        TypeError: an argument has a wrong type, or a value cannot be written as JSON.
    """
    if records is None and blob is None:
        raise TypeError("nothing to write: pass records, or blob with runs or files")
    inferred = None
    members = [file_members] if isinstance(file_members, str) else list(file_members)
    if records is not None:
        schema, records, inferred = kind_of(records, schema, form, members)
    if blob is not None and files is None and runs is None:
        raise TypeError("the blob has no source: pass runs, or the folder `files`")
    if runs is not None and (blob is None or content is None):
        raise TypeError("runs requires blob, the name of the blob, and content")
    how = filling(ignore_unknown, null_absent or inferred is not None, check, files, members)
    if records is None:
        source = None
    elif members:
        source = lines(records)
    else:
        # The schema says how lists with nulls are stored.
        is_table = table(records) is not None and schema is not None
        source = rows(records, json.loads(_holdall.record_schema(_schema(schema), path)) if is_table else None)  # type: ignore[arg-type]
    writing = _writing(format, version, attributes, encoding, level, digest, None, overwrite, sync, threads)
    # A file is read, and then the new one is written.
    with listening(progress, 2 if isinstance(records, (str, os.PathLike)) else 1) as listener:
        found = _holdall.build(
            os.fspath(target),
            None if schema is None else _schema(schema),
            source,
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
    return BuildReport(**found, inferred=inferred)
