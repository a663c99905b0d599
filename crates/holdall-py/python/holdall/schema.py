"""Schemas of records: infer, lay out, check and compare them, and migrate files to them.

A schema is given as a mapping (its JSON), the path of a JSON file, or a tensor file, which stands for its own schema or the
one that its tensors have.

::

    kind = holdall.schema.infer("points.csv", tight=True)
    report = holdall.schema.check(kind, "more.csv")
    report.raise_if_bad()
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from . import _holdall
from ._arrow_in import schema_of, table
from ._evolution import Converter, evolution
from ._file import File, Source
from ._operations import _opened
from ._progress import Progress, listening
from ._rows import Form, Path, Rows, Schema, filling, rows
from ._rows import schema as _schema
from ._write import Digest, Encoding, _writing
from .errors import HoldallError

__all__ = [
    "Change",
    "CheckReport",
    "Finding",
    "LayoutRow",
    "MigrationPlan",
    "MigrationReport",
    "PlanStep",
    "SchemaDiff",
    "check",
    "code",
    "diff",
    "header",
    "infer",
    "layout",
    "migrate",
    "plan",
]


def __dir__() -> list[str]:
    return sorted(__all__)


class LayoutRow(NamedTuple):
    """One path of a schema or a file."""

    path: str
    #: What stands there, in a few words: ``"Int32"``, ``"F32 [20, 5]"``, ``"String []"``.
    kind: str
    #: What the offset counts from: the start of a ``"record"``, or of an element in the ``"heap"``; what is in the
    #: ``"header"`` of a file has no offset.
    base: str
    #: Bytes from there.
    offset: int | None
    #: Bytes of one value, and from one to the next.
    size: int | None
    stride: int | None
    align: int | None
    #: Whether it may be absent.
    optional: bool
    #: The byte and the bit of it that is 1 where an optional member of a record is there.
    presence: tuple[int, int] | None

    @classmethod
    def _of(cls, rows: Iterable[Any]) -> list[LayoutRow]:
        return [
            cls(at, kind, base, offset, size, stride, align, optional, bit)
            for at, kind, base, (offset, size, stride, align), optional, bit in rows
        ]


@dataclass(frozen=True)
class Change:
    """One difference between two schemas."""

    path: str
    #: What changed: ``"added"``, ``"removed"``, ``"kind"``, …
    change: str
    #: What it means for old files: ``"compatible"``, ``"needs-default"``, ``"needs-converter"`` or ``"breaking"``.
    verdict: str
    old: str | None
    new: str | None
    #: Values of an enum, where those are what changed.
    values: tuple[str, ...]


@dataclass(frozen=True)
class SchemaDiff:
    """What changed between two schemas; true if they differ."""

    changes: tuple[Change, ...]
    #: The version step: ``"patch"``, ``"minor"`` or ``"major"``.
    bump: str

    @property
    def compatible(self) -> bool:
        """Whether the new schema reads old files as they are."""
        return all(change.verdict == "compatible" for change in self.changes)

    def __bool__(self) -> bool:
        return bool(self.changes)


class Finding(NamedTuple):
    """Something that does not fit a schema."""

    #: The line of a text, from 1, or the record of a dataset, from 0.
    line: int | None
    record: int | None
    #: What is wrong.
    error: HoldallError


@dataclass(frozen=True)
class CheckReport:
    """What a check found; true if everything fits."""

    #: Tensors of a file that were compared with the schema, and records that were looked at.
    tensors: int | None
    records: int
    #: How many things do not fit, and the first 1000 of them.
    finding_count: int
    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return self.finding_count == 0

    def raise_if_bad(self) -> None:
        """Raises the first finding, if there is one."""
        for finding in self.findings:
            raise finding.error


@dataclass(frozen=True)
class MigrationReport:
    """What a migration did."""

    #: Records that were written under the new schema.
    records: int
    #: Tensors, datasets and blobs of the file that was written.
    tensors: int
    #: Members and tensors that were left out, as paths of the file.
    dropped: tuple[str, ...]
    #: Bytes of the file that was written.
    nbytes: int
    #: What the file has besides and the new one lacks: what is not known here, and what its format has no place for.
    left_behind: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanStep:
    """What becomes of one tensor, or one member of records, in a migration."""

    #: What is done: ``"renamed"``, ``"widened"``, ``"converted"``, ``"default"``, ``"absent"`` or ``"dropped"``.
    step: str
    #: Its path in the old file, and in the new one; ``None`` where it is not there.
    source: str | None
    target: str | None
    #: What it was and will be, in short: ``"F32 [2, 3]"``.
    old: str | None
    new: str | None
    #: The converter that makes it.
    by: str | None
    #: Whether numbers are rounded: to nearest, ties to even.
    rounds: bool


@dataclass(frozen=True)
class MigrationPlan:
    """What a migration would do."""

    #: What becomes of tensors and members that do not stay as they are.
    steps: tuple[PlanStep, ...]
    #: Records that would be written under the new schema.
    records: int
    #: Tensors, datasets and blobs of the new file, and those of them that stay as they are.
    tensors: int
    unchanged: int


def infer(
    source: Rows | File,
    *,
    form: Form | None = None,
    tight: bool = False,
    enums: int = 0,
    first: int | None = None,
    file_members: Iterable[str] = (),
    progress: Progress = None,
) -> dict[str, Any]:
    """Makes the schema of a record from records, or that of a file from its tensors.

    Integers become Int64 (Uint64 if they exceed it), other numbers Float64, text String, arrays of numbers that always
    have the same length fixed arrays, and members that are missing or ``None`` in any record optional.

    Args:
        source: A file of records (NDJSON, JSON, CSV, TSV), records as mappings, a Parquet or Arrow file or a table
            of Arrow's (whose types say all but which members may be absent), a tensor file, or an open one.
        form: How the records are written; otherwise the file's extension says it.
        tight: The narrowest numbers that hold every value seen, and times if every text has their form.
        enums: Text with at most this many different values becomes an enum.
        first: How many records to read; by default all.
        file_members: Members whose text names files, which :func:`holdall.build` reads: they become bytes.

    Raises:
        UnsupportedError: one place has values of two types (``infer/mixed``).
        MalformedError: the text is not JSON. UsageError: the columns of a table do not fit together.
    """
    found = table(source)
    if found is not None:
        return schema_of(found)
    given = ("file", source._native) if isinstance(source, File) else rows(source)
    members = [file_members] if isinstance(file_members, str) else list(file_members)
    with listening(progress) as listener:
        schema: dict[str, Any] = json.loads(
            _holdall.schema_infer(given, form, bool(tight), enums, first, members, listener)
        )
    return schema


def layout(
    source: Schema,
    path: str | None = None,
    *,
    symbols: Mapping[str, int] | None = None,
    reading: Literal["record", "file"] | None = None,
) -> list[LayoutRow]:
    """Every path of a schema, or of a file and the records in it, with its type and where its bytes lie.

    Args:
        source: A schema, or a tensor file.
        path: Only this path and those below it: ``"points[].at"``. With an index, offsets are those of that element.
        symbols: Numbers for symbols in shapes.
        reading: Whether a schema is that of one record or of the tensors of a file; otherwise its root says it.

    Raises:
        MissingNameError: the path leads to nothing, or the schema has no such symbol.
        MalformedError: the schema is not sound.
    """
    found = _holdall.schema_layout(_schema(source), path, list((symbols or {}).items()), reading)
    return LayoutRow._of(found)


def check(
    schema: Schema,
    records: Rows | File | None = None,
    *,
    path: str | None = None,
    form: Form | None = None,
    ignore_unknown: bool = False,
    null_absent: bool = False,
    files: Path | None = None,
    file_members: Iterable[str] = (),
    formats: Mapping[str, Callable[[str], Any]] | None = None,
    keywords: Mapping[str, Callable[[Any, Any], Any]] | None = None,
    progress: Progress = None,
) -> CheckReport:
    """Checks whether a schema is sound, and whether records, or a tensor file and the records in it, fit it. Every record
    is checked against all keywords of the schema, and so is every ``default`` of the schema itself.

    Args:
        records: A file of records, records as mappings, a tensor file, or an open one; without any, the schema alone
            is checked.
        path: Which dataset of the schema, or of the file, the records are.
        form: How the records are written; otherwise the file's extension says it.
        ignore_unknown: Members that the schema does not have are not findings.
        null_absent: ``None`` for an optional member is not a finding.
        files, file_members: The folder, and the members whose bytes or text are those of files in it that the records
            name.
        formats: Your own values of ``format``: functions that return whether a text has that format. Those of the standard are not
            checked.
        keywords: Your own keywords: functions of the keyword's value in the schema and of a value. Exceptions in a function are
            raised.
    """
    given = None
    if records is not None:
        given = ("file", records._native) if isinstance(records, File) else rows(records)
    how = filling(ignore_unknown, null_absent, True, files, file_members)
    own = _own(formats, keywords)
    with listening(progress) as listener:
        found = _holdall.schema_check(_schema(schema), given, form, path, how, own, listener)
    findings = tuple(Finding(*finding) for finding in found.pop("findings"))
    return CheckReport(findings=findings, **found)


def code(
    schema: Schema,
    lang: Literal["rust", "python", "typescript", "wgsl"],
    *,
    path: str | None = None,
    name: str = "Record",
) -> str:
    """Code that mirrors the records of a schema: ``#[repr(C)]`` structs of Rust, the dtype that ``records.dtype`` has with
    comments on how everything else is read, types of TypeScript for the records' JSON, or functions of WGSL that read
    members from a buffer of the records.

    Args:
        schema: The schema of a record, or of a file with a dataset: a mapping, a JSON file, or a tensor file.
        path: Which dataset, if there are several.
        name: The name of the type of a record; types inside are named after it and their members.

    Raises:
        UnsupportedError: the record is text, a union or another kind without a fixed layout (``schema/no-mirror``).
    """
    return _holdall.schema_code(_schema(schema), lang, path, name)


def header(source: Schema) -> dict[str, Any]:
    """The JSON Schema, draft 2020-12, that plain validators check the ``tensors`` of a header with: it has references where the
    schema describes datasets, blobs and tensors, in standard keywords alone. Metatensor files that need it have it under
    ``header_schema``; this is for those that lack it, and for headers that are not written yet.

    Args:
        source: The schema of a file: a mapping, a JSON file, or a tensor file.

    Raises:
        UsageError: the schema is that of a record, which has no header (``records/which-dataset``).
        MalformedError: the schema is not sound.
    """
    return json.loads(_holdall.schema_header(_schema(source)))


def _own(
    formats: Mapping[str, Callable[[str], Any]] | None, keywords: Mapping[str, Callable[[Any, Any], Any]] | None
) -> dict[str, list[tuple[str, Callable[..., Any]]]]:
    """Formats and keywords of the caller's, as the extension takes them."""
    asked = [(name, _of_json(check)) for name, check in (keywords or {}).items()]
    return {"formats": list((formats or {}).items()), "keywords": asked}


def _of_json(check: Callable[[Any, Any], Any]) -> Callable[[str, str], Any]:
    """A function of values as one of their JSON."""
    return lambda own, value: check(json.loads(own), json.loads(value))


def diff(old: Schema, new: Schema, *, path: str | None = None) -> SchemaDiff:
    """Compares two schemas: what changed, and what it means for old files. The schema of a record is compared with the
    records that the other side has.

    Args:
        path: Compare the records of this dataset, where a side is a file or the schema of one.
    """
    changes, bump = _holdall.schema_diff(_schema(old), _schema(new), path)
    return SchemaDiff(tuple(Change(*change[:5], tuple(change[5])) for change in changes), bump)


def plan(
    source: Source | File,
    schema: Schema,
    *,
    path: str | None = None,
    rename: Mapping[str, str] | None = None,
    converters: Mapping[str, Converter] | None = None,
    drop: bool = False,
) -> MigrationPlan:
    """Tells what :func:`migrate` would do, tensor by tensor and member by member. Nothing is written, and no function is
    called.

    Args:
        source, schema, path, rename, converters, drop: as of :func:`migrate`.

    Raises:
        What :func:`migrate` raises, except errors that depend on the values in the file.
    """
    with _opened(source) as file:
        how = evolution(file, path, rename, converters, drop)
        found = _holdall.schema_plan(file._native, _schema(schema), how)
    steps = tuple(
        PlanStep(s["step"], s["from"], s["to"], s["old"], s["new"], s["by"], s["rounds"]) for s in found["steps"]
    )
    return MigrationPlan(steps, found["records"], found["tensors"], found["unchanged"])


def migrate(
    source: Source | File,
    schema: Schema,
    target: Path,
    *,
    path: str | None = None,
    rename: Mapping[str, str] | None = None,
    converters: Mapping[str, Converter] | None = None,
    drop: bool = False,
    formats: Mapping[str, Callable[[str], Any]] | None = None,
    keywords: Mapping[str, Callable[[Any, Any], Any]] | None = None,
    format: str | None = None,
    version: str | None = None,
    encoding: Encoding | None = None,
    level: int | None = None,
    digest: Digest | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> MigrationReport:
    """Rewrites a file under another schema: its records and its tensors.

    Numbers widen, members and tensors match by name, and new ones take their default or are absent. Memory
    does not grow with the file.

    Args:
        source: What :func:`holdall.open` takes, or an open file.
        schema: The new schema: of a record, or of the whole file.
        target: The file to write.
        path: The dataset that a record's schema is for; by default the only one.
        rename: New names of members, each with its old name: ``{"caption": "text"}``; under the schema of a whole file
            those of tensors, too.
        converters: What makes members and tensors that do not follow from the old ones by themselves, by their paths in the new
            schema: ``{"label": "map(cat=0, dog=1)", "enc.w": "cast", "points[].x": lambda x: 2 * x}``. Names are
            those of ``holdall schema migrate --help``, and ``|`` chains them. A function takes the
            value as Python has JSON, or the tensor as an array, and returns the new one.
        drop: Whether members and tensors that the new schema does not have are left out.
        formats, keywords: Your own, as :func:`check` takes them; new records that break them are refused.
        overwrite: Whether an existing file is replaced.

    Raises:
        UsageError: something would be left out (``evolve/drops-member``), a value does not follow from the old one
            (``evolve/no-converter``), or does not fit the new schema (``evolve/value``).
        Whatever a converter raises.
    """
    writing = _writing(format, version, None, encoding, level, digest, None, overwrite, sync, threads)
    with _opened(source) as file, listening(progress) as listener:
        own = _own(formats, keywords)
        how = evolution(file, path, rename, converters, drop)
        found = _holdall.schema_migrate(file._native, _schema(schema), os.fspath(target), how, own, writing, listener)
    return MigrationReport(
        found["records"], found["tensors"], tuple(found["dropped"]), found["nbytes"], tuple(found["left_behind"])
    )
