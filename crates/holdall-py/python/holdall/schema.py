"""Schemas of records: infer, lay out, check and compare them, and migrate files to them.

A schema is given as a mapping (its JSON), the path of a JSON file, or a tensor file: its own schema, or the one of
its tensors.

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
from ._rows import Form, Path, Rows, Schema, rows_to_infer, filling, lines
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
    """A path of a schema or a file, with its type and the location of its bytes."""

    path: str
    #: The type, in short: ``"Int32"``, ``"F32 [20, 5]"``, ``"String []"``.
    kind: str
    #: The start that the offset counts from: that of a ``"record"``, or of an element in the ``"heap"``; paths in the
    #: ``"header"`` of a file have no offset.
    base: str
    #: The offset in bytes.
    offset: int | None
    #: Size of one value, and distance between consecutive values, in bytes.
    size: int | None
    stride: int | None
    align: int | None
    #: Whether the value may be absent.
    optional: bool
    #: The byte and the bit in it that is 1 if a record has this optional member.
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
    #: The kind of the change: ``"added"``, ``"removed"``, ``"kind"``, …
    change: str
    #: The consequence for old files: ``"compatible"``, ``"needs-default"``, ``"needs-converter"`` or ``"breaking"``.
    verdict: str
    old: str | None
    new: str | None
    #: The values of an enum, if those changed.
    values: tuple[str, ...]


@dataclass(frozen=True)
class SchemaDiff:
    """The changes between two schemas; true if they differ."""

    changes: tuple[Change, ...]
    #: The version step: ``"patch"``, ``"minor"`` or ``"major"``.
    bump: str

    @property
    def compatible(self) -> bool:
        """Whether the new schema can read old files as they are."""
        return all(change.verdict == "compatible" for change in self.changes)

    def __bool__(self) -> bool:
        return bool(self.changes)


class Finding(NamedTuple):
    """A mismatch with a schema."""

    #: The line of a text, from 1, or the index of a record of a dataset, from 0.
    line: int | None
    record: int | None
    #: The error message.
    error: HoldallError


@dataclass(frozen=True)
class CheckReport:
    """The result of a check; true if everything fits."""

    #: The number of tensors of a file that were compared with the schema, and of records that were checked.
    tensors: int | None
    records: int
    #: The number of mismatches, and the first 1000 of them.
    finding_count: int
    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return self.finding_count == 0

    def raise_if_bad(self) -> None:
        """Raises the first finding, if any."""
        for finding in self.findings:
            raise finding.error


@dataclass(frozen=True)
class MigrationReport:
    """The result of a migration."""

    #: The number of records that were written under the new schema.
    records: int
    #: The number of tensors, datasets and blobs in the file that was written.
    tensors: int
    #: Members and tensors that were left out, as paths of the source file.
    dropped: tuple[str, ...]
    #: The size of the file that was written, in bytes.
    nbytes: int
    #: Other parts of the source that the new file lacks: parts that this version does not know, or that its format
    #: cannot hold.
    left_behind: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanStep:
    """A step of a migration: the handling of one tensor, or of one member of records."""

    #: The operation: ``"renamed"``, ``"widened"``, ``"converted"``, ``"default"``, ``"absent"`` or ``"dropped"``.
    step: str
    #: The path in the old file, and in the new one; ``None`` if the file does not have it.
    source: str | None
    target: str | None
    #: The type before and after, in short: ``"F32 [2, 3]"``.
    old: str | None
    new: str | None
    #: The converter that is applied.
    by: str | None
    #: Whether numbers are rounded: to nearest, ties to even.
    rounds: bool


@dataclass(frozen=True)
class MigrationPlan:
    """The steps of a migration."""

    #: The steps for tensors and members that do not stay as they are.
    steps: tuple[PlanStep, ...]
    #: The number of records that would be written under the new schema.
    records: int
    #: The number of tensors, datasets and blobs in the new file, and of those that stay as they are.
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
    """Infers the schema of a record from records, or the schema of a file from its tensors.

    Integers become Int64 (Uint64 if they exceed it), other numbers Float64, text String, dates and times Timestamp,
    bytes Bytes, decimal numbers and UUIDs String (their text), arrays of numbers that always have the same length
    fixed arrays, and members that are missing or ``None`` in any record optional.

    Args:
        source: A file of records (NDJSON, JSON, CSV, TSV), records as mappings, a mapping of their columns, a
            structured NumPy array, a Parquet or Arrow file or an Arrow table (whose types determine everything but which members may be absent), a tensor file, or an open file.
        form: The format of the records file; by default its extension decides.
        tight: Whether to use the narrowest numbers that hold every value seen, and times if every string is a valid
            time.
        enums: Strings with at most this many different values become an enum.
        first: The number of records to read; by default all.
        file_members: Members whose text names files, which :func:`holdall.build` reads: they become bytes.

    Raises:
        UnsupportedError: a member has values of two types (``infer/mixed``).
        MalformedError: the text is not JSON. UsageError: the columns of a table do not fit together.
    """
    found = table(source)
    if found is not None:
        return schema_of(found)
    given = ("file", source._native) if isinstance(source, File) else rows_to_infer(source)
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
    """Returns every path of a schema, or of a file and the records in it, with its type and the location of its
    bytes.

    Args:
        source: A schema, or a tensor file.
        path: Returns only this path and those below it: ``"points[].at"``. With an index, offsets are those of that
            element.
        symbols: Numbers for symbols in shapes.
        reading: Whether a schema is that of one record or of the tensors of a file; by default its root decides.

    Raises:
        MissingNameError: the path does not exist, or the schema has no such symbol.
        MalformedError: the schema is not valid.
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
    """Checks whether a schema is valid, and whether records, or a tensor file and the records in it, fit it. Every
    record is checked against all keywords of the schema, and so is every ``default`` in the schema itself.

    Args:
        records: A file of records, records as mappings, a tensor file, or an open file; by default only the schema is
            checked.
        path: The dataset of the schema, or of the file, that the records belong to.
        form: The format of the records file; by default its extension decides.
        ignore_unknown: Whether members that the schema does not have are ignored.
        null_absent: Whether ``None`` for an optional member is accepted.
        files, file_members: The folder that file names are relative to, and the members that hold such names: the
            bytes or text of the files are checked.
        formats: Custom values of ``format``: functions that return whether a string has that format. The standard
            formats are not checked.
        keywords: Custom keywords: functions of the keyword's value in the schema and of a value. Exceptions in a
            function are propagated.
    """
    given = None
    if records is not None:
        given = ("file", records._native) if isinstance(records, File) else lines(records)
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
    """Generates code for the records of a schema: ``#[repr(C)]`` structs in Rust, the dtype of ``records.dtype`` with
    comments on how the other members are read, TypeScript types for the records' JSON, or WGSL functions that read
    members from a buffer of records.

    Args:
        schema: The schema of a record, or of a file with a dataset: a mapping, a JSON file, or a tensor file.
        path: The dataset, if there are several.
        name: The name of the type of a record; types inside are named after it and their members.

    Raises:
        UnsupportedError: the record is text, a union or another kind without a fixed layout (``schema/no-equivalent-type``).
    """
    return _holdall.schema_code(_schema(schema), lang, path, name)


def header(source: Schema) -> dict[str, Any]:
    """Returns the JSON Schema, draft 2020-12, with which plain validators can check the ``tensors`` of a header: it
    has references where the schema describes datasets, blobs and tensors, and only standard keywords. Metatensor
    files that need it contain it as ``header_schema``; this function is for files without it, and for headers that
    are not written yet.

    Args:
        source: The schema of a file: a mapping, a JSON file, or a tensor file.

    Raises:
        UsageError: the schema describes a record, which has no header (``records/which-dataset``).
        MalformedError: the schema is not valid.
    """
    made: dict[str, Any] = json.loads(_holdall.schema_header(_schema(source)))
    return made


def _own(
    formats: Mapping[str, Callable[[str], Any]] | None, keywords: Mapping[str, Callable[[Any, Any], Any]] | None
) -> dict[str, list[tuple[str, Callable[..., Any]]]]:
    """Converts custom formats and keywords for the native half."""
    asked = [(name, _of_json(check)) for name, check in (keywords or {}).items()]
    return {"formats": list((formats or {}).items()), "keywords": asked}


def _of_json(check: Callable[[Any, Any], Any]) -> Callable[[str, str], Any]:
    """Wraps a function of values as a function of their JSON texts."""
    return lambda own, value: check(json.loads(own), json.loads(value))


def diff(old: Schema, new: Schema, *, path: str | None = None) -> SchemaDiff:
    """Compares two schemas: returns the changes and their consequences for old files. The schema of a record is
    compared with the records of the other side.

    Args:
        path: Compares the records of this dataset, if a side is a file or the schema of one.
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
    """Returns the steps that :func:`migrate` would take, for each tensor and member. Nothing is written, and no
    function is called.

    Args:
        source, schema, path, rename, converters, drop: As for :func:`migrate`.

    Raises:
        Everything that :func:`migrate` raises, except errors that depend on the values in the file.
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

    Numbers are widened, members and tensors are matched by name, and new ones take their default or are absent.
    Memory use does not depend on the size of the file.

    Args:
        source: A source for :func:`holdall.open`, or an open file.
        schema: The new schema: of a record, or of the whole file.
        target: The file to write.
        path: The dataset that a record's schema is for; by default the only one.
        rename: A mapping of new names to old names of members: ``{"caption": "text"}``; under the schema of a whole
            file also of tensors.
        converters: Converters for members and tensors that do not follow from the old ones, by their paths in the new
            schema: ``{"label": "map(cat=0, dog=1)", "enc.w": "cast", "points[].x": lambda x: 2 * x}``. The built-in
            converters are listed by ``holdall schema migrate --help``, and ``|`` chains them. A function takes the
            value as JSON in Python, or the tensor as an array, and returns the new one.
        drop: Whether members and tensors that the new schema does not have are left out.
        formats, keywords: Custom formats and keywords, as for :func:`check`; new records that violate them are
            refused.
        overwrite: Whether an existing file is replaced.

    Raises:
        UsageError: something would be left out (``evolve/drops-member``), a value does not follow from the old one
            (``evolve/no-converter``), or does not fit the new schema (``evolve/value``).
        Exceptions of converters are propagated.
    """
    writing = _writing(format, version, None, encoding, level, digest, None, overwrite, sync, threads)
    with _opened(source) as file, listening(progress) as listener:
        own = _own(formats, keywords)
        how = evolution(file, path, rename, converters, drop)
        found = _holdall.schema_migrate(file._native, _schema(schema), os.fspath(target), how, own, writing, listener)
    return MigrationReport(
        found["records"], found["tensors"], tuple(found["dropped"]), found["nbytes"], tuple(found["left_behind"])
    )
