"""Sparse tensors as SciPy's and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from .errors import Unsupported

if TYPE_CHECKING:
    from ._tensor import Tensor


def to_scipy(tensor: "Tensor") -> Any:
    """``csr_array`` or ``coo_array``, in memory of its own."""
    try:
        import scipy.sparse
    except ImportError:
        raise Unsupported(
            "SciPy is not installed",
            code="python/extra",
            kind="unsupported",
            hint="pip install scipy; or to_dense()",
        ) from None
    import numpy as np

    native, shape = tensor._native(), tensor.shape
    if tensor.layout in ("sparse_csr", "sparsecsr"):
        indptr, indices, (dtype, count, values) = native.csr(tensor._at)
        where = [_index(b, np) for b in (indices, indptr)]
        data = tensor._array(values, 0, tuple(count), dtype).copy()
        return _made(tensor, lambda: scipy.sparse.csr_array((data, *where), shape=shape))
    if tensor.layout in ("sparse_coo", "sparsecoo"):
        coords, (dtype, count, values) = native.coo(tensor._at)
        places = tuple(_index(b, np) for b in coords)
        data = tensor._array(values, 0, tuple(count), dtype).copy()
        return _made(tensor, lambda: scipy.sparse.coo_array((data, places), shape=shape))
    raise tensor._misuse(f"its layout is {tensor.layout}, which is not sparse", None)


def _made(tensor: "Tensor", make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (TypeError, ValueError, OverflowError) as e:
        raise Unsupported(
            f"{tensor.file.name}: tensor `{tensor.name}`: SciPy has no such sparse array of shape "
            f"{list(tensor.shape)}: {e}",
            code="python/shape",
            kind="unsupported",
            source=tensor.file.name,
            tensor=tensor.name,
        ) from None


def _index(buffer: Any, np: Any) -> Any:
    """Indices as SciPy wants them: signed, 32 bits where they fit. They were held against the shape."""
    words = np.frombuffer(buffer, np.uint64) if len(buffer) else np.empty(0, np.uint64)
    small = words.size == 0 or int(words.max()) < 1 << 31
    return words.astype(np.int32 if small else np.int64)


def is_scipy(value: Any) -> bool:
    """Whether it is one of SciPy's sparse arrays or matrices."""
    return type(value).__module__.startswith("scipy.sparse") and hasattr(value, "tocoo")
