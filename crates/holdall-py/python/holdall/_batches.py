"""Batches of records for training: shuffled from a seed, split between ranks, resumable."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _holdall
from ._file import File
from ._file import open as _open
from ._kinds import Form, ndarray
from ._records import Ragged, Records, Selection, bits
from .errors import MissingNameError, UsageError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Batches", "Gather"]

#: A function that returns writable memory for a number of bytes, as an array of them.
Room = Callable[[int], "np.ndarray[Any, Any]"]

#: Sources of records: a path, an open file, or a selection of records.
Source = str | os.PathLike[str] | File | Records | Selection


class Gather:
    """Records of one or many files, numbered consecutively, of which any can be read by number, as columns.

    It is pickled by the paths of its files, which are opened at the first read.
    """

    def __init__(
        self, sources: Source | Sequence[Source], columns: Sequence[str] | None = None, path: str | None = None
    ) -> None:
        one = isinstance(sources, (str, os.PathLike, File, Records, Selection))
        self._sources: list[Any] = [sources] if one else list(sources)  # type: ignore[arg-type]
        if not self._sources:
            raise UsageError("no source to read batches from", code="python/option", kind="misuse")
        self._path = path
        self._columns = None if columns is None else list(columns)
        self._open: list[tuple[Records, Any]] | None = None
        self._starts: list[int] = []
        #: The columns of each source.
        self._members: list[list[Member]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None, "_starts": [], "_members": []}

    def parts(self) -> list[tuple[Records, Any]]:
        """Returns the records of each source, with the positions of the selected ones."""
        if self._open is None:
            self._open = [self._part(source) for source in self._sources]
            self._starts = [0]
            for _, positions in self._open:
                self._starts.append(self._starts[-1] + len(positions))
            self._check()
        return self._open

    def _part(self, source: Any) -> tuple[Records, Any]:
        if isinstance(source, Selection):
            return source._records, source._positions
        if isinstance(source, Records):
            return source._whole(), source._range
        file = source if isinstance(source, File) else _open(source)
        datasets = [t for t in map(file.__getitem__, file) if t.layout == "records"]
        if self._path is not None:
            datasets = [file[self._path]]
        if len(datasets) != 1:
            names = ", ".join(f"`{t.name}`" for t in datasets[:4]) or "none"
            raise MissingNameError(
                f"{file.name}: expected one dataset, found {names}",
                code="records/which-dataset",
                kind="not_found",
                hint="path= names it",
            )
        found = datasets[0].records()
        return found, found._range

    def _check(self) -> None:
        """Looks up the columns of all sources, and checks that each has the same type in all."""
        assert self._open is not None
        first = self._open[0][0]
        if self._columns is None:
            self._columns = [path for path in first.columns] or [""]
        for records, _ in self._open:
            for path in self._columns:
                at, other = records._find(path)[0], first._find(path)[0]
                if records._types.describe(at) != first._types.describe(other):
                    found, wanted = records._types.describe(at), first._types.describe(other)
                    raise UsageError(
                        f"{records.tensor.file.name}: `{path}` is {found}, and in the first file {wanted}",
                        code="python/column",
                        kind="misuse",
                    )
        self._members = [members(records, self._columns) for records, _ in self._open]

    def fill_cache(self, part: int, parts: int) -> None:
        """Starts to read all records into a cache, if they are on a disk or far away: see `Records::fill_cache`."""
        for records, _ in self.parts():
            records._native.fill_cache(part, parts)

    def __len__(self) -> int:
        self.parts()
        return self._starts[-1]

    @property
    def columns(self) -> list[str]:
        """The paths of the columns."""
        self.parts()
        assert self._columns is not None
        return self._columns

    def read(self, numbers: np.ndarray[Any, Any], room: Room | None = None) -> dict[str, Any]:
        """Reads the columns of the records with these numbers, in this order; of one source, columns of fixed size into
        memory that ``room`` returns."""
        import numpy as np

        parts = self.parts()
        if len(parts) == 1:
            records, positions = parts[0]
            return _columns(records, positions, numbers, self._members[0], room or new_memory)
        of = np.searchsorted(self._starts, numbers, "right") - 1
        order = np.argsort(of, kind="stable")
        back = np.argsort(order, kind="stable")
        found = []
        for part in np.unique(of):
            mine = numbers[order][of[order] == part] - self._starts[part]
            records, positions = parts[part]
            found.append(_columns(records, positions, mine, self._members[part], new_memory))
        return {path: _joined([each[path] for each in found], back) for path in self.columns} if found else {}

    def one(self, number: int) -> dict[str, Any]:
        """Reads one record, as ``r[i]`` returns it."""
        parts = self.parts()
        if not -len(self) <= number < len(self):
            raise IndexError(f"record {number} of {len(self)}")
        number %= len(self)
        part = bisect_right(self._starts, number) - 1
        records, positions = parts[part]
        found: dict[str, Any] = records[int(positions[number - self._starts[part]])]
        return found


class Member(NamedTuple):
    """A column to be read, as :func:`members` describes it."""

    path: str
    #: The index of its type, its offset in a record in bytes, and whether every record has it.
    at: int
    offset: int
    always: bool
    kind: str
    #: The memory layout of a value, if it has a fixed size, and the number of bytes that are copied of each record.
    form: Form | None
    width: int
    #: The index of the type of its elements, and their layout, if it is an array of any length of such.
    items: int
    inner: Form | None


def members(records: Records, paths: Sequence[str]) -> list[Member]:
    """Looks up columns, once for all batches."""
    types = records._types
    out = []
    for path in paths:
        at, offset, always = records._find(path)
        row = types.rows[at]
        form = types.form(at) if row.kind in ("scalar", "enum", "array", "tensor") else None
        items = row.more[0] if row.kind == "array" and row.more[1] is None else -1
        inner = None if items < 0 or types.rows[items].heap else types.form(items)
        out.append(Member(path, at, offset, always, row.kind, form, row.size, items, inner))
    return out


def _columns(
    records: Records, positions: Any, numbers: np.ndarray[Any, Any], wanted: Sequence[Member], room: Room
) -> dict[str, Any]:
    import numpy as np

    if not isinstance(positions, range):
        numbers = positions[numbers]
    elif positions.step != 1 or positions.start != 0:
        numbers = numbers * positions.step + positions.start
    picked, count = np.ascontiguousarray(numbers, "<i8"), len(numbers)
    native, types = records._native, records._types
    fixed: dict[str, Any] = {}
    runs = []
    for member in wanted:
        if member.form is not None:
            fixed[member.path] = memory = room(count * member.width)
            runs.append((member.offset, member.width, memory))
    if runs:
        native.copy_bytes(picked, runs)
    out: dict[str, Any] = {}
    for path, at, _, always, kind, form, width, items, inner in wanted:
        there = None if always else bits(native.presence(path, picked), count)
        if form is not None:
            found = ndarray((count, *form.shape), form.dtype, fixed[path], 0, (width, *form.strides))
            _check(records, at, path, found, there, picked)
            out[path] = found if there is None else np.ma.MaskedArray(found, np.broadcast_to(_like(~there, found), found.shape))
        elif kind in ("string", "bytes"):
            data, offsets = _runs(native, path, picked)
            values: list[Any] = [bytes(data[a:b]) for a, b in zip(offsets, offsets[1:])]
            if kind == "string":
                values = [value.decode() for value in values]
            out[path] = values if there is None else [v if is_there else None for v, is_there in zip(values, there)]
        elif inner is not None:
            data, offsets = _runs(native, path, picked)
            of = types.rows[items]
            shape, strides = (int(offsets[-1]), *inner.shape), (of.stride, *inner.strides)
            flat = ndarray(shape, inner.dtype, data, 0, strides).copy()
            _check(records, items, path, flat, None, picked, offsets)
            out[path] = Ragged(flat, offsets)
        else:
            out[path] = native.values(picked, path, types)
    return out


def new_memory(nbytes: int) -> np.ndarray[Any, Any]:
    """Returns writable bytes."""
    import numpy as np

    return np.empty(nbytes, np.uint8)


def _runs(native: _holdall.Records, path: str, positions: np.ndarray[Any, Any]) -> tuple[Any, np.ndarray[Any, Any]]:
    import numpy as np

    data, offset_bytes = native.ragged(path, positions)
    memory: Any = offset_bytes
    return memoryview(data), np.frombuffer(memory, "<i8").astype(np.int64)  # type: ignore[arg-type]


def _check(
    records: Records, at: int, path: str, found: Any, there: Any, positions: np.ndarray[Any, Any], offsets: Any = None
) -> None:
    """Raises for bytes that are not booleans, or integers that are not values of their enum."""
    bad = records._types.odd(at, found)
    if bad is None:
        return
    for number in sorted(set(bad.nonzero()[0].tolist())):
        row = number if offsets is None else int(offsets.searchsorted(number, "right")) - 1
        if there is None or there[row]:
            place = int(positions[row])
            records._native.values((place, place + 1), path, records._types)
        else:
            found[number] = 0


def _like(mask: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return mask.reshape(-1, *[1] * (found.ndim - 1))


def _joined(parts: list[Any], order: np.ndarray[Any, Any]) -> Any:
    """Concatenates columns and reorders them."""
    import numpy as np

    if isinstance(parts[0], list):
        every = [value for part in parts for value in part]
        return [every[at] for at in order.tolist()]
    if isinstance(parts[0], Ragged):
        rows = [part.row(at) for part in parts for at in range(len(part.offsets) - 1)]
        chosen = [rows[at] for at in order.tolist()]
        values = np.concatenate(chosen) if chosen else parts[0].values[:0]
        return Ragged(values, np.cumsum([0, *map(len, chosen)], dtype=np.int64))
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        masks = np.concatenate([np.ma.getmaskarray(part) for part in parts])
        return np.ma.MaskedArray(np.concatenate([np.ma.getdata(part) for part in parts]), masks)[order]
    return np.concatenate(parts)[order]


class Batches:
    """Batches of records, each a dict of columns::

        for batch in holdall.Batches(["a.mt", "b.mt"], ["image", "label"], batch=256, shuffle=7):
            step(batch["image"], batch["label"])

    A column is what ``r.column(path)`` returns for numbers, times, enums (as integers) and fixed arrays, :class:`Ragged` for arrays
    of any length, and a list for text, bytes and the rest; optional members are masked, or have ``None``.

    The order depends only on ``shuffle``, ``epoch`` and the number of records, on every machine: batch ``n`` of the epoch goes to
    rank ``n % ranks``. The order takes no memory. :meth:`state_dict` returns the position; after :meth:`load_state_dict` iteration
    continues from there. Batches are pickled by the paths of their files.

    Args:
        sources: Paths, open files or selected records (``r.where(…)``): one, or several with the same columns.
        columns: Paths of the columns; by default all.
        batch: The number of records in a batch.
        path: The dataset, if a file has several.
        shuffle: The seed of the order; by default records keep the order of the files.
        epoch: Selects one of the orders of that seed; :meth:`set_epoch` changes it.
        rank, ranks: The number of this process, from 0, and the number of processes that share the batches.
        drop_last: Whether to leave out the last batch if it is smaller, and batches that would give some ranks more
            than others.

    Raises:
        NotFoundError: a file, dataset or column does not exist. UsageError: the files have different columns.
    """

    def __init__(
        self,
        sources: Source | Sequence[Source],
        columns: Sequence[str] | None = None,
        *,
        batch: int,
        path: str | None = None,
        shuffle: int | None = None,
        epoch: int = 0,
        rank: int = 0,
        ranks: int = 1,
        drop_last: bool = False,
    ) -> None:
        if batch < 1:
            raise UsageError("batch must be at least 1", code="python/option", kind="misuse")
        if not 0 <= rank < ranks:
            raise UsageError(f"rank {rank} is out of range for {ranks} ranks", code="python/option", kind="misuse")
        self._gather = Gather(sources, columns, path)
        self._batch, self._shuffle, self._drop_last = batch, shuffle, bool(drop_last)
        self._epoch, self._rank, self._ranks = int(epoch), rank, ranks
        #: The number of batches of this rank before the current position, and the number that this process has
        #: yielded since.
        self._first, self._given = 0, 0

    def __len__(self) -> int:
        """Returns the number of batches of this rank."""
        records = len(self._gather)
        if self._drop_last:
            return records // self._batch // self._ranks
        every = -(-records // self._batch)
        return max(0, -(-(every - self._rank) // self._ranks))

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch, which has the same records in another order."""
        self._epoch, self._first, self._given = int(epoch), 0, 0

    def state_dict(self) -> dict[str, int]:
        """Returns the position, for :meth:`load_state_dict`."""
        return {"epoch": self._epoch, "first": self._first, "given": self._given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continues from that position at the next iteration."""
        self._epoch, self._first, self._given = int(state["epoch"]), int(state["first"]), int(state["given"])

    def skip(self, batches: int) -> None:
        """Skips the first batches of this rank."""
        self._first, self._given = int(batches), 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._share(0, 1)

    def _share(self, worker: int, workers: int, room: Room | None = None) -> Iterator[dict[str, Any]]:
        """Yields the batches of one worker of the rank, from where it stopped to the end; the next iteration
        starts over."""
        count = len(self)
        fill_cache(self, worker, workers)
        orders: dict[int, np.ndarray[Any, Any]] = {}
        epoch = self._epoch
        while (at := self._first + self._given * workers + worker) < count:
            if at not in orders or epoch != self._epoch:
                epoch = self._epoch
                orders = self._orders(range(at, min(count, at + workers * self._ahead()), workers))
            self._given += 1
            yield self._gather.read(orders.pop(at), room)
        self._first, self._given = 0, 0

    def _ahead(self) -> int:
        """Returns the number of batches of which the order is computed at a time."""
        return max(1, _NUMBERS // self._batch)

    def read(self, at: int) -> dict[str, Any]:
        """Reads the batch of this rank with that number."""
        if not 0 <= at < len(self):
            raise IndexError(f"batch {at} of {len(self)}")
        return self._gather.read(self._orders(range(at, at + 1))[at])

    def _read_together(self, batches: range, epoch: int, room: Room) -> tuple[dict[str, Any], list[int]]:
        """Reads consecutive batches of this rank with one call: the columns of all of their records, and the number of
        records of each."""
        numbers = self._numbers(batches, epoch)
        size = self._batch
        sizes = [len(numbers[first : first + size]) for first in range(0, len(numbers), size)]
        return self._gather.read(numbers, room), sizes

    def _orders(self, batches: range) -> dict[int, np.ndarray[Any, Any]]:
        """Returns the numbers of the records of batches of this rank."""
        numbers, size = self._numbers(batches, self._epoch), self._batch
        return {at: numbers[first : first + size] for at, first in zip(batches, range(0, len(numbers), size))}

    def _numbers(self, batches: range, epoch: int) -> np.ndarray[Any, Any]:
        """Returns the numbers of the records of batches of this rank, one batch after the other."""
        import numpy as np

        records, size = len(self._gather), self._batch
        starts = (np.array(batches, np.int64) * self._ranks + self._rank) * size
        numbers = (starts[:, None] + np.arange(size, dtype=np.int64)).reshape(-1)
        # The last batch may be smaller.
        numbers = numbers[: len(numbers) - max(0, int(starts[-1]) + size - records)]
        return numbers if self._shuffle is None else shuffled(numbers, records, self._shuffle, epoch)


def fill_cache(batches: Batches, worker: int = 0, workers: int = 1) -> None:
    """Starts to read all records into a cache, if this rank is about to read many of them in random order."""
    if batches._shuffle is not None and batches._ranks <= _MAX_RANKS:
        batches._gather.fill_cache(worker, workers)


#: The number of records of which the order is computed at a time.
_NUMBERS = 16384
#: With more ranks than this, each reads so few of the records that it does not read all of them into a cache.
_MAX_RANKS = 4


#: Rounds of the Feistel network.
_ROUNDS = 6


def shuffled(numbers: np.ndarray[Any, Any], count: int, seed: int, epoch: int) -> np.ndarray[Any, Any]:
    """Returns the positions of these numbers, out of ``count``, in a pseudorandom order: a permutation that a
    Feistel network computes number by number. Results that are too large are permuted again until they are in
    range."""
    import numpy as np

    keys = [_mixed((_mixed(seed) ^ _mixed(epoch + (1 << 32))) + at) for at in range(_ROUNDS)]
    out = numbers.astype(np.uint64)
    _holdall.shuffle_numbers(out, count, keys)
    return out.view(np.int64)


def _mixed(n: int) -> int:
    """Returns a 64-bit hash of ``n``."""
    most = (1 << 64) - 1
    n = (n + 0x9E3779B97F4A7C15) & most
    n = ((n ^ (n >> 30)) * 0xBF58476D1CE4E5B9) & most
    n = ((n ^ (n >> 27)) * 0x94D049BB133111EB) & most
    return n ^ (n >> 31)
