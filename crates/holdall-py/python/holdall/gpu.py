"""Models in GPU buffers, by `wgpu-py <https://wgpu-py.readthedocs.io>`_: the counterpart of the Rust crate
``holdall-gpu``.

    import holdall.gpu, wgpu

    device = wgpu.gpu.request_adapter_sync().request_device_sync()
    model = holdall.gpu.load_model(device, "model.safetensors")
    entry = {"binding": 0, "resource": model["enc.w"].binding}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._file import File, _globs
from ._operations import _opened
from .errors import MissingNameError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from ._file import Source
    from ._tensor import Component as _Stored

__all__ = ["Component", "Model", "Page", "Tensor", "load_model"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: WebGPU's ``COPY_SRC``, ``COPY_DST`` and ``STORAGE``.
_USAGE = 0x04 | 0x08 | 0x80
#: ``MAP_READ`` and ``COPY_DST``.
_FENCE = 0x01 | 0x08
#: Alignment of bindings that every adapter accepts, in bytes.
_ALIGN = 256
#: Size of a buffer that small components share, in bytes.
_ARENA = 64 << 20
#: Bytes that are written to the queue before it is flushed.
_BATCH = 32 << 20


@dataclass(frozen=True)
class Page:
    """A range of bytes in one buffer: a component, or a part of one that is larger than the device can bind."""

    buffer: Any
    #: Offset in the buffer, a multiple of 256.
    offset: int
    #: The number of bytes.
    nbytes: int

    @property
    def binding(self) -> dict[str, Any]:
        """The ``resource`` of an entry of a bind group. Its size is a multiple of 4; bytes past the end are 0."""
        return {"buffer": self.buffer, "offset": self.offset, "size": max(4, -(-self.nbytes // 4) * 4)}


@dataclass(frozen=True)
class Component:
    """The bytes of one component, decoded and checked."""

    role: str
    #: The storage type of its elements.
    dtype: str
    nbytes: int
    #: One page, or several if the component is larger than the device can bind: then all but the last have the same
    #: size.
    pages: tuple[Page, ...]

    @property
    def binding(self) -> dict[str, Any]:
        """The binding of the only page.

        Raises:
            UnsupportedError: the component has several pages (``gpu/pages``).
        """
        if len(self.pages) != 1:
            raise UnsupportedError(
                f"component `{self.role}` of {self.nbytes} bytes lies in {len(self.pages)} pages",
                code="gpu/pages",
                kind="unsupported",
                component=self.role,
                hint="bind each of `pages`, or ask for a device with a larger `max-storage-buffer-binding-size`",
            )
        return self.pages[0].binding


@dataclass(frozen=True)
class Tensor:
    """A tensor in GPU buffers."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: str
    #: The components by role: ``data`` for a dense tensor.
    components: Mapping[str, Component]

    @property
    def binding(self) -> dict[str, Any]:
        """The binding of the component ``data``: see :attr:`Component.binding`."""
        try:
            return self.components["data"].binding
        except KeyError:
            raise UsageError(
                f"tensor `{self.name}`: its layout is {self.layout}, of {', '.join(self.components)}",
                code="gpu/component",
                tensor=self.name,
                hint="bind its `components` one by one",
            ) from None


class Model(Mapping[str, Tensor]):
    """Tensors by name, in the order in which they were loaded."""

    def __init__(self, tensors: dict[str, Tensor], buffers: tuple[Any, ...], nbytes: int) -> None:
        self._tensors = tensors
        #: All buffers, without duplicates.
        self.buffers = buffers
        #: The total size of all buffers in bytes.
        self.nbytes = nbytes

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self._tensors[name]
        except KeyError:
            raise MissingNameError(
                f"there is no tensor {name!r} on the device", code="file/no-tensor", kind="not_found"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def _ipython_key_completions_(self) -> list[str]:
        """Returns the names that IPython and Jupyter offer after ``model["``."""
        return list(self)

    def view(self, path: str) -> dict[str, Tensor]:
        """Returns the tensors below a path, by the rest of their names: ``model.view("enc.layer.0")["w"]``, and
        for a schema ``model.view("layers")["[0].w"]``."""
        out = {}
        for name, tensor in self._tensors.items():
            below = name[len(path) :]
            if name.startswith(path) and below[:1] in (".", "/", "["):
                out[below if below[0] == "[" else below[1:]] = tensor
        return out

    def destroy(self) -> None:
        """Frees the buffers now, rather than when nothing refers to them."""
        for buffer in self.buffers:
            buffer.destroy()


def load_model(
    device: Any,
    source: Source | File,
    *,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    usage: int = _USAGE,
) -> Model:
    """Loads the tensors of a file into storage buffers of a device.

    Components are decoded and checked before their bytes are passed to the device, and have the same form as in the
    file: little-endian, sparse and quantized tensors by their components. Raw components are copied from the map to
    the device's own staging memory; a compressed one is in memory as a whole while it is copied. Components up to 8
    MiB share buffers; a larger one has a separate buffer, or several if it is larger than the device allows.

    Args:
        device: A ``GPUDevice`` of wgpu-py.
        source: A source for :func:`holdall.open`, or an open file.
        include, exclude: Patterns (``"layers.*.weight"``) of the tensors to load, and to leave out.
        usage: Allowed usages of the buffers, ``wgpu.BufferUsage``; at least ``COPY_DST``.

    Raises:
        HoldallError: opening or reading the file failed. No buffer stays allocated.
        wgpu.GPUError: the device raised an error; a note has the tensor's name. No buffer stays allocated.
    """
    if not usage & 0x08:
        raise UsageError("usage must include COPY_DST, with which data is copied into the buffers", code="python/option")
    with _opened(source) as file:
        native = file._native
        positions = list(native.select(_globs(include), _globs(exclude)))
        load = _Load(device, usage)
        out: dict[str, Tensor] = {}
        name = ""
        try:
            for tensor in (file[native.info(at)[0]] for at in positions):
                name = tensor.name
                if tensor.fault is not None:
                    raise tensor.fault
                parts = {role: load.component(part) for role, part in tensor.components.items()}
                out[name] = Tensor(name, tensor.shape, tensor.dtype, tensor.layout, parts)
            load.end()
        except BaseException as e:
            for buffer in load.buffers:
                buffer.destroy()
            if name and hasattr(e, "add_note"):
                e.add_note(f"while tensor `{name}` of {file.name} was loaded onto the device")
            raise
        return Model(out, tuple(load.buffers), load.nbytes)


class _Load:
    """Buffers that are being filled."""

    def __init__(self, device: Any, usage: int) -> None:
        self._device, self._usage = device, usage
        limits = device.limits
        largest = min(limits["max-buffer-size"], limits["max-storage-buffer-binding-size"])
        #: The maximum size of a page in bytes.
        self._page = largest // _ALIGN * _ALIGN
        self._small = min(8 << 20, self._page)
        self._arena: Any | None = None
        self._fence: Any | None = None
        self._end = 0
        self._waiting = 0
        self.buffers: list[Any] = []
        self.nbytes = 0

    def component(self, stored: _Stored) -> Component:
        data = stored.bytes().cast("B")
        pages = []
        for start in range(0, max(1, data.nbytes), self._page):
            part = data[start : start + self._page]
            buffer, offset = self._room(part.nbytes)
            self._write(buffer, offset, part)
            pages.append(Page(buffer, offset, part.nbytes))
        return Component(stored.role, stored.storage, data.nbytes, tuple(pages))

    def _room(self, nbytes: int) -> tuple[Any, int]:
        length = max(4, -(-nbytes // 4) * 4)
        if length > self._small:
            return self._buffer(length), 0
        if self._arena is None or self._end + length > self._arena.size:
            self._arena, self._end = self._buffer(min(_ARENA, self._page)), 0
        offset = self._end
        self._end += -(-length // _ALIGN) * _ALIGN
        return self._arena, offset

    def _buffer(self, size: int) -> Any:
        buffer = self._device.create_buffer(size=size, usage=self._usage)
        self.buffers.append(buffer)
        self.nbytes += size
        return buffer

    def _write(self, buffer: Any, offset: int, data: memoryview) -> None:
        queue = self._device.queue
        whole = data.nbytes // 4 * 4
        for start in range(0, whole, _BATCH):
            size = min(_BATCH, whole - start)
            queue.write_buffer(buffer, offset + start, data[start : start + size])
            self._waiting += size
            if self._waiting >= _BATCH:
                self.flush()
        if whole < data.nbytes:
            queue.write_buffer(buffer, offset + whole, bytes(data[whole:]).ljust(4, b"\0"))

    def flush(self) -> None:
        """Submits the writes so far, so that the device's staging memory is freed."""
        if self._waiting:
            if self._fence is None:
                self._fence = self._device.create_buffer(size=4, usage=_FENCE)
            # Data written to a mappable buffer is visible once all earlier writes are complete.
            self._device.queue.write_buffer(self._fence, 0, b"done")
            self._device.queue.submit([])
            self._fence.map_sync("READ")
            self._fence.unmap()
        self._waiting = 0

    def end(self) -> None:
        """Submits the remaining writes."""
        self.flush()
        if self._fence is not None:
            self._fence.destroy()
