"""Conversion of sparse tensors to and from SciPy and torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from ._arrays import has_elements, with_tensor_name
from .errors import HoldallError, MissingPackageError, UnsupportedError

if TYPE_CHECKING:
    from ._tensor import Tensor

CSR = ("sparse_csr", "sparsecsr")
COO = ("sparse_coo", "sparsecoo")
#: The sparse layouts.
LAYOUTS = CSR + COO
#: The attributes of a tensor that was written from another class of SciPy, or another layout of torch.
CLASS, BLOCK = "scipy.class", "scipy.block"
TORCH, TORCH_BLOCK = "torch.layout", "torch.block"
#: SciPy's formats of sparse arrays.
KINDS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")


def to_scipy(tensor: Tensor) -> Any:
    """Returns a sparse array of the class that the tensor was written from (by default ``csr_array`` or
    ``coo_array``), in separate memory."""
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
    if tensor.layout not in LAYOUTS:
        raise tensor._misuse(f"its layout is {tensor.layout}, which is not sparse", None)
    attributes = tensor.attributes
    name = attributes.get(CLASS)
    kind, _, of = name.partition("_") if isinstance(name, str) else ("", "", "")
    if kind not in KINDS or of not in ("array", "matrix"):
        kind, of = "csr" if tensor.layout in CSR else "coo", "array"
    if tensor.layout in CSR:
        indptr, indices, (dtype, count, values) = native.csr(tensor._at)
        where = [_index(b, np) for b in (indices, indptr)]
        data = tensor._array(values, 0, tuple(count), dtype).copy()
        made = getattr(scipy.sparse, f"csr_{of}")
        return _made(tensor, "SciPy", lambda: made((data, *where), shape=shape).asformat(kind))
    coords, (dtype, count, values) = native.coo(tensor._at)
    places = tuple(_index(b, np) for b in coords)
    data = tensor._array(values, 0, tuple(count), dtype).copy()

    def make() -> Any:
        found = None
        if kind == "csc" and len(shape) == 2:
            found = _columns(data, places, shape, np)
        elif kind == "bsr" and len(shape) == 2:
            found = _blocks(data, places, shape, attributes.get(BLOCK), np)
        if found is not None:
            return getattr(scipy.sparse, f"{kind}_{of}")(found, shape=shape)
        return getattr(scipy.sparse, f"coo_{of}")((data, places), shape=shape).asformat(kind)

    return _made(tensor, "SciPy", make)


def _columns(data: Any, places: Any, shape: tuple[int, ...], np: Any) -> Any:
    """Returns entries that are stored by columns as the arrays of compressed columns; ``None`` if they are not."""
    rows, columns = places
    if len(columns) and bool((columns[1:] < columns[:-1]).any()):
        return None
    ends = np.zeros(shape[1] + 1, columns.dtype)
    np.cumsum(np.bincount(columns, minlength=shape[1]), out=ends[1:])
    return data, rows, ends


def _blocks(data: Any, places: Any, shape: tuple[int, ...], block: Any, np: Any) -> Any:
    """Returns entries that are stored by blocks, each in row-major order, as the arrays of blocks of compressed rows;
    ``None`` if they are not."""
    if not (isinstance(block, list) and len(block) == 2 and all(isinstance(n, int) and n > 0 for n in block)):
        return None
    height, width = block
    size, index = height * width, places[0].dtype
    if shape[0] % height or shape[1] % width or len(data) % size:
        return None
    rows, columns = places[0][::size] // height, places[1][::size] // width
    if len(rows) and bool((rows[1:] < rows[:-1]).any()):
        return None
    expected = _of_blocks(rows.astype(np.int64), columns.astype(np.int64), height, width, np)
    if not all(np.array_equal(a, b) for a, b in zip(expected, places)):
        return None
    ends = np.zeros(shape[0] // height + 1, index)
    np.cumsum(np.bincount(rows, minlength=shape[0] // height), out=ends[1:])
    return data.reshape(-1, height, width), columns, ends


def _of_blocks(rows: Any, columns: Any, height: int, width: int, np: Any) -> tuple[Any, Any]:
    """Returns the coordinates of the elements of blocks, each in row-major order."""
    shape = (len(rows), height, width)
    first = rows[:, None, None] * height + np.arange(height)[None, :, None]
    second = columns[:, None, None] * width + np.arange(width)[None, None, :]
    return np.broadcast_to(first, shape).reshape(-1), np.broadcast_to(second, shape).reshape(-1)


def parts_of_scipy(value: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Returns the layout of a sparse SciPy array, its components, with indices not yet in the type that files have,
    and the attributes that state its class."""
    import numpy as np

    name = type(value).__name__
    own: dict[str, Any] = {} if name in ("csr_array", "coo_array") else {CLASS: name}
    if value.format == "csr" and len(value.shape) == 2:
        return "sparse_csr", {"values": value.data, "indices": value.indices, "indptr": value.indptr}, own
    if value.format == "csr":
        own = {CLASS: name}
    if value.format == "csc":
        columns = np.repeat(np.arange(value.shape[1]), np.diff(value.indptr))
        count = len(columns)
        return "sparse_coo", {"values": value.data[:count], "coords": np.stack([value.indices[:count], columns])}, own
    if value.format == "bsr":
        rows = np.repeat(np.arange(len(value.indptr) - 1), np.diff(value.indptr))
        height, width = value.blocksize
        data = value.data[: len(rows)]
        coords = np.stack(_of_blocks(rows, value.indices[: len(rows)].astype(np.int64), height, width, np))
        own[BLOCK] = [int(height), int(width)]
        return "sparse_coo", {"values": np.ascontiguousarray(data).reshape(-1), "coords": coords}, own
    coo = value.tocoo()
    all: Any = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
    return "sparse_coo", {"values": coo.data, "coords": np.stack(all)}, own



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
    attributes = tensor.attributes

    def make() -> Any:
        if compressed:
            return torch.sparse_csr_tensor(*where, values_of(found), shape, check_invariants=False)
        values = values_of(found)
        stacked = np.stack(places) if places else np.empty((0, len(values)), np.int64)
        out = torch.sparse_coo_tensor(torch.from_numpy(stacked), values, shape, check_invariants=False)
        if tensor.layout in CSR:
            # Entries may be unsorted and repeated in files, but not in torch's compressed rows.
            return out.coalesce().to_sparse_csr()
        out = out._coalesced_(True) if _rising(places, np) else out
        layout, block = attributes.get(TORCH), attributes.get(TORCH_BLOCK)
        if layout == "sparse_csc" and len(shape) == 2:
            return out.coalesce().to_sparse_csc()
        if layout in ("sparse_bsr", "sparse_bsc") and len(shape) == 2 and _is_block(block, shape):
            return getattr(out.coalesce(), f"to_{layout}")(block)
        return out

    out = _made(tensor, "torch", make)
    return out if device is None else out.to(device)


def _made(tensor: Tensor, where: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except HoldallError as e:
        raise with_tensor_name(e, tensor.file.name, tensor.name) if isinstance(e, UnsupportedError) else e from None
    except (TypeError, ValueError, OverflowError, RuntimeError) as e:
        raise UnsupportedError(
            f"{tensor.file.name}: tensor `{tensor.name}`: {where} has no such sparse array of shape "
            f"{list(tensor.shape)}: {e}",
            code="python/shape",
            kind="unsupported",
            source=tensor.file.name,
            tensor=tensor.name,
        ) from None


def _is_block(block: Any, shape: tuple[int, ...]) -> bool:
    """Returns whether ``block`` is a height and a width that divide the shape of a matrix."""
    if not (isinstance(block, list) and len(block) == 2):
        return False
    return all(isinstance(n, int) and n > 0 and size % n == 0 for n, size in zip(block, shape))


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


def parts_of_torch(value: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Returns the layout of a sparse torch tensor, its components, with indices not yet in the type that files
    have, and the attributes that state its layout.

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
        return "sparse_csr", {"values": value.values(), "indices": indices, "indptr": indptr}, {}
    own: dict[str, Any] = {}
    if value.layout != torch.sparse_coo:
        own[TORCH] = str(value.layout).partition(".")[2]
        if value.layout in (torch.sparse_bsr, torch.sparse_bsc):
            own[TORCH_BLOCK] = [int(n) for n in value.values().shape[-2:]]
        try:
            value = value.to_sparse_coo().coalesce()
        except RuntimeError as e:
            raise UnsupportedError(
                f"torch cannot convert a tensor of layout {value.layout} to coordinates: {e}",
                code="python/layout",
                kind="unsupported",
                hint="save x.to_dense()",
            ) from None
    return "sparse_coo", {"values": value._values(), "coords": value._indices().cpu().numpy()}, own


def is_torch(value: Any) -> bool:
    """Returns whether ``value`` is a sparse torch tensor."""
    return (
        type(value).__module__.partition(".")[0] == "torch"
        and hasattr(value, "detach")
        and str(value.layout).startswith("torch.sparse")
    )


def is_scipy(value: Any) -> bool:
    """Returns whether ``value`` is a sparse SciPy array or matrix."""
    return type(value).__module__.startswith("scipy.sparse") and hasattr(value, "tocoo")
