"""Records for torch's ``DataLoader``: batches as tensors, without a Python object for each record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ._batches import Batches, Gather, Source
from ._records import Ragged
from ._torch_slots import Slots
from .errors import UsageError

__all__ = ["classes", "tensors"]

Transform = Callable[[dict[str, Any]], Any]


def tensors(torch: Any, batch: dict[str, Any]) -> dict[str, Any]:
    """Converts columns to tensors: times as nanoseconds, enums as integers. Absent values are 0, and a mask of the
    present ones has the column's path with ``?`` appended. Text, bytes and other values stay lists."""
    import numpy as np

    out: dict[str, Any] = {}
    for path, values in batch.items():
        if isinstance(values, Ragged):
            out[path] = Ragged(_tensor(torch, values.values), _tensor(torch, values.offsets))
        elif isinstance(values, np.ma.MaskedArray):
            mask, data = np.ma.getmaskarray(values), np.ma.getdata(values).copy()
            data[mask] = np.zeros((), data.dtype)
            out[path] = _tensor(torch, data)
            out[path + "?"] = _tensor(torch, ~mask.reshape(len(mask), -1)[:, 0] if mask.size else np.ones(len(mask), bool))
        else:
            out[path] = _tensor(torch, values) if isinstance(values, np.ndarray) else values
    return out


def _tensor(torch: Any, a: Any) -> Any:
    import numpy as np

    if a.dtype.kind == "M":
        a = a.view(np.int64)
    if not a.dtype.isbuiltin:
        # Types of ml_dtypes are passed as bytes.
        kind = getattr(torch, a.dtype.name, None)
        if kind is None:
            raise UsageError(f"this torch has no {a.dtype.name}", code="python/dtype", kind="misuse")
        words = np.ascontiguousarray(a).view({1: np.uint8, 2: np.int16}[a.dtype.itemsize])
        return torch.from_numpy(words).view(kind)
    if not (a.flags.writeable and a.flags.c_contiguous):
        a = a.copy()
    return torch.from_numpy(a)


def classes(torch: Any, module: str) -> dict[str, Any]:
    """Creates the dataset classes, as members of ``module``."""

    class IterableDataset(torch.utils.data.IterableDataset):  # type: ignore[misc]
        """Batches of records as tensors, for a ``DataLoader`` with ``batch_size=None``::

            data = holdall.torch.IterableDataset("train.mt", ["image", "label"], batch=256, shuffle=7)
            for batch in torch.utils.data.DataLoader(data, batch_size=None, num_workers=4):
                step(batch["image"], batch["label"])

        The arguments and the order are those of :class:`holdall.Batches`; the order is the same for any number of
        workers. If ``rank`` and ``ranks`` are not given, those of ``torch.distributed`` are used if it is
        initialized.

        Each worker has a separate state (``StatefulDataLoader`` of torchdata saves them); :meth:`skip` skips that
        many batches of the rank, independent of the workers.

        Args:
            transform: A function that is applied to each batch, a dict of columns, in the worker.
        """

        def __init__(
            self,
            sources: Source | Sequence[Source],
            columns: Sequence[str] | None = None,
            *,
            rank: int | None = None,
            ranks: int | None = None,
            transform: Transform | None = None,
            **options: Any,
        ) -> None:
            super().__init__()
            if rank is None and ranks is None:
                dist: Any = getattr(torch, "distributed", None)
                runs = dist is not None and dist.is_available() and dist.is_initialized()
                rank, ranks = (dist.get_rank(), dist.get_world_size()) if runs else (0, 1)
            self._batches = Batches(sources, columns, rank=rank or 0, ranks=ranks or 1, **options)
            self._transform = transform
            # The state that persistent workers read: number of changes, epoch, number of batches to skip. The other
            # field is the last change that this process has applied.
            self._shared_state = torch.zeros(3, dtype=torch.int64).share_memory_()
            self._last_change = 0
            #: The memory that this worker lends batches in.
            self._slots: Slots | None = None
            #: The batch at which a worker began, until it has reached the end.
            self._began: dict[str, int] | None = None

        def __len__(self) -> int:
            return len(self._batches)

        def set_epoch(self, epoch: int) -> None:
            """Starts an epoch: the same records in another order."""
            self._batches.set_epoch(epoch)
            self._publish()

        def skip(self, batches: int) -> None:
            """Skips the first batches of this rank."""
            self._batches.skip(batches)
            self._publish()

        def _publish(self) -> None:
            state = self._batches.state_dict()
            self._last_change, self._began = self._last_change + 1, None
            self._shared_state[1], self._shared_state[2], self._shared_state[0] = state["epoch"], state["first"], self._last_change

        def state_dict(self) -> dict[str, int]:
            """Returns the position of this process."""
            return self._batches.state_dict()

        def load_state_dict(self, state: dict[str, int]) -> None:
            """Continues from that position."""
            self._batches.load_state_dict(state)
            self._began = None

        def __iter__(self) -> Iterator[Any]:
            info = torch.utils.data.get_worker_info()
            worker, workers = (info.id, info.num_workers) if info is not None else (0, 1)
            if info is not None:
                self._begin()
            # What a transform returns may have none of the memory of the batch.
            if info is not None and self._transform is None and self._slots is None:
                self._slots = Slots(torch)
            slots = self._slots
            shared = self._batches._share(worker, workers, None if slots is None else slots.room)
            while True:
                if slots is not None:
                    slots.begin()
                batch = next(shared, None)
                if batch is None:
                    break
                made = tensors(torch, batch)
                del batch
                if slots is not None:
                    yield slots.lend(made)
                else:
                    yield made if self._transform is None else self._transform(made)
            self._began = None

        def _begin(self) -> None:
            """Begins in a worker that may have begun before; if iteration ended early, some batches were prepared
            but never consumed."""
            change, epoch, first = (int(n) for n in self._shared_state)
            if change != self._last_change:
                self._last_change = change
                self._batches.set_epoch(epoch)
                self._batches.skip(first)
            elif self._began is not None:
                self._batches.load_state_dict(self._began)
            self._began = self._batches.state_dict()

    class Dataset(torch.utils.data.Dataset):  # type: ignore[misc]
        """Records by number, for a ``DataLoader`` with its own sampler::

            data = holdall.torch.Dataset(["a.mt", "b.mt"], ["image", "label"])
            loader = torch.utils.data.DataLoader(data, batch_size=256, shuffle=True, collate_fn=data.collate)

        Records of a batch are read together, as tensors by column; ``data[7]`` is one record, as ``r[7]`` has it.

        Args:
            sources, columns, path: As for :class:`holdall.Batches`.
        """

        def __init__(
            self, sources: Source | Sequence[Source], columns: Sequence[str] | None = None, path: str | None = None
        ) -> None:
            self._gather = Gather(sources, columns, path)

        def __len__(self) -> int:
            return len(self._gather)

        def __getitem__(self, number: int) -> Any:
            return self._gather.one(number)

        def __getitems__(self, numbers: Sequence[int]) -> dict[str, Any]:
            import numpy as np

            return tensors(torch, self._gather.read(np.array(numbers, np.int64)))

        def collate(self, batch: Any) -> Any:
            """Returns a batch as it was read."""
            return batch

    out = {"Dataset": Dataset, "IterableDataset": IterableDataset}
    for made in out.values():
        made.__module__, made.__qualname__ = module, made.__name__
    return out
