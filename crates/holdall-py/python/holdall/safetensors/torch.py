"""Saves and loads dicts of torch tensors, like `safetensors.torch`, in files of every format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from .. import _torch
from .. import numpy as _numpy
from .._file import open as _open
from ._bytes import CODES, Path, in_memory, written
from ._errors import telling
from ._open import safe_open

__all__ = ["load", "load_file", "load_model", "save", "save_file", "save_model", "storage_ptr", "storage_size"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: torch's dtypes by their names in headers, with their bytes per element, as far as this torch has them.
_TYPES = {code: getattr(torch, name) for name, code in CODES.items() if hasattr(torch, name)}
if hasattr(torch, "float4_e2m1fn_x2"):
    _TYPES["F4"] = torch.float4_e2m1fn_x2
_SIZE = {dtype: dtype.itemsize for dtype in _TYPES.values()}


def save_file(tensors: dict[str, torch.Tensor], filename: Path, metadata: dict[str, str] | None = None) -> None:
    """Writes tensors to a file: safetensors, unless the name ends in ``.zt`` or ``.mt``.

    Raises:
        ValueError: ``tensors`` is not a dict of tensors, or one of them is sparse or not contiguous.
        RuntimeError: two tensors share memory (use :func:`save_model`), or a tensor has no memory (device ``meta``).
        SafetensorError: the file cannot be written, or the format does not support the element type.
    """
    with telling("Error while serializing"):
        written(_checked(tensors), filename, metadata)


def save(tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Returns the bytes of a safetensors file. Raises the same errors as :func:`save_file`."""
    with telling("Error while serializing"):
        return _numpy.save(_checked(tensors), metadata)


def load_file(filename: Path, device: Any = "cpu", *, backend: str = "mmap") -> dict[str, torch.Tensor]:
    """Loads all tensors of a file, in the order of their bytes, in separate memory.

    Raises:
        FileNotFoundError: the file does not exist.
        SafetensorError: it is not a tensor file.
    """
    with safe_open(filename, framework="pt", device=device, backend=backend) as file:
        return file.get_tensors()


def load(data: bytes) -> dict[str, torch.Tensor]:
    """Loads all tensors from the bytes of a file.

    Raises:
        SafetensorError: the bytes are not a tensor file.
    """
    with telling("Error while deserializing"), _open(in_memory(data), strict=True) as file:
        return _torch.load(file, "cpu")


def save_model(
    model: torch.nn.Module, filename: Path, metadata: dict[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Writes a module's parameters and buffers, tied ones once: of names that share memory, the one that covers all
    of it is kept, or the first by name if several do. The metadata maps each of the other names to the name that is
    kept.

    Args:
        metadata: Further metadata for the file. An entry that is already present under such a name is not
            overwritten.
        force_contiguous: Whether tensors that are not contiguous are packed; otherwise they are an error.

    Raises:
        RuntimeError: tensors share memory and none of them covers all of it.
        ValueError: a tensor is not contiguous, with ``force_contiguous=False``.
    """
    state = model.state_dict()
    merged = None if metadata is None else dict(metadata)
    for kept, others in _remove_duplicate_names(state).items():
        for name in others:
            merged = merged or {}
            merged.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: x.contiguous() for name, x in state.items()}
    try:
        save_file(state, filename, merged)
    except ValueError as e:
        raise ValueError(f"{e} Or use save_model(..., force_contiguous=True), which packs such tensors.") from e


def load_model(
    model: torch.nn.Module, filename: Path, strict: bool = True, device: Any = "cpu", *, backend: str = "mmap"
) -> tuple[set[str], list[str]]:
    """Loads a file into a module. Tied parameters may have any of their names in the file.

    Returns:
        The names of the module that the file lacks, and the names in the file that the module lacks.

    Raises:
        RuntimeError: names are missing or unexpected and ``strict`` is true; or a shape differs.
    """
    tensors = load_file(filename, device, backend=backend)
    tied = _remove_duplicate_names(model.state_dict(), preferred_names=tensors)
    found = model.load_state_dict(tensors, strict=False)
    missing, unexpected = set(found.missing_keys), list(found.unexpected_keys)
    for others in tied.values():
        # These share the memory of the name that is kept, so they are loaded with it.
        unexpected += [name for name in others if name not in missing]
        missing.difference_update(others)
    if strict and (missing or unexpected):
        text = f"Error(s) in loading state_dict for {type(model).__name__}:"
        for what, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                listed = ", ".join(f'"{name}"' for name in sorted(names))
                text += f"\n    {what} key(s) in state_dict: {listed}"
        raise RuntimeError(text)
    return missing, unexpected


def storage_ptr(tensor: torch.Tensor) -> int:
    """Returns the address of the storage of a tensor; 0 if it has none."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except RuntimeError:  # Sparse ones, and stand-ins.
        return 0


def storage_size(tensor: torch.Tensor) -> int:
    """Returns the size in bytes of the storage of a tensor."""
    try:
        return int(tensor.untyped_storage().nbytes())
    except RuntimeError:
        return int(tensor.numel() * tensor.element_size())


def _end_ptr(tensor: torch.Tensor) -> int:
    """Returns the address after a tensor's last element."""
    if tensor.numel() == 0:
        return int(tensor.data_ptr())
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride()))
    return int(tensor.data_ptr() + (last + 1) * tensor.element_size())


def _is_complete(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor covers its whole storage."""
    is_whole = tensor.numel() * tensor.element_size() == storage_size(tensor)
    return is_whole and bool(tensor.data_ptr() == storage_ptr(tensor))


def _find_shared_tensors(state_dict: dict[str, torch.Tensor]) -> list[set[str]]:
    """Returns the sets of names that share memory; a tensor that shares with no other is alone in its set. Tensors
    without memory are left out."""
    groups: dict[tuple[Any, int, int], list[str]] = {}
    for name, x in state_dict.items():
        if x.device.type != "meta" and storage_ptr(x) and storage_size(x):
            groups.setdefault((x.device, storage_ptr(x), storage_size(x)), []).append(name)
    out: list[set[str]] = []
    for names in groups.values():
        if len(names) == 1:
            out.append(set(names))
            continue
        areas = sorted((state_dict[name].data_ptr(), _end_ptr(state_dict[name]), name) for name in names)
        end = 0
        for at, (start, stop, name) in enumerate(areas):
            # As in `safetensors`, whose files must be the same, compare with the previous tensor, not with the
            # longest so far.
            if at and start < end:
                out[-1].add(name)
            else:
                out.append({name})
            end = stop
    return out


def _remove_duplicate_names(
    state_dict: dict[str, torch.Tensor],
    *,
    preferred_names: Iterable[str] | None = None,
    discard_names: Iterable[str] | None = None,
) -> dict[str, list[str]]:
    """Returns, for names that share memory, the one to keep and those to leave out. The one to keep covers all of
    the memory: the first by name of the preferred ones, or else of those not to be discarded, or else of all."""
    preferred, discarded = set(preferred_names or ()), set(discard_names or ())
    out: dict[str, list[str]] = {}
    for shared in _find_shared_tensors(state_dict):
        whole = {name for name in shared if _is_complete(state_dict[name])}
        if not whole:
            raise RuntimeError(
                f"Error while trying to find names to remove to save state dict, but found no suitable name to keep for"
                f" saving amongst: {shared}. None of them has all of the memory that they share, so the file would lack a"
                " part of it, or have much more than they need; `.clone()` gives each its own."
            )
        kept = min(whole & preferred or whole - discarded or whole)
        others = sorted(shared - {kept})
        if others:
            out[kept] = others
    return out


def _checked(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Checks that tensors can be stored: on the host, dense, contiguous, without shared memory."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, x in tensors.items():
        if not isinstance(x, torch.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(x)}")
    sparse = [name for name, x in tensors.items() if x.layout != torch.strided]
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support. You can make it a"
            " dense tensor before saving with `.to_dense()` but be aware this might make a much larger file than needed."
        )
    shared = [names for names in _find_shared_tensors(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            f"Some tensors share memory: {shared}. Each would have its bytes in the file, and be apart from the others"
            " when it is loaded. `save_model` writes them once, `.clone()` gives each its own memory."
        )
    for name, x in tensors.items():
        if not x.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed: it may be a part of"
                " another, of which all would better be saved. `.contiguous()` packs it."
            )
    # torch raises here for tensors without memory.
    return {name: x if x.device.type == "cpu" else x.to("cpu") for name, x in tensors.items()}
