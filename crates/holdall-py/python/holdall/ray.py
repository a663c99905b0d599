"""Records, tensors and verdicts of many files as data sets of Ray: read by Ray's workers, one task per file.

::

    import holdall.ray

    data = holdall.ray.records("data/*.mt", columns=["id", "stars"], where=["stars>=4"])
    bad = holdall.ray.verify("models/**/*.safetensors").filter(lambda row: row["verdict"] != "sound")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from . import _engines
from ._arrow import pyarrow
from ._engines import Paths
from ._packages import package

if TYPE_CHECKING:
    import pyarrow as pa

package("ray.data", "ray[data]")

import ray.data  # noqa: E402
from ray.data import Dataset, Datasource, ReadTask  # noqa: E402
from ray.data.block import BlockMetadata  # noqa: E402

__all__ = ["records", "tensors", "verify"]


def __dir__() -> list[str]:
    return sorted(__all__)


def records(
    paths: Paths,
    dataset: str | None = None,
    *,
    columns: Iterable[str] = (),
    where: Iterable[str] = (),
    **how: Any,
) -> Dataset:
    """Returns the records of all files as one data set.

    Args:
        paths: Paths, addresses, and patterns of paths (``**`` for any depth).
        dataset: The name of the dataset, if a file has several.
        columns: The members to read, at any depth; by default all.
        where: Conditions, as for :meth:`holdall.Records.where`, which are applied while reading.
        how: Arguments of :func:`holdall.open`, such as ``storage_options``.
    """
    read = partial(_records, dataset=dataset, columns=list(columns), where=list(where), how=how)
    return ray.data.read_datasource(_Files("Records", _engines.files(paths), read))


def tensors(paths: Paths, **how: Any) -> Dataset:
    """Returns a row for each tensor of all files: path, name, dtype, shape, layout, stored bytes, their offsets,
    and their digest."""
    read = partial(_rows, of=_engines.tensors, columns=_engines.TENSORS, how=how)
    return ray.data.read_datasource(_Files("Tensors", _engines.files(paths), read))


def verify(paths: Paths, **how: Any) -> Dataset:
    """Returns a row for each file: path, verdict, code and text of the first error, format, and the numbers of
    tensors, bytes and findings. The verdict of a file that cannot be read is ``"unread"``."""
    read = partial(_rows, of=_verdicts, columns=_engines.VERDICTS, how=how)
    return ray.data.read_datasource(_Files("Verdicts", _engines.files(paths), read))


def _verdicts(path: str, how: Any) -> list[dict[str, Any]]:
    return [_engines.verdict(path, how)]


def _records(path: str, dataset: str | None, columns: list[str], where: list[str], how: Any) -> Iterable[pa.Table]:
    for batch in _engines.batches(path, dataset, columns, where, None, how):
        yield pyarrow().Table.from_batches([batch])


def _rows(path: str, of: Any, columns: Sequence[tuple[str, str]], how: Any) -> Iterable[pa.Table]:
    yield pyarrow().Table.from_pylist(of(path, how), schema=_engines.arrow_schema(columns))


class _Files(Datasource):  # type: ignore[misc]
    """A data source of files that are all read by the same function, one task per file."""

    def __init__(self, name: str, paths: list[str], read: Callable[[str], Iterable[pa.Table]]) -> None:
        super().__init__()
        self._name, self._paths, self._read = name, paths, read

    def get_name(self) -> str:
        return f"Holdall{self._name}"

    def estimate_inmemory_data_size(self) -> int | None:
        here = [os.path.getsize(path) for path in self._paths if os.path.isfile(path)]
        return sum(here) if len(here) == len(self._paths) else None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        def task(path: str) -> ReadTask:
            size = os.path.getsize(path) if os.path.isfile(path) else None
            metadata = BlockMetadata(num_rows=None, size_bytes=size, exec_stats=None, input_files=(path,))
            return ReadTask(partial(self._read, path), metadata, per_task_row_limit=per_task_row_limit)

        return [task(path) for path in self._paths]
