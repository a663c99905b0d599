"""Open files that return tensors of one framework."""

from __future__ import annotations

import operator
import os
from typing import Any, Iterator

from .. import _slices
from .._encode import PACKED
from .._file import File
from .._file import open as _open
from .._cuda import Cuda
from .._holdall import PrivateMaps, another_handle
from .._tensor import Tensor, is_dense
from ..errors import HoldallError, MissingFileError
from ._bytes import CODES, numpy_width
from ._errors import SafetensorError, telling
from ._frameworks import FRAMEWORKS, of_array
from ._prefetch import PrefetchLoader, PrefetchPlan, TensorMeta, device_index, item

__all__ = ["safe_open", "PySafeSlice"]

#: Types of devices that may have a number.
_NUMBERED = ("cuda", "musa", "npu", "xpu", "xla", "mlu", "hpu")
#: Size in bytes below which copying a tensor from the map is faster than reading it.
_SMALL = 1 << 18
#: I/O modes by their names in `safetensors`.
_BACKENDS = {"mmap": "auto", "pread": "read"}


class safe_open:
    """An open file that returns tensors of one framework.

    Args:
        filename: A path of a file of any format.
        framework: ``"np"`` or ``"numpy"``, ``"pt"``, ``"torch"`` or ``"pytorch"``, ``"tf"`` or ``"tensorflow"``,
            ``"jax"`` or ``"flax"``, ``"mlx"``, ``"paddle"``.
        device: The device of tensors of torch and paddle: ``"cpu"``, ``"cuda:1"``, ``0``.
        backend: ``"mmap"`` maps the file, ``"pread"`` reads by position.

    Raises:
        FileNotFoundError: the file does not exist.
        SafetensorError: it is not a tensor file, or an option is not valid.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str = "np",
        device: Any = "cpu",
        *,
        backend: str = "mmap",
    ) -> None:
        self._framework = FRAMEWORKS.get(framework, "")
        if not self._framework:
            raise SafetensorError(f"framework {framework} is invalid")
        self._device = _device(device)
        if backend not in _BACKENDS:
            raise SafetensorError(f'backend "{backend}" is invalid (expected one of: "mmap", "pread")')
        #: Whether slices have the semantics of the framework's own tensors.
        self._is_own = backend == "mmap" and self._framework in ("torch", "paddle")
        if not isinstance(filename, (str, os.PathLike)):
            raise TypeError(f"filename is text or a path, not {type(filename).__name__}")
        with telling("Error while deserializing header"):
            try:
                self._file: File = _open(filename, io=_BACKENDS[backend], strict=True)  # type: ignore[arg-type]
            except MissingFileError as e:
                if e.code != "io/failed":  # A folder without a model in it, say.
                    raise
                raise FileNotFoundError(f"No such file or directory: {os.fspath(filename)}") from e
        if self._device != "cpu" and self._framework not in ("torch", "paddle"):
            name = "pytorch" if self._framework == "torch" else self._framework
            raise SafetensorError(f"Device {self._device} is not supported for framework {name}")
        #: The offset of the first byte of data, once it is needed.
        self._first: int | None = None
        #: Private maps for tensors of torch.
        self._maps: PrivateMaps | None = None
        if self._framework == "torch":
            import torch  # noqa: F401

            if backend == "mmap":
                self._maps = PrivateMaps(self._file._native)
        elif self._framework == "paddle":
            import paddle  # noqa: F401

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *exc: object) -> None:
        self._maps = None  # Tensors keep the maps that they need.
        self._file.close()

    def keys(self) -> list[str]:
        """Returns the names, sorted."""
        return sorted(self._open())

    def offset_keys(self) -> list[str]:
        """Returns the names in the order of their bytes in the file."""
        names = self._open()._native.names()
        return [names[at] for at in sorted(range(len(names)), key=self._stored)]

    def metadata(self) -> dict[str, str] | None:
        """Returns the file's attributes; ``None`` if it has none. Values that are not strings are returned as
        JSON."""
        import json

        found = self._open().attributes
        text = {k: v if isinstance(v, str) else json.dumps(v, default=str) for k, v in found.items()}
        return text or None

    def get_tensor(self, name: str) -> Any:
        """Returns a tensor: with torch and ``backend="mmap"`` over a private map of the file, otherwise in separate
        memory."""
        found = self._place(name)
        return self._give(self._tensor(name)) if found is None else self._moved(self._over(*found))

    def get_tensors(self) -> dict[str, Any]:
        """Returns all tensors as :meth:`get_tensor` does, in the order of their bytes in the file."""
        file, names = self._open(), self.offset_keys()
        with telling():
            if self._framework == "torch":
                found = self._load_torch(file)
            else:
                found = {name: of_array(a, self._framework, self._device) for name, a in file.load(list(file)).items()}
        return {name: found[name] for name in names}

    def get_tensor_meta(self, name: str) -> TensorMeta:
        """Returns a tensor's entry in the header, without reading the tensor."""
        t = self._tensor(name)
        first, (start, end) = self._data_start(), self._stored(t._at)
        return TensorMeta(CODES.get(t.dtype, t.dtype), list(t.shape), (start - first, end - first))

    def prefetch(
        self, plan: PrefetchPlan | None = None, *, device: Any = None, threads: int = 8
    ) -> PrefetchLoader:
        """Starts to load tensors to a CUDA device in the background, and returns the loader that hands them out. The
        loader stays usable after this file is closed.

        Args:
            plan: The names of the tensors to load, each with ``None`` for the whole tensor or a slice of its rows with
                step 1; ``None`` for all tensors.
            device: The CUDA device; by default that of this file.
            threads: The number of threads that read.

        Raises:
            SafetensorError: the framework is not torch, the device is not a CUDA device, or the plan is not valid.
        """
        file = self._open()
        if self._framework != "torch":
            raise SafetensorError('prefetch is only compatible with framework="pt"')
        target = device_index(self._device if device is None else _device(device))
        plan = {name: None for name in self.offset_keys()} if plan is None else plan
        if any(not isinstance(name, str) for name in plan):
            raise SafetensorError("prefetch plan keys must be tensor names")
        items = []
        for name, rows in plan.items():
            t = self._tensor(name)
            items.append(item(file._native, name, t._at, t.dtype, CODES.get(t.dtype, t.dtype), t.shape, rows))
        if not items:
            raise SafetensorError("prefetch plan selects no tensors")
        items.sort(key=lambda one: self._stored(one.at))
        with telling():
            return PrefetchLoader(another_handle(file._native), items, Cuda(target), threads)

    def _data_start(self) -> int:
        """Returns the offset from which a header counts: that of the first byte of data, which is a tensor's in every
        safetensors file, or 0 for files of other formats."""
        if self._first is None:
            native = self._open()._native
            is_own = self._file.format == "safetensors" and len(native) > 0
            self._first = min(map(self._stored, range(len(native))))[0] if is_own else 0
        return self._first

    def _stored(self, at: int) -> tuple[int, int]:
        """Returns the range of a tensor's bytes in its file."""
        rows = ((row[5], row[6]) for row in self._open()._native.components(at))
        return min(((start, end) for start, end in rows if start is not None and end is not None), default=(0, 0))

    def _load_torch(self, file: File) -> dict[str, Any]:
        """Returns all tensors as torch tensors."""
        from .. import _torch

        # Tensors for a GPU are read into pinned memory by all cores, which is faster than copying them from a map.
        if self._maps is None or str(self._device).startswith("cuda") or isinstance(self._device, int):
            return _torch.load(file, self._device)
        mapped, rest = _torch.mapped(self._maps, range(len(file._native)))
        out = {name: self._moved(x) for name, x in mapped.items()}
        return out | _torch.load(file, self._device, rest) if rest else out

    def get_slice(self, name: str) -> PySafeSlice:
        """Returns a tensor of which only the requested slices are read."""
        found = self._place(name)
        return PySafeSlice(self, name, self._tensor(name) if found is None else None, found)

    def _open(self) -> File:
        if self._file.closed:
            raise SafetensorError("File is closed")
        return self._file

    def _tensor(self, name: str) -> Tensor:
        if not isinstance(name, str):
            raise TypeError(f"name is text, not {type(name).__name__}")
        file = self._open()
        if name not in file:
            raise SafetensorError(f"File does not contain tensor {name}")
        return file[name]

    def _mapped(self, t: Tensor) -> Any:
        """Returns a tensor of torch on the host over a private map of the file; ``None`` if it must be read."""
        if self._maps is None:
            return None
        from .. import _torch

        with telling():
            found, _ = _torch.mapped(self._maps, [t._at])
        return found.get(t.name)

    def _place(self, name: str) -> Any:
        """Returns where in a private map the elements of a tensor are, as the arguments of :func:`holdall._torch.aligned`;
        ``None`` if it must be read, or cannot be."""
        if self._maps is None or not isinstance(name, str):
            return None
        try:
            return self._maps.tensor(name)
        except (HoldallError, UnicodeEncodeError):
            return None  # The slow path raises it.

    @staticmethod
    def _over(*place: Any) -> Any:
        """Returns a tensor of torch on the host over a private map of the file."""
        from .._torch import aligned

        with telling():
            return aligned(*place)

    def _moved(self, x: Any) -> Any:
        """Returns a tensor of torch on the device of this file."""
        return x if self._device == "cpu" else x.to(self._device)

    def _give(self, t: Tensor) -> Any:
        mapped = self._mapped(t)
        if mapped is not None:
            return self._moved(mapped)
        with telling():
            # For small tensors without a digest to check, copying a view is faster than a read.
            is_small = t.stored_nbytes < _SMALL and self._file.format == "safetensors" and t.dtype not in PACKED
            if self._framework == "torch":
                return _part(t, (), self._device) if is_small else t.torch(self._device)
            a = t._numbers().copy() if is_small else t._numbers(copy=True)
            return of_array(a, self._framework, self._device)


class _safe_open_handle(safe_open):
    """A :class:`safe_open` for a file object that Python has opened."""

    def __init__(self, f: Any, framework: str = "np", device: Any = "cpu", *, backend: str = "mmap") -> None:
        f.fileno  # As `safetensors` asks, though it is its name that is opened.
        super().__init__(f.name, framework, device, backend=backend)


class PySafeSlice:
    """A tensor that is read in slices: ``s[10:20]``."""

    def __init__(self, of: safe_open, name: str, tensor: Tensor | None, place: Any) -> None:
        self._of = of
        self._name = name
        self._opened = tensor
        #: The location of the elements in a private map, if they are in one.
        self._place = place

    @property
    def _tensor(self) -> Tensor:
        if self._opened is None:
            self._opened = self._of._tensor(self._name)
        return self._opened

    def get_shape(self) -> list[int]:
        """Returns the dimensions."""
        return list(self._tensor.shape if self._place is None else self._place[0])

    def get_dtype(self) -> str:
        """Returns the element type as in safetensors: ``"F32"``."""
        name = self._tensor.dtype if self._place is None else self._place[1]
        return CODES.get(name, name)

    def __getitem__(self, key: Any) -> Any:
        of = self._of
        of._open()
        # Indexed on the host, so that only the selected elements are copied to another device.
        if self._place is not None:
            return of._moved(of._over(*self._place)[key])
        t = self._tensor
        whole = of._mapped(t)
        if whole is not None:
            return of._moved(whole[key])
        if not of._is_own:
            key = checked(key, t.shape)
        elif not _is_plain(key, t.shape):
            # The framework interprets other keys, and raises its own errors.
            return of._give(t)[key]
        if of._framework == "torch":
            if t.dtype in PACKED or not is_dense(t.layout):
                return of._give(t)[key]
            with telling():
                return _part(t, key, of._device)
        import numpy as np

        with telling():
            # safetensors only has numbers: strings and times of other formats are returned as the stored numbers.
            part = t[key] if t._info[5] is None else _slices.read(t, key, t.dtype)
            return of_array(np.array(part), of._framework, of._device)


def _part(t: Tensor, key: Any, device: Any) -> Any:
    """Reads a part of a dense tensor for torch, whose types NumPy may lack."""
    import numpy as np

    from .._torch import of_bytes

    width = numpy_width(t.dtype)
    part = np.array(_slices.read(t, key, f"uint{8 * width}" if width <= 8 else t.dtype), order="C")
    return of_bytes(part.reshape(-1).view(np.uint8), part.shape, t.dtype, device)


def _is_plain(key: Any, shape: tuple[int, ...]) -> bool:
    """Returns whether a key is valid and means the same for NumPy and every framework."""
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) > len(shape):
        return False
    for k, size in zip(keys, shape):
        if type(k) is int:
            if not -size <= k < size:
                return False
        elif type(k) is slice:
            bounds = (k.start, k.stop, k.step)
            if any(n is not None and type(n) is not int for n in bounds) or (k.step is not None and k.step < 1):
                return False
        else:
            return False
    return True


def checked(key: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Checks a key as `safetensors` does: integers, slices with positive steps, at most one ellipsis, or an empty
    list, all of them within the shape. Negative bounds of slices count from the end.

    Raises:
        SafetensorError: the key is not supported or out of bounds.
    """
    if isinstance(key, list):
        if key:
            raise SafetensorError("Non empty lists are not implemented")
        key = slice(0, 0)
    keys = list(key) if isinstance(key, tuple) else [key]
    dots = [at for at, k in enumerate(keys) if k is Ellipsis]
    if len(dots) > 1:
        raise SafetensorError("Only one ellipsis (...) is allowed in slice index")
    if dots:
        keys[dots[0] : dots[0] + 1] = [slice(None)] * max(0, len(shape) - len(keys) + 1)
    taken = [_taken(k, at, shape[at] if at < len(shape) else 0) for at, k in enumerate(keys)]
    for problem in _outside(taken, shape):
        spelled = ", ".join(map(_spelled, taken))
        raise SafetensorError(f"Error during slicing [{spelled}] with shape {list(shape)}: {problem}")
    return tuple(taken)


def _taken(k: Any, at: int, size: int) -> Any:
    """Returns one part of a key with negative indices resolved."""
    if isinstance(k, slice):
        step = 1 if k.step is None else operator.index(k.step)
        if step < 1:
            raise SafetensorError(f"Slice step must be a positive integer, got {step}")
        low, high = (None if n is None else operator.index(n) for n in (k.start, k.stop))
        low = low if low is None or low >= 0 else max(0, low + size)
        high = high if high is None or high >= 0 else max(0, high + size)
        return slice(low, high, step)
    try:
        place = operator.index(k)
    except TypeError:
        place = 1 << 31
    if not -(1 << 31) <= place < 1 << 31:
        raise SafetensorError(f"Unsupported slice index at position {at}: expected slice, int, or ellipsis")
    if place + size < 0:
        raise SafetensorError(f"Invalid index {place} for dimension {at} of size {size}")
    return place + size if place < 0 else place


def _outside(taken: list[Any], shape: tuple[int, ...]) -> Iterator[str]:
    """Yields messages about indices out of bounds, from the last dimension on."""
    if len(taken) > len(shape):
        yield "more slicing indexes than dimensions in tensor"
        return
    for at in reversed(range(len(taken))):
        k, size = taken[at], shape[at]
        low, high = (k.start or 0, size if k.stop is None else k.stop) if isinstance(k, slice) else (k, k + 1)
        if high == low == size == 0:
            continue
        if low >= size or high > size:
            asked = low if low >= size else high - 1
            yield f"index {asked} out of bounds for tensor dimension #{at} of size {size}"


def _spelled(k: Any) -> str:
    if not isinstance(k, slice):
        return str(k)
    bounds = f"{'' if k.start is None else k.start}:{'' if k.stop is None else k.stop}"
    return bounds if k.step == 1 else f"{bounds}:{k.step}"


def _device(device: Any) -> Any:
    """Returns a device as torch accepts it.

    Raises:
        SafetensorError: the type of device is unknown.
        ValueError: the text after the colon is not a number.
    """
    if device is None:
        return "cpu"
    if type(device).__module__ == "torch":
        device = str(device)
    if isinstance(device, str):
        kind, colon, number = device.partition(":")
        if device in ("cpu", "mps", "mps:0"):
            return kind
        if kind in _NUMBERED:
            return f"{kind}:{int(number) if colon else 0}"
        if kind == "mps" and number.isdecimal():
            raise SafetensorError(f"device {device} is invalid: only mps or mps:0 is supported")
    elif isinstance(device, int) and not isinstance(device, bool) and device >= 0:
        return device
    raise SafetensorError(f"device {device} is invalid")
