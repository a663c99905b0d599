"""Conversion between Holdall's memory and torch tensors."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from ._arrays import DLPACK, FP4, PAIRS, bytes_of, complete_load, with_tensor_name
from ._encode import PACKED
from ._sparse import LAYOUTS
from ._tensor import Tensor, is_dense
from ._tree import Tree
from .errors import HoldallError, MalformedError, MissingPackageError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import numpy as np

    from collections.abc import Iterable

    from ._file import File
    from ._holdall import Buffer, PrivateMaps


def module() -> Any:
    """Imports torch, or raises an error that says how to install it."""
    try:
        import torch
    except ImportError:
        raise MissingPackageError(
            "torch is not installed", code="python/extra", kind="unsupported", hint="pip install torch; or numpy()"
        ) from None
    return torch


def tensor(buffer: Buffer, start: int, shape: tuple[int, ...], name: str, device: Any = None) -> Any:
    """Returns a tensor over writable memory of a buffer."""
    torch = module()
    dtype, shape = _kind(torch, name, shape)
    count = 1
    for size in shape:
        count *= size
    if count == 0:
        return torch.empty(shape, dtype=dtype, device="cpu" if device is None else device)
    # frombuffer keeps the buffer alive, and with it the memory. Bytes first: elements may not be aligned.
    width = torch.empty((), dtype=dtype).element_size()
    raw = torch.frombuffer(buffer, dtype=torch.uint8, count=count * width, offset=start)
    if (buffer.address + start) % width:
        raw = raw.clone()
    out = raw.view(dtype).reshape(shape)
    return out if device is None else out.to(device)


def strided(of: Tensor, device: Any = None) -> Any:
    """Returns a copy of a tensor that is not stored in row-major order, as a torch tensor."""
    native, strides = of._native(), of.attributes.get("strides")
    buffer, start = native.read_owned(of._at, "data")
    module()
    try:
        width = DLPACK[of.dtype][1] // 8
        raw = tensor(buffer, start, ((len(buffer) - start) // width,), of.dtype)
        if not isinstance(strides, list) or len(raw) == 0:
            raise KeyError(of.dtype)
        # Without gaps between the elements, and in their order.
        out = raw.as_strided(of.shape, tuple(strides)).clone()
    except (KeyError, RuntimeError, TypeError):
        a = of.to_dense()
        return of_numpy(a, of.dtype, device)
    return out if device is None else out.to(device)


def mapped(maps: PrivateMaps, positions: Iterable[int]) -> tuple[dict[str, Any], list[int]]:
    """Returns tensors in private maps of their files, by name, and the indices of those that cannot be mapped and must be
    read. Elements that are not aligned in the file are copied, since torch's kernels may need them aligned."""
    found, rest = maps.tensors(list(positions))
    return {name: tensor(buffer, start, shape, dtype) for name, (shape, dtype, buffer, start) in found.items()}, rest


#: torch's dtypes by name, for types of which a tensor has the shape that it has in a file.
_DTYPES: dict[str, Any] = {}


def aligned(shape: tuple[int, ...], name: str, buffer: Buffer, start: int, count: int) -> Any:
    """Returns a tensor of ``count`` elements over memory of a buffer in which they are aligned."""
    torch, dtype = module(), _DTYPES.get(name)
    if dtype is None:
        dtype = _DTYPES[name] = _kind(torch, name, shape)[0]
    # frombuffer keeps the buffer alive, and with it the memory.
    out = torch.frombuffer(buffer, dtype=dtype, count=count, offset=start)
    return out if len(shape) == 1 else out.reshape(shape)


def _kind(torch: Any, name: str, shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Returns torch's dtype and shape for elements of that type: torch packs FP4 in pairs along the last
    dimension."""
    dtype = None
    if name == FP4 and shape and shape[-1] % 2 == 0:
        dtype, shape = getattr(torch, PAIRS, None), (*shape[:-1], shape[-1] // 2)
    elif name not in PACKED:
        dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise UnsupportedError(
            f"this torch has no {name}" + (f" of shape {list(shape)}" if name == FP4 else ""),
            code="python/dtype",
            kind="unsupported",
            hint='numpy() with ml_dtypes, or the bytes: t.components["data"].bytes()',
        )
    return dtype, shape


def warn_of_view() -> None:
    """Warns that torch takes read-only memory by DLPack as if it were writable, which torch itself does not say.
    Only warns if torch requested the memory."""
    if sys._getframe(2).f_globals.get("__name__") == "torch.utils.dlpack":
        warnings.warn(
            "torch cannot mark a tensor as read-only, and this one is a view into a mapped file: writing to it "
            "ends the process. t.torch() returns a copy",
            stacklevel=4,
        )


def memory(target: Any) -> Any:
    """Returns the memory of a torch tensor on the host, as writable bytes."""
    module()
    if target.device.type != "cpu" or not target.is_contiguous():
        raise UsageError(
            "a torch tensor to read into is contiguous and on the host",
            code="python/buffer",
            kind="misuse",
            hint="read into pinned memory, then copy it to the device",
        )
    return bytes_of(target.detach()).numpy()


def load_all(file: File, device: Any = None) -> dict[str, Any]:
    """Loads all tensors of a file, or the nested value that was saved, in which arrays of NumPy are arrays again. A tensor
    that torch has no type for is left out, with a warning."""
    from ._restore import Loaded

    tree = Tree.of(file)
    if tree is None or not tree.fits(tree.tensors(file)):
        return load(file, device, is_strict=False)
    arrays = [name for name, kind in tree.leaves.items() if kind != "$tensor"]
    tensors = [file[name]._at for name, kind in tree.leaves.items() if kind == "$tensor"]
    found = load(file, device, sorted(tensors), is_strict=False)
    faults = found.faults if isinstance(found, Loaded) else {}
    whole: dict[str, Any] = tree.restored({**file.load(arrays), **found}, faults)
    return whole


def load(
    file: File, device: Any = None, positions: list[int] | None = None, is_strict: bool = True
) -> dict[str, Any]:
    """Loads the tensors of a file (all, or those at these indices): the dense ones on all cores, then the others. Unless
    ``is_strict``, those that cannot be loaded are left out, with a warning."""
    from ._restore import Loaded, value, warn_of_faults

    native = file._native
    wanted = list(range(len(native)) if positions is None else positions)
    faults = {e.tensor: e for e in native.faults() if e.tensor is not None}
    broken = {native.position(name) for name in faults}
    not_dense = set(native.not_dense())
    others = [at for at in wanted if at in not_dense and at not in broken]
    for at in wanted if is_strict and faults else ():
        fault = native.fault(at)
        if fault is not None:
            raise fault
    kept: dict[str, HoldallError] | None = None if is_strict else faults
    host = None if str(device) == "cpu" else device
    if others or broken:
        positions = [at for at in wanted if at not in not_dense and at not in broken]

    def make(name: str, shape: tuple[int, ...], dtype: str, buffer: Any, start: int, copy: bool) -> Any:
        try:
            made = tensor(buffer, start, shape, dtype, host)
        except UnsupportedError as e:
            raise with_tensor_name(e, file.name, name) from None
        return made.clone() if copy else made

    if host is not None and module().device(host).type == "cuda":
        from . import _cuda

        dense = wanted if positions is None else positions
        out = _cuda.load(native, dense, _cuda.Cuda(host))
    else:
        out = complete_load(native.load(positions, None, None, None, False, True), make, kept)
    for at in others:
        t = Tensor(file, at)
        try:
            out[t.name] = t.torch(host) if t.layout in (*LAYOUTS, "strided") or is_dense(t.layout) else value(t, False)
        except (MalformedError, UnsupportedError) as e:
            if kept is None:
                raise
            kept[t.name] = e
    if others or host is not None or faults:
        out = {name: out[name] for name in native.names() if name in out}
    if faults and not is_strict:
        warn_of_faults(faults, file.name)
        return Loaded(out, faults)
    return out


def of_numpy(a: np.ndarray[Any, Any], name: str, device: Any) -> Any:
    """Returns a torch tensor over an array that has no other users."""
    return of_bytes(a.reshape(-1).view("uint8"), a.shape, name, device)


def of_bytes(raw: np.ndarray[Any, Any], shape: tuple[int, ...], name: str, device: Any = None) -> Any:
    """Returns a torch tensor over bytes that have no other users; the element type must have a whole number of
    bytes."""
    torch = module()
    dtype = None if name in PACKED else getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise UnsupportedError(f"this torch has no {name}", code="python/dtype", kind="unsupported")
    if raw.size == 0:
        return torch.empty(shape, dtype=dtype, device="cpu" if device is None else device)
    out = torch.from_numpy(raw).view(dtype).reshape(shape)
    return out if device is None else out.to(device)
