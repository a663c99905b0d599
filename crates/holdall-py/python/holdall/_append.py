"""Rows that are added to a dataset."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _holdall
from ._file import File
from ._operations import _opened
from ._progress import Progress, listening
from ._rows import Form, Path, Rows, filling, lines, rows, rows_of_columns
from ._write import Digest, Encoding, _writing
from .errors import UsageError

__all__ = ["AppendReport", "append"]


@dataclass(frozen=True)
class AppendReport:
    """The report of :func:`append`."""

    #: The path of the dataset.
    dataset: str
    #: The number of its records in the new file, and how many of them were added.
    records: int
    added: int
    #: The size of the new file in bytes.
    nbytes: int
    #: Other parts of the source that the new file lacks: parts that this version does not know, or that its format
    #: cannot hold.
    left_behind: tuple[str, ...] = ()


def append(
    source: Path | File,
    records: Rows | Mapping[str, Any],
    target: Path | None = None,
    *,
    dataset: str | None = None,
    form: Form | None = None,
    ignore_unknown: bool = False,
    null_absent: bool = True,
    check: bool = False,
    files: Path | None = None,
    file_members: Iterable[str] = (),
    format: str | None = None,
    version: str | None = None,
    encoding: Encoding | None = None,
    level: int | None = None,
    digest: Digest | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> AppendReport:
    """Adds rows to a dataset of a file, in bounded memory. The file is written anew, with everything else as it was, so
    that it needs disk space for twice the data; then it takes the place of the old one. A program that has the old
    file open keeps reading the old records.

    ::

        holdall.append("train.mt", [{"text": "good", "label": 1}])
        holdall.append("train.mt", table, "longer.mt")

    Args:
        source: The path of the file, or an open file.
        records: Rows of every kind that :func:`holdall.build` takes, or a mapping of columns. They fit the schema of the
            dataset.
        target: The file to write; by default the new file takes the place of the old one.
        dataset: The path of the dataset; by default the only one.
        form: The format of the records file; by default its extension decides.
        ignore_unknown: Whether members that the schema does not have are ignored.
        null_absent: Whether ``None`` for an optional member means that it is absent.
        check: Whether every new record is checked against the keywords of the schema even if it has none besides those
            of its kinds.
        files, file_members: The folder that file names are relative to, and the members that hold such names.
        encoding: ``"zstd"`` or ``"raw"``, for all components; by default each keeps the one that it has, as far as the
            format of the target has it.
        overwrite: Whether another existing file at ``target`` is replaced.

    Raises:
        UsageError: a row does not fit the schema (``record/…``); it is not clear which dataset is meant
            (``records/which-dataset``). IntegrityError: the old records do not have their digest. The file stays
            unchanged.
    """
    members = [file_members] if isinstance(file_members, str) else list(file_members)
    how = filling(ignore_unknown, null_absent, check, files, members)
    with _opened(source) as file, listening(progress) as listener:
        if target is None:
            target, overwrite = file.name, True
            if not os.path.isfile(target):
                message = f"{target}: only a file on a disk can be replaced"
                hint = "pass target, the file to write"
                raise UsageError(message, code="python/option", kind="misuse", source=file.name, hint=hint)
            format = format or file.format
        if isinstance(records, Mapping):
            given = rows_of_columns(records)
        else:
            given = lines(records) if members else rows(records, _kind(file, dataset))
        writing = _writing(format, version, None, encoding, level, digest, None, overwrite, sync, threads)
        found = _holdall.append(file._native, given, form, os.fspath(target), dataset, how, writing, listener)
    return AppendReport(**{**found, "left_behind": tuple(found["left_behind"])})


def _kind(file: File, dataset: str | None) -> Any:
    """Returns the schema of a record of the dataset; ``None`` if it is not clear which one is meant."""
    found = [t for t in file.values() if t.layout == "records" and dataset in (None, t.name)]
    kind = found[0].attributes.get("metatensor.kind") if len(found) == 1 else None
    return json.loads(kind) if isinstance(kind, str) else None
