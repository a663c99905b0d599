"""Memory that workers of a ``DataLoader`` share with the process that trains, so that batches are not sent but lent.

A worker has one run of shared memory with a slot for each of a few batches, and sends it once. Afterwards it fills a free slot
and sends its number; the slot is free again when the receiver has dropped all tensors in it. A batch without a free slot is sent
as torch sends all tensors: in shared memory of its own, through a socket, which takes longer than to read the batch.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

__all__ = ["Slots"]

#: The number of slots, and the largest number of bytes of all.
COUNT, MAX_NBYTES = 8, 64 << 20
#: The alignment of a column in bytes.
ALIGN = 64
#: The bytes before the first slot: a byte for each slot, not 0 while its batch is with the receiver.
HEAD = 4096

#: The shared memory that this process has received, by the process and number of its sender.
received_memory: dict[tuple[int, int], Any] = {}
#: The number of shared memories that this process has made.
made = 0


class Lease:
    """A slot in use. Tensors in the slot keep it alive."""

    __slots__ = ("memory", "slot", "start", "nbytes", "is_receiver", "is_sent", "__weakref__")

    def __init__(self, memory: Any, start: int, slot: int, nbytes: int, is_receiver: bool) -> None:
        self.memory, self.slot, self.nbytes, self.is_receiver = memory, slot, nbytes, is_receiver
        #: The address of the memory.
        self.start = start + HEAD + slot * nbytes
        self.is_sent = False

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"data": (self.start, False), "shape": (self.nbytes,), "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        if self.is_receiver:
            self.memory[self.slot] = 0


class Slots:
    """The slots of a worker. :meth:`begin` takes one for the next batch, :meth:`room` its memory."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        #: The shared memory as a tensor, and the same as an array, until and after it was sent.
        self._slab: Any = None
        self._all: Any = None
        self._start = 0
        self._nbytes = 0
        self._leases: list[Any] = []
        self._lease: Lease | None = None
        self._memory: Any = None
        #: The number of bytes of the batch so far.
        self._used = 0
        self._number = 0
        self._is_known = False

    def begin(self) -> None:
        """Takes a free slot, if there is one."""
        self._lease = self._memory = None
        self._used = 0
        for slot, lease in enumerate(self._leases):
            if self._all[slot] == 0 and (lease is None or lease() is None):
                import numpy as np

                self._lease = Lease(self._all, self._start, slot, self._nbytes, False)
                self._leases[slot] = weakref.ref(self._lease)
                self._memory = np.asarray(self._lease)
                return

    def room(self, nbytes: int) -> Any:
        """Returns memory for a column: of the slot, if it has room."""
        import numpy as np

        start = -(-self._used // ALIGN) * ALIGN
        self._used = start + nbytes
        if self._memory is None or self._used > self._nbytes:
            return np.empty(nbytes, np.uint8)
        return self._memory[start : self._used]

    def lend(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Returns the batch as one that is pickled by its slot, if it is in one."""
        lease, self._lease, self._memory = self._lease, None, None
        if self._slab is None and self._used:
            self._make()
            return batch
        return batch if lease is None else Batch(self, lease, batch)

    def _make(self) -> None:
        """Makes slots that have room for batches like the one that was read."""
        global made
        nbytes = -(-self._used // HEAD) * HEAD
        count = min(COUNT, MAX_NBYTES // nbytes)
        if count < 3:
            # Such a batch takes long enough to read.
            self._slab = ()
            return
        torch = self._torch
        self._slab = torch.zeros(HEAD + count * nbytes, dtype=torch.uint8).share_memory_()
        self._all, self._start = self._slab.numpy(), self._slab.data_ptr()
        self._nbytes, self._leases = nbytes, [None] * count
        self._number, made = made, made + 1


class Batch(dict[str, Any]):
    """A batch in a slot. In the worker it is a dict of tensors, and the receiver gets such a dict."""

    __slots__ = ("_slots", "_lease", "_own")

    def __init__(self, slots: Slots, lease: Lease, batch: dict[str, Any]) -> None:
        super().__init__(batch)
        self._slots, self._lease = slots, lease
        self._own = dict(batch)

    def __copy__(self) -> Batch:
        out = Batch(self._slots, self._lease, self._own)
        out.clear()
        out.update(self)
        return out

    def __reduce__(self) -> Any:
        slots, lease, torch = self._slots, self._lease, self._slots._torch
        if lease.is_sent or self.keys() != self._own.keys() or any(self[key] is not self._own[key] for key in self):
            return dict, (dict(self),)
        columns: list[tuple[str, int, int, str, tuple[int, ...]]] = []
        rest = {}
        for key, value in self.items():
            offset = value.data_ptr() - lease.start if isinstance(value, torch.Tensor) else -1
            if 0 <= offset < lease.nbytes and value.is_contiguous():
                kind = str(value.dtype).removeprefix("torch.")
                columns.append((key, offset, value.nbytes, kind, tuple(value.shape)))
            else:
                rest[key] = value
        lease.is_sent = True
        slots._all[lease.slot] = 1
        # The first message has the memory itself.
        slab = None if slots._is_known else slots._slab
        slots._is_known = True
        return receive, ((os.getpid(), slots._number), slab, lease.slot, lease.nbytes, columns, rest, list(self))


def receive(
    sender: tuple[int, int], slab: Any, slot: int, nbytes: int, columns: list[Any], rest: dict[str, Any], order: list[str]
) -> dict[str, Any]:
    """Returns the batch in a slot."""
    import numpy as np
    import torch

    if slab is not None:
        for other in [key for key in received_memory if not is_alive(key[0])]:
            received_memory.pop(other, None)
        # The array keeps the tensor, and so its memory.
        received_memory[sender] = slab.numpy(), slab.data_ptr()
    shared, start = received_memory[sender]
    memory = np.asarray(Lease(shared, start, slot, nbytes, True))
    found = dict(rest)
    for key, offset, length, kind, shape in columns:
        found[key] = torch.from_numpy(memory[offset : offset + length]).view(getattr(torch, kind)).view(shape)
    return {key: found[key] for key in order}


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
