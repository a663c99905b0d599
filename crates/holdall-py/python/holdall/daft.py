"""Records, tensors and verdicts of many files as data frames of Daft: read by Daft's workers, one task per file.

::

    import holdall.daft

    frame = holdall.daft.records("data/*.mt", where=["stars>=4"])
    frame.select("id", "caption").limit(10).show()
    print(holdall.daft.verify("models/**/*.safetensors").where("verdict != 'sound'").collect())
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _engines
from ._arrow import pyarrow
from ._engines import Paths
from ._packages import package

if TYPE_CHECKING:
    import pyarrow as pa

package("daft")

from daft import DataFrame  # noqa: E402
from daft.io.pushdowns import Pushdowns  # noqa: E402
from daft.io.source import DataSource, DataSourceTask  # noqa: E402
from daft.recordbatch import RecordBatch  # noqa: E402
from daft.schema import Schema  # noqa: E402

__all__ = ["records", "tensors", "verify"]


def __dir__() -> list[str]:
    return sorted(__all__)


def records(
    paths: Paths, dataset: str | None = None, *, where: Iterable[str] = (), **how: Any
) -> DataFrame:
    """Returns the records of all files as one data frame. Members that a query does not use are not read, nor records
    beyond its limit.

    Args:
        paths: Paths, addresses, and patterns of paths (``**`` for any depth). All files must have the schema of the
            first.
        dataset: The name of the dataset, if a file has several.
        where: Conditions, as for :meth:`holdall.Records.where`, which are applied while reading. Daft's own filters
            are applied afterwards.
        how: Arguments of :func:`holdall.open`, such as ``storage_options``.
    """
    found, conditions = _engines.files(paths), list(where)

    def read(path: str, columns: Sequence[str], limit: int | None) -> Iterator[pa.RecordBatch]:
        return _engines.batches(path, dataset, columns, conditions, limit, how)

    return _Files("holdall.records", found, _engines.schema(found[0], dataset, how), read).read()


def tensors(paths: Paths, **how: Any) -> DataFrame:
    """Returns a row for each tensor of all files: path, name, dtype, shape, layout, stored bytes, their offsets,
    and their digest."""
    return _rows("holdall.tensors", paths, _engines.TENSORS, lambda path: _engines.tensors(path, how))


def verify(paths: Paths, **how: Any) -> DataFrame:
    """Returns a row for each file: path, verdict, code and text of the first error, format, and the numbers of
    tensors, bytes and findings. The verdict of a file that cannot be read is ``"unread"``."""
    return _rows("holdall.verify", paths, _engines.VERDICTS, lambda path: [_engines.verdict(path, how)])


def _rows(
    name: str, paths: Paths, columns: Sequence[tuple[str, str]], of: Callable[[str], list[dict[str, Any]]]
) -> DataFrame:
    schema = _engines.arrow_schema(columns)

    def read(path: str, columns: Sequence[str], limit: int | None) -> Iterator[pa.RecordBatch]:
        rows = pyarrow().RecordBatch.from_pylist(of(path)[:limit], schema=schema)
        yield rows.select(list(columns)) if columns else rows

    return _Files(name, _engines.files(paths), schema, read).read()


class _Files(DataSource):  # type: ignore[misc]
    """A data source of files that are all read by the same function."""

    def __init__(self, name: str, paths: list[str], schema: pa.Schema, read: Any) -> None:
        self._name, self._paths, self._arrow, self._read = name, paths, schema, read
        self._schema = Schema.from_pyarrow_schema(schema)

    @property
    def name(self) -> str:
        return self._name

    @property
    def schema(self) -> Schema:
        return self._schema

    async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[DataSourceTask]:
        columns = None
        if pushdowns.columns is not None:
            wanted = set(pushdowns.columns) | pushdowns.filter_required_column_names()
            columns = [field.name for field in self._arrow if field.name in wanted]
            # A row without columns still counts as a row.
            columns = columns or [self._arrow.field(0).name]
        limit = pushdowns.limit if pushdowns.filters is None else None
        arrow = self._arrow
        if columns is not None:
            arrow = pyarrow().schema([arrow.field(name) for name in columns])
        for path in self._paths:
            yield _File(path, Schema.from_pyarrow_schema(arrow), columns or (), limit, self._read)


class _File(DataSourceTask):  # type: ignore[misc]
    """The task for one file."""

    def __init__(self, path: str, schema: Schema, columns: Sequence[str], limit: int | None, read: Any) -> None:
        self._path, self._schema, self._columns, self._limit, self._read = path, schema, columns, limit, read

    @property
    def schema(self) -> Schema:
        return self._schema

    async def read(self) -> AsyncIterator[RecordBatch]:
        for batch in self._read(self._path, self._columns, self._limit):
            yield RecordBatch.from_arrow_record_batches([batch], batch.schema)
