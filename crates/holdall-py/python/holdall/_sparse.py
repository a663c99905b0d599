"""Sparse tensors as SciPy's and torch's, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from ._arrays import has_elements, placed
from .errors import HoldallError, MissingPackageError, UnsupportedError

if TYPE_CHECKING:
    from ._tensor import Tensor

CSR = ("sparse_csr", "sparsecsr")
COO = ("sparse_coo", "sparsecoo")
#: Layouts that are sparse.
LAYOUTS = CSR + COO


def to_scipy(tensor: Tensor) -> Any:
    """Returns a ``csr_array`` or ``coo_array`` in separate memory."""
    try:
        import scipy.sparse
    except ImportError:
        raise MissingPackageError(
            "SciPy is not installed",
            code="python/extra",
            kind="unsupported",
            hint="pip install scipy; or to_dense()",
        ) from None
    import numpy as np

    native, shape = tensor._native(), tensor.shape
    if tensor.layout in CSR:
        indptr, indices, (dtype, count, values) = native.csr(tensor._at)
        where = [_index(b, np) for b in (indices, indptr)]
        data = tensor._array(values, 0, tuple(count), dtype).copy()
        return _made(tensor, "SciPy", lambda: scipy.sparse.csr_array((data, *where), shape=shape))
    if tensor.layout in COO:
        coords, (dtype, count, values) = native.coo(tensor._at)
        places = tuple(_index(b, np) for b in coords)
        data = tensor._array(values, 0, tuple(count), dtype).copy()
        return _made(tensor, "SciPy", lambda: scipy.sparse.coo_array((data, places), shape=shape))
    raise tensor._misuse(f"its layout is {tensor.layout}, which is not sparse", None)


def to_torch(tensor: Tensor, device: Any) -> Any:
    """Returns a ``sparse_csr`` or ``sparse_coo`` tensor in separate memory."""
    import numpy as np

    from ._torch import module, of_bytes

    torch, native, shape = module(), tensor._native(), tensor.shape

    def values_of(found: Any) -> Any:
        dtype, count, values = found
        return of_bytes(np.array(memoryview(values), np.uint8), tuple(count), dtype)

    if tensor.layout in CSR:
        indptr, indices, found = native.csr(tensor._at)
        ends, columns = _longs(indptr, np), _longs(indices, np)
        rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        where = (torch.from_numpy(ends), torch.from_numpy(columns))
        places = [rows, columns]
        compressed = _rising(places, np)
    else:
        coords, found = native.coo(tensor._at)
        places = [_longs(b, np) for b in coords]
        compressed = False

    def make() -> Any:
        if compressed:
            return torch.sparse_csr_tensor(*where, values_of(found), shape, check_invariants=False)
        values = values_of(found)
        stacked = np.stack(places) if places else np.empty((0, len(values)), np.int64)
        out = torch.sparse_coo_tensor(torch.from_numpy(stacked), values, shape, check_invariants=False)
        if tensor.layout in CSR:
            # Entries may be unsorted and repeated in files, but not in torch's compressed rows.
            return out.coalesce().to_sparse_csr()
        return out._coalesced_(True) if _rising(places, np) else out

    out = _made(tensor, "torch", make)
    return out if device is None else out.to(device)


def _made(tensor: Tensor, where: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except HoldallError as e:
        raise placed(e, tensor.file.name, tensor.name) if isinstance(e, UnsupportedError) else e from None
    except (TypeError, ValueError, OverflowError, RuntimeError) as e:
        raise UnsupportedError(
            f"{tensor.file.name}: tensor `{tensor.name}`: {where} has no such sparse array of shape "
            f"{list(tensor.shape)}: {e}",
            code="python/shape",
            kind="unsupported",
            source=tensor.file.name,
            tensor=tensor.name,
        ) from None


def _index(buffer: Any, np: Any) -> Any:
    """Returns indices as SciPy expects them: signed, 32 bits if they fit. They were checked against the shape."""
    words = np.frombuffer(buffer, np.uint64) if len(buffer) else np.empty(0, np.uint64)
    small = words.size == 0 or int(words.max()) < 1 << 31
    return words.astype(np.int32 if small else np.int64)


def _longs(buffer: Any, np: Any) -> Any:
    """Returns indices as torch expects them: signed, 64 bits. They were checked against the shape."""
    return np.array(memoryview(buffer), np.uint8).view(np.int64)


def _rising(places: list[Any], np: Any) -> bool:
    """Returns whether the entries are sorted by their coordinates, without duplicates."""
    if not places:
        return False
    after, same = np.zeros(max(len(places[0]) - 1, 0), bool), True
    for each in places:
        after |= same & (each[1:] > each[:-1])
        same &= each[1:] == each[:-1]
    return bool(after.all())


def parts_of_torch(value: Any) -> tuple[str, dict[str, Any]]:
    """Returns the layout of a sparse torch tensor, and its components, with indices not yet in the type that files
    have.

    Raises:
        UnsupportedError: the entries are arrays (hybrid tensors), or the tensor is a batch of matrices.
    """
    import torch

    has_elements(value)
    value = value.detach()
    if value.dense_dim():
        raise UnsupportedError(
            "a sparse torch tensor whose entries are arrays cannot be stored",
            code="python/layout",
            kind="unsupported",
            hint="save x.to_dense(), or x.indices() and x.values()",
        )
    if value.layout != torch.sparse_coo and value.dim() != 2:
        raise UnsupportedError(
            "a batch of sparse torch tensors cannot be stored as one",
            code="python/layout",
            kind="unsupported",
            hint="save each, or x.to_dense()",
        )
    if value.layout == torch.sparse_csr:
        indices, indptr = value.col_indices().cpu().numpy(), value.crow_indices().cpu().numpy()
        return "sparse_csr", {"values": value.values(), "indices": indices, "indptr": indptr}
    if value.layout != torch.sparse_coo:
        try:
            value = value.to_sparse_coo().coalesce()
        except RuntimeError as e:
            raise UnsupportedError(
                f"torch makes no coordinates of a tensor whose layout is {value.layout}: {e}",
                code="python/layout",
                kind="unsupported",
                hint="save x.to_dense()",
            ) from None
    return "sparse_coo", {"values": value._values(), "coords": value._indices().cpu().numpy()}


def is_torch(value: Any) -> bool:
    """Returns whether it is a sparse torch tensor."""
    return (
        type(value).__module__.partition(".")[0] == "torch"
        and hasattr(value, "detach")
        and str(value.layout).startswith("torch.sparse")
    )


def is_scipy(value: Any) -> bool:
    """Returns whether it is a sparse SciPy array or matrix."""
    return type(value).__module__.startswith("scipy.sparse") and hasattr(value, "tocoo")
