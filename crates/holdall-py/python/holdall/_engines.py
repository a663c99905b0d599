"""Inputs for engines that process many files: files by pattern, records in Arrow batches, tensors and verdicts as
rows."""

from __future__ import annotations

import glob
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._arrow import BATCH, pyarrow
from ._file import File, open
from ._records import Records, Selection
from ._reports import VerifyReport
from .errors import HoldallError, IntegrityError, LimitError, MalformedError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

#: A path or an address, a pattern of paths, or a list of these.
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
#: The columns of the table of tensors and of the table of verdicts.
TENSORS = (("path", "string"), ("name", "string"), ("dtype", "string"), ("shape", "list<int64>"), ("layout", "string"),
           ("nbytes", "int64"), ("offset", "int64"), ("digest", "string"))  # fmt: skip
VERDICTS = (("path", "string"), ("verdict", "string"), ("code", "string"), ("error", "string"), ("format", "string"),
            ("tensors", "int64"), ("nbytes", "int64"), ("findings", "int64"))  # fmt: skip


def files(paths: Paths) -> list[str]:
    """Returns the files that paths and patterns match, in order and without duplicates. Addresses are taken as they
    are.

    Raises:
        UsageError: no file matches.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: dict[str, None] = {}
    for one in (os.fspath(path) for path in given):
        is_pattern = "://" not in one and not os.path.exists(one) and glob.has_magic(one)
        found.update(dict.fromkeys(sorted(glob.glob(one, recursive=True)) if is_pattern else [one]))
    if not found:
        raise UsageError(f"no file matches {given}", code="python/option", kind="misuse")
    return list(found)


def records(file: File, dataset: str | None, where: Sequence[str]) -> Records | Selection:
    """Returns the records of the dataset of that name (or of the only dataset) for which all conditions hold."""
    if dataset is None:
        all = [t.name for t in file.values() if t.layout == "records"]
        if len(all) != 1:
            raise UsageError(f"{file.name}: the file has {len(all)} datasets; pass the name of one", code="python/option", kind="misuse")
        dataset = all[0]
    r = file[dataset].records()
    return r.where(*where) if where else r


def reader(
    file: File, dataset: str | None, columns: Sequence[str], where: Sequence[str], batch: int = BATCH
) -> pa.RecordBatchReader:
    """Returns a reader of the records as Arrow batches; an empty list of columns selects all."""
    return pyarrow().RecordBatchReader.from_stream(records(file, dataset, where).arrow(*columns, batch=batch))


def batches(
    path: str,
    dataset: str | None,
    columns: Sequence[str],
    where: Sequence[str],
    limit: int | None,
    how: Mapping[str, Any],
) -> Iterator[pa.RecordBatch]:
    """Yields the Arrow batches of a file, at most ``limit`` records, and closes the file afterwards."""
    left = limit
    with open(path, **how) as file:
        for batch in reader(file, dataset, columns, where, BATCH if limit is None else max(1, min(BATCH, limit))):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if batch.num_rows:
                yield batch
            if left == 0:
                return


def schema(path: str, dataset: str | None, how: Mapping[str, Any]) -> pa.Schema:
    """Returns the Arrow schema of the records of a file."""
    with open(path, **how) as file:
        return reader(file, dataset, (), ()).schema


def tensors(path: str, how: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns a row for each tensor of a file."""
    rows = []
    with open(path, **how) as file:
        for name, t in file.items():
            first = next(iter(t.components.values()), None)
            columns = (path, name, t.dtype, list(t.shape), t.layout, t.stored_nbytes)
            place = (None, None) if first is None else (first.start, first.digest)
            rows.append(dict(zip((column for column, _ in TENSORS), columns + place)))
    return rows


def verdict(path: str, how: Mapping[str, Any]) -> dict[str, Any]:
    """Verifies a file and returns one row; if the file cannot be read, the verdict is ``"unread"`` and the row has
    the reason."""
    row: dict[str, Any] = dict.fromkeys(column for column, _ in VERDICTS)
    row["path"] = path
    try:
        with open(path, **how) as file:
            row["format"], found = file.format, file.verify()
    except (MalformedError, IntegrityError, LimitError, UnsupportedError) as e:
        found = VerifyReport._unopened(e)
    except HoldallError as e:
        row.update(verdict="unread", code=e.code, error=str(e))
        return row
    row.update(verdict=found.verdict, tensors=found.tensors, nbytes=found.stored_len, findings=found.finding_count)
    if found.findings:
        row.update(code=found.findings[0].code, error=str(found.findings[0]))
    elif found.verdict != "sound" and found.unverified:
        row["error"] = found.unverified[0].message
    return row


def content(path: str) -> dict[str, Any]:
    """Returns the SHA-256 of a local file."""
    with io.open(path, "rb") as file:
        return {"path": path, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def arrow_schema(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    """Returns an Arrow schema from names and types as strings."""
    pa = pyarrow()
    known = {"string": pa.string(), "int64": pa.int64(), "list<int64>": pa.list_(pa.int64())}
    return pa.schema([(name, known[kind]) for name, kind in columns])
