"""Batches for torch that threads read ahead, several with one call, in the process that trains."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

from ._batches import Batches, fill_cache, new_memory
from ._records import Ragged
from ._torch_data import tensors
from .errors import UsageError

__all__ = ["DataLoader"]

#: The number of bytes of records that a thread reads with one call, and the largest number of batches.
_PIECE_BYTES, _MAX_BATCHES = 1 << 20, 64
#: The least number of bytes of a column whose memory is used again: of fewer, the allocator keeps it.
_MIN_REUSED = 1 << 16


class DataLoader:
    """Batches of an :class:`IterableDataset`, which threads read ahead::

        data = holdall.torch.IterableDataset("train.mt", ["image", "label"], batch=256, shuffle=7)
        for batch in holdall.torch.DataLoader(data, num_workers=2):
            step(batch["image"], batch["label"])

    Records are read by native code that does not hold the GIL, so threads read while the caller trains, and no batch is
    sent between processes, which takes longer than to read it. The batches and their order are those of the dataset. A
    ``transform`` of the dataset runs in the threads and holds the GIL: if it takes long, torch's ``DataLoader`` with its
    processes is the better choice.

    A thread reads about 1 MiB of records at a time. The tensors of the batches in it are views of one tensor, so a batch that is kept
    keeps the others, and ``torch.save`` writes them with it: ``clone`` what you keep.

    ``state_dict`` and ``load_state_dict`` are about the batches that the caller has received.

    Args:
        dataset: The batches to read.
        num_workers: The number of threads. With 0, a batch is read when it is asked for.
        prefetch_factor: How many pieces of 1 MiB, or batches if they are larger, each thread reads ahead.
        pin_memory: Whether batches are in pinned memory, for copies to a GPU.

    Raises:
        UsageError: ``dataset`` is of another class, or an argument is out of range.
    """

    def __init__(
        self, dataset: Any, *, num_workers: int = 0, prefetch_factor: int = 2, pin_memory: bool = False
    ) -> None:
        if not hasattr(dataset, "_batches"):
            message = f"expected a holdall.torch.IterableDataset, found {type(dataset).__name__}"
            hint = "torch.utils.data.DataLoader takes other datasets"
            raise UsageError(message, code="python/option", kind="misuse", hint=hint)
        if num_workers < 0 or prefetch_factor < 1:
            message = f"expected num_workers of 0 or more and prefetch_factor of 1 or more, found {num_workers} and {prefetch_factor}"
            raise UsageError(message, code="python/option", kind="misuse")
        self.dataset = dataset
        self.num_workers, self.prefetch_factor, self.pin_memory = num_workers, prefetch_factor, pin_memory

    def __len__(self) -> int:
        return len(self.dataset)

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch: the same records in another order."""
        self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, int]:
        """Returns the position after the batch that was received last."""
        state: dict[str, int] = self.dataset.state_dict()
        return state

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continues from that position."""
        self.dataset.load_state_dict(state)

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers:
            return self._ahead()
        batches = iter(self.dataset)
        return map(_pinned, batches) if self.pin_memory else batches

    def _ahead(self) -> Iterator[Any]:
        """Yields the batches, with the threads ahead of the caller. The order is that of the epoch at the start."""
        batches = self.dataset._batches
        fill_cache(batches)
        count, state = len(batches), batches.state_dict()
        at = state["first"] + state["given"]
        most = _batches_in(batches, _PIECE_BYTES)
        ahead: deque[Future[list[Any]]] = deque()
        pool = ThreadPoolExecutor(self.num_workers, "holdall-batches")
        memory = _Memory(self.num_workers * (self.prefetch_factor + 1))
        size = 1
        try:
            while True:
                while at < count and len(ahead) < self.num_workers * self.prefetch_factor:
                    # The first batch does not wait for many.
                    some = range(at, min(count, at + size))
                    ahead.append(pool.submit(self._read, some, state["epoch"], memory))
                    at, size = some.stop, min(2 * size, most)
                if not ahead:
                    break
                for batch in ahead.popleft().result():
                    if batches.state_dict() == state:
                        state["given"] += 1
                        batches.load_state_dict(state)
                    yield batch
            if batches.state_dict() == state:
                batches.skip(0)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, some: range, epoch: int, memory: _Memory) -> list[Any]:
        """Reads consecutive batches."""
        import torch

        batches, transform = self.dataset._batches, self.dataset._transform
        columns, sizes = batches._read_together(some, epoch, memory.room)
        made = tensors(torch, columns)
        if self.pin_memory:
            made = _pinned(made)
        parts = {path: _parts(column, sizes) for path, column in made.items()}
        found = [dict(zip(parts, each)) for each in zip(*parts.values())]
        return found if transform is None else list(map(transform, found))


class _Memory:
    """Memory of columns, which is used again once all batches in it were dropped: fresh memory is cleared by the system, which
    takes as long as to read the records."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[int, list[Any]] = {}
        self._lock = Lock()

    def room(self, nbytes: int) -> Any:
        """Returns writable memory, as an array of bytes."""
        if nbytes < _MIN_REUSED:
            return new_memory(nbytes)
        with self._lock:
            kept = self._kept.setdefault(nbytes, [])
            for at in range(len(kept)):
                if _references(kept, at) == _UNUSED:
                    return kept[at][:]
            made = new_memory(nbytes)
            # The columns of one read may have the same size.
            if len(kept) < 4 * self._most:
                kept.append(made)
            return made[:]


def _references(kept: list[Any], at: int) -> int:
    """Returns how many references there are to an array; batches refer to the array that they are views of."""
    return sys.getrefcount(kept[at])


#: The references to an array that only the list refers to.
_UNUSED = _references([object()], 0)


def _batches_in(batches: Batches, nbytes: int) -> int:
    """Returns how many batches take about as many bytes, but at least one."""
    stored = count = 0
    for records, _ in batches._gather.parts():
        stored += records.tensor.nbytes
        count += len(records)
    each = max(1, stored * batches._batch // max(1, count))
    return max(1, min(_MAX_BATCHES, nbytes // each))


def _parts(column: Any, sizes: list[int]) -> Any:
    """Splits a column into those of the batches."""
    if len(sizes) == 1:
        return [column]
    if isinstance(column, Ragged):
        return _ragged_parts(column, sizes)
    if hasattr(column, "split"):
        return column.split(sizes)
    out, start = [], 0
    for size in sizes:
        out.append(column[start : start + size])
        start += size
    return out


def _ragged_parts(column: Ragged, sizes: list[int]) -> list[Ragged]:
    out, start = [], 0
    for size in sizes:
        offsets: Any = column.offsets[start : start + size + 1]
        first, end = int(offsets[0]), int(offsets[-1])
        out.append(Ragged(column.values[first:end], offsets - first))
        start += size
    return out


def _pinned(batch: Any) -> Any:
    """Returns a batch in pinned memory, as torch's ``DataLoader`` does."""
    if isinstance(batch, dict):
        return {path: _pinned(column) for path, column in batch.items()}
    if isinstance(batch, Ragged):
        return Ragged(_pinned(batch.values), _pinned(batch.offsets))
    return batch.pin_memory() if hasattr(batch, "pin_memory") else batch
