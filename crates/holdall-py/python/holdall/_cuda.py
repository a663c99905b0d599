"""Loading tensors onto a CUDA device: one part is copied to the device while the next is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ._torch import _kind, module, tensor

if TYPE_CHECKING:
    from ._holdall import File

#: Size of each of the two slots of pinned memory, in bytes; at least the size of the largest tensor, up to
#: ``LARGEST``.
SLOT = 64 << 20
LARGEST = 512 << 20
#: Tensors below this size, in bytes, share memory on the device with their neighbours in the file, as they do on the
#: host.
REGION = 8 << 20
#: Alignment of tensors in shared memory, in bytes.
ALIGN = 512


class Device(Protocol):
    """The operations that a load needs from a device."""

    def host(self, length: int) -> Any:
        """Allocates host memory that the device can copy from asynchronously, as bytes."""

    def room(self, length: int) -> Any:
        """Allocates device memory, as bytes."""

    def copy(self, to: Any, start: Any) -> None:
        """Starts a copy, after all copies that were started before."""

    def mark(self) -> Any:
        """Returns a mark for the copies that were started so far."""

    def wait(self, mark: Any) -> None:
        """Waits until the copies before the mark are done."""

    def finish(self) -> None:
        """Waits until all copies are done, so that later work of the caller sees their bytes."""

    def move(self, host: Any) -> Any:
        """Returns a copy of a host tensor on the device."""


class Cuda:
    """A CUDA device, with a separate stream for copies."""

    def __init__(self, device: Any) -> None:
        self._torch = module()
        self._device = self._torch.device(device)
        self._stream = self._torch.cuda.Stream(self._device)
        # Memory that the device's allocator hands out again may still be in use by work that was started before.
        self._stream.wait_stream(self._torch.cuda.current_stream(self._device))

    def host(self, length: int) -> Any:
        return self._torch.empty(length, dtype=self._torch.uint8, pin_memory=True)

    def room(self, length: int) -> Any:
        return self._torch.empty(length, dtype=self._torch.uint8, device=self._device)

    def copy(self, to: Any, start: Any) -> None:
        with self._torch.cuda.stream(self._stream):
            to.copy_(start, non_blocking=True)

    def mark(self) -> Any:
        event = self._torch.cuda.Event()
        event.record(self._stream)
        return event

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def finish(self) -> None:
        self._stream.synchronize()

    def move(self, host: Any) -> Any:
        return host.to(self._device)


class _Region:
    """Tensors that share one allocation on the device."""

    def __init__(self) -> None:
        self.length = 0
        self.rows: list[tuple[int, Any, tuple[int, ...], int, int]] = []

    def add(self, at: int, dtype: Any, shape: tuple[int, ...], length: int) -> None:
        self.rows.append((at, dtype, shape, self.length, length))
        self.length += -(-length // ALIGN) * ALIGN


def load(native: File, positions: list[int], on: Device) -> dict[str, Any]:
    """Loads dense tensors onto the device and returns them by name. Tensors with the same bytes share their memory
    there."""
    torch = module()
    out: dict[int, Any] = {}
    twins: list[tuple[int, int]] = []
    regions: list[_Region] = []
    apart: list[tuple[int, str, tuple[int, ...]]] = []
    for at, name, stored_shape, length, first in native.places(positions):
        dtype, shape = _kind(torch, name, stored_shape)
        if first != at:
            twins.append((at, first))
        elif length == 0:
            out[at] = on.room(0).view(dtype).reshape(shape)
        elif length > LARGEST:
            apart.append((at, name, stored_shape))
        else:
            if length >= REGION or not regions or regions[-1].length + length > REGION:
                regions.append(_Region())
            regions[-1].add(at, dtype, shape, length)
    _fill(native, regions, on, out)
    for at, name, shape in apart:
        buffer, start = native.read_owned(at, "data")
        out[at] = on.move(tensor(buffer, start, shape, name))
    for at, first in twins:
        out[at] = out[first].reshape(out[first].shape)
    names = native.names()
    return {names[at]: out[at] for at in positions}


def _fill(native: File, regions: list[_Region], on: Device, out: dict[int, Any]) -> None:
    """Reads regions slot by slot, into one of two slots while the other is copied."""
    if not regions:
        return
    room = max(SLOT, max(region.length for region in regions))
    slots = [(on.host(room), None), (on.host(room), None)]
    waiting = iter(regions)
    region = next(waiting, None)
    turn = 0
    while region is not None:
        memory, mark = slots[turn]
        if mark is not None:
            on.wait(mark)
        batch: list[tuple[_Region, int]] = []
        end = 0
        while region is not None and end + region.length <= room:
            batch.append((region, end))
            end += region.length
            region = next(waiting, None)
        host = memory.numpy()
        native.load_into(
            [
                (at, "data", host[start + offset : start + offset + length])
                for region_, start in batch
                for at, _, _, offset, length in region_.rows
            ],
            None,
            None,
            None,
        )
        for region_, start in batch:
            there = on.room(region_.length)
            on.copy(there, memory[start : start + region_.length])
            for at, dtype, shape, offset, length in region_.rows:
                out[at] = there[offset : offset + length].view(dtype).reshape(shape)
        slots[turn] = (memory, on.mark())
        turn = 1 - turn
    on.finish()
