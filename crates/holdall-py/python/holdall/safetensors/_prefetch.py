"""Loading tensors onto a CUDA device in the background, as ``safe_open.prefetch`` of `safetensors` 0.9 does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from .._cuda import ALIGN, SLOT, Device
from .._torch import module
from ._errors import SafetensorError, telling

if TYPE_CHECKING:
    from .._holdall import File

__all__ = ["PrefetchLoader", "PrefetchPlan", "TensorMeta"]

#: The tensors to load: ``None`` for a whole tensor, or a slice of its rows.
PrefetchPlan = dict[str, slice | None]


class TensorMeta:
    """A tensor's entry in the header.

    Attributes:
        dtype: The element type as safetensors spells it, such as ``"F32"``.
        shape: The dimensions.
        data_offsets: The first byte of the tensor and the one after its last, counted from the first byte of the
            file's data. For files of other formats, counted from the start of the file.
    """

    __slots__ = ("dtype", "shape", "data_offsets")

    def __init__(self, dtype: str, shape: list[int], data_offsets: tuple[int, int]) -> None:
        self.dtype = dtype
        self.shape = shape
        self.data_offsets = data_offsets

    def __repr__(self) -> str:
        return f"TensorMeta(dtype={self.dtype!r}, shape={self.shape}, data_offsets={self.data_offsets})"


class Item(NamedTuple):
    """A tensor to load, or rows of it."""

    name: str
    #: The index of the tensor in the file.
    at: int
    #: torch's dtype, and the shape after loading.
    dtype: Any
    shape: tuple[int, ...]
    #: The number of bytes to load.
    length: int
    #: The offset in the tensor of the bytes to load; ``None`` for the whole tensor.
    start: int | None


def planned_rows(rows: Any, name: str, shape: tuple[int, ...]) -> range:
    """Returns the rows that one entry of a plan selects.

    Raises:
        SafetensorError: the entry is not a slice with step 1 inside of the tensor's rows.
    """
    if not isinstance(rows, slice):
        raise SafetensorError(f"prefetch plan values must be None or a slice, got {type(rows)} for {name}")
    if not shape:
        raise SafetensorError(f"cannot slice rows of the 0-d tensor {name}")
    count = shape[0]
    for attribute in ("start", "stop"):
        bound = getattr(rows, attribute)
        if bound is None:
            continue
        if not isinstance(bound, int):
            raise SafetensorError(f"prefetch plan slice bounds for {name} must be integers or None")
        if not -count <= bound <= count:
            raise SafetensorError(
                f"prefetch plan slice {attribute} {bound} for {name} is out of range for {count} rows"
            )
    try:
        selected = range(*rows.indices(count))
    except (TypeError, ValueError) as e:
        raise SafetensorError(f"invalid prefetch plan slice for {name}: {e}") from e
    if selected.step != 1:
        raise SafetensorError(f"prefetch plan slices must have step 1, got {selected.step} for {name}")
    return selected


class PrefetchLoader:
    """The tensors of one file while they are loaded onto a device in the background.

    Each tensor is returned once, by :meth:`take` or by iterating, when its bytes are on the device. Small neighbours
    share one allocation on the device, which is freed when the last of its tensors is.
    """

    def __init__(self, native: File, items: list[Item], device: Device, threads: int) -> None:
        self._native = native
        self._items = items
        self._device = device
        self._threads = threads
        self._names = {item.name for item in items}
        self._changed = threading.Condition()
        self._ready: dict[str, Any] = {}
        self._taken: set[str] = set()
        self._error: BaseException | None = None
        self._is_closed = False
        # A daemon, so that a loader which is never closed does not keep the process alive.
        self._worker = threading.Thread(target=self._run, name="holdall-prefetch", daemon=True)
        self._worker.start()

    def names(self) -> list[str]:
        """Returns the names of the tensors, in the order of their bytes in the file."""
        return [item.name for item in self._items]

    def __len__(self) -> int:
        return len(self._items)

    def take(self, name: str) -> Any:
        """Returns a tensor, after waiting until it is on the device.

        Raises:
            SafetensorError: the tensor is not in the plan or was returned before, the loader is closed, or reading the
                file failed.
        """
        if name not in self._names:
            raise SafetensorError(f"tensor {name} is not in the prefetch plan")
        with self._changed:
            if name in self._taken:
                raise SafetensorError(f"{name}: the tensor was already delivered")
            self._changed.wait_for(lambda: name in self._ready or self._is_closed or self._error is not None)
            return self._deliver(name)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yields names and tensors as they arrive on the device, without those that were already taken."""
        while True:
            with self._changed:
                if len(self._taken) == len(self._items):
                    return
                self._changed.wait_for(lambda: self._ready or self._is_closed or self._error is not None)
                name = next(iter(self._ready), "")
                x = self._deliver(name)
            yield name, x

    def close(self) -> None:
        """Stops loading, and releases every tensor that was not taken. Tensors that were taken keep their memory."""
        with self._changed:
            self._is_closed = True
            self._ready.clear()
            self._changed.notify_all()
        if self._worker is not threading.current_thread():
            self._worker.join()

    def __enter__(self) -> PrefetchLoader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _deliver(self, name: str) -> Any:
        """Returns a tensor that is on the device. The lock is held."""
        if self._is_closed:
            raise SafetensorError("the prefetch loader is closed")
        if name in self._ready:
            self._taken.add(name)
            return self._ready.pop(name)
        assert self._error is not None
        with telling():
            raise self._error

    def _run(self) -> None:
        try:
            self._load()
        except BaseException as e:  # Raised again where a tensor is taken.
            with self._changed:
                self._error = e
                self._changed.notify_all()

    def _load(self) -> None:
        """Reads batches into one of two slots of pinned memory, while the other is copied to the device."""
        room = max([SLOT, *(_aligned(item.length) for item in self._items)])
        room = min(room, max(ALIGN, sum(_aligned(item.length) for item in self._items)))
        slots = [self._device.host(room), self._device.host(room)]
        #: The batch that is being copied from the other slot.
        before: tuple[Any, dict[str, Any]] | None = None
        for turn, batch in enumerate(_batches(self._items, room)):
            memory = slots[turn % 2]
            self._read(batch, memory.numpy())
            if self._is_closed:
                break
            length = sum(_aligned(item.length) for item in batch)
            there = self._device.room(length)
            self._device.copy(there, memory[:length])
            arriving, at = {}, 0
            for item in batch:
                arriving[item.name] = there[at : at + item.length].view(item.dtype).reshape(item.shape)
                at += _aligned(item.length)
            mark = self._device.mark()
            if before is not None:
                self._arrive(*before)
            before = mark, arriving
        if before is not None:
            self._arrive(*before)
        self._device.finish()

    def _read(self, batch: list[Item], host: Any) -> None:
        """Reads a batch into host memory: whole tensors at once on several threads, then rows."""
        at, whole = 0, []
        for item in batch:
            out = host[at : at + item.length]
            at += _aligned(item.length)
            if item.length == 0:
                continue
            if item.start is None:
                whole.append((item.at, "data", out))
            else:
                rows = self._native.read_range(item.at, "data", item.start, item.start + item.length)
                memoryview(out)[:] = memoryview(rows).cast("B")  # type: ignore[arg-type]
        if whole:
            self._native.load_into(whole, self._threads, None, None)

    def _arrive(self, mark: Any, arriving: dict[str, Any]) -> None:
        """Waits until a batch is on the device, and hands it out."""
        self._device.wait(mark)
        with self._changed:
            if not self._is_closed:
                self._ready.update(arriving)
            self._changed.notify_all()


def _aligned(length: int) -> int:
    return -(-length // ALIGN) * ALIGN


def _batches(items: list[Item], room: int) -> Iterator[list[Item]]:
    """Yields items in batches that fit a slot."""
    batch: list[Item] = []
    length = 0
    for item in items:
        if batch and length + _aligned(item.length) > room:
            yield batch
            batch, length = [], 0
        batch.append(item)
        length += _aligned(item.length)
    if batch:
        yield batch


def device_index(device: Any) -> str:
    """Returns the CUDA device of an option that was checked before.

    Raises:
        SafetensorError: it is another device.
    """
    if isinstance(device, int):
        return f"cuda:{device}"
    if str(device).startswith("cuda"):
        return str(device)
    raise SafetensorError(f"prefetch loads to cuda devices, not {device}")


def item(native: File, name: str, at: int, dtype: str, code: str, shape: tuple[int, ...], rows: Any) -> Item:
    """Returns what one entry of a plan loads.

    Raises:
        SafetensorError: torch has no such element type, or the rows are not valid.
    """
    from .._torch import _kind

    selected = None if rows is None else planned_rows(rows, name, shape)
    try:
        kind, stored_shape = _kind(module(), dtype, shape)
    except Exception as e:
        raise SafetensorError(f"prefetch cannot hand out dtype {code}: torch has no matching dtype") from e
    width = module().empty((), dtype=kind).element_size()
    length = width
    for size in stored_shape:
        length *= size
    if selected is None:
        return Item(name, at, kind, stored_shape, length, None)
    row = length // shape[0] if shape[0] else 0
    if row * shape[0] != length:
        raise SafetensorError(f"rows of {name} are not whole bytes")
    return Item(name, at, kind, (len(selected), *stored_shape[1:]), len(selected) * row, selected.start * row)
