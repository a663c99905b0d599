"""torch's tensors over memory of Holdall's, and the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._arrays import PACKED
from .errors import Misuse, Unsupported

if TYPE_CHECKING:
    import numpy as np

    from ._file import File
    from ._holdall import Buffer


def module() -> Any:
    """torch, if it is there."""
    try:
        import torch
    except ImportError:
        raise Unsupported(
            "torch is not installed", code="python/extra", kind="unsupported", hint="pip install torch; or numpy()"
        ) from None
    return torch


def tensor(buffer: "Buffer", start: int, shape: tuple[int, ...], name: str, device: Any = None) -> Any:
    """A tensor over writable memory that nobody else has."""
    torch = module()
    dtype = getattr(torch, name, None)
    if name in PACKED or not isinstance(dtype, torch.dtype):
        raise Unsupported(
            f"this torch has no {name}",
            code="python/dtype",
            kind="unsupported",
            hint='numpy() with ml_dtypes, or the bytes: t.components["data"].bytes()',
        )
    count = 1
    for size in shape:
        count *= size
    if count == 0:
        return torch.empty(shape, dtype=dtype, device=device)
    # frombuffer keeps the buffer, and with it the memory. Bytes first: elements may lie at odd addresses.
    width = torch.empty((), dtype=dtype).element_size()
    raw = torch.frombuffer(buffer, dtype=torch.uint8, count=count * width, offset=start)
    if (buffer.address + start) % width:
        raw = raw.clone()
    out = raw.view(dtype).reshape(shape)
    return out if device is None else out.to(device)


def memory(target: Any) -> Any:
    """The memory of a torch tensor on the host, as bytes to write to."""
    torch = module()
    if target.device.type != "cpu" or not target.is_contiguous():
        raise Misuse(
            "a torch tensor to read into is contiguous and on the host",
            code="python/buffer",
            kind="misuse",
            hint="read into pinned memory, then copy it to the device",
        )
    return target.detach().reshape(-1).view(torch.uint8).numpy()


def load(file: "File", device: Any = None) -> dict[str, Any]:
    """All dense tensors of a file, loaded on all cores."""
    others = [t for t in file.values() if t.layout != "dense"]
    if others:
        t = others[0]
        raise Unsupported(
            f"{file.name}: tensor `{t.name}`: its layout is {t.layout}, not dense",
            code="python/layout",
            kind="unsupported",
            source=file.name,
            tensor=t.name,
            hint="holdall.open, and to_dense() of such tensors",
        )
    host = None if str(device) == "cpu" else device
    out = {}
    for name, shape, dtype, buffer, start, _, copy in file._native.load(None, None, None, None):
        made = tensor(buffer, start, shape, dtype, host)
        out[name] = made.clone() if copy else made
    return out


def of_numpy(a: "np.ndarray[Any, Any]", name: str, device: Any) -> Any:
    """A torch tensor over an array that nobody else has."""
    torch = module()
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise Unsupported(f"this torch has no {name}", code="python/dtype", kind="unsupported")
    if a.size == 0:
        return torch.empty(a.shape, dtype=dtype, device=device)
    raw = a.reshape(-1).view("uint8")
    return torch.from_numpy(raw).view(dtype).reshape(a.shape).to(device)
