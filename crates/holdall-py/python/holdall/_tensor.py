"""Tensors of open files, and their components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from . import _holdall, _slices
from ._arrays import DLPACK, PLAIN, array, flat, numpy_dtype, strided_view, with_tensor_name, writable
from ._dtype import DType
from ._encode import PACKED
from ._kinds import restored, restoring
from ._progress import Progress, listening
from ._reports import Stats, VerifyReport
from .errors import HoldallError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from types import EllipsisType

    import numpy as np
    import torch

    from ._blob import Blob
    from ._file import File
    from ._records import Records

__all__ = ["Tensor", "Component"]


#: Methods that accept a tensor whose elements are not stored in row-major order.
ARRAYS = ("numpy", "torch", "[]", "__dlpack__")
#: Hints of how to read layouts that are not arrays.
WAYS = {"records": "records() gives rows and columns", "blob": "blob() gives its runs"}


def is_dense(layout: str) -> bool:
    """Returns whether the elements of a tensor are read as bytes in row-major order: those in planes are joined."""
    return layout == "dense" or layout.startswith("planes.")


def way(layout: str, other: str) -> str:
    """Returns a hint of how to read a tensor of that layout; ``other`` if the layout is some kind of array."""
    return WAYS.get(layout, other)


class Component:
    """One stored run of bytes of a tensor, in one role."""

    __slots__ = (
        "_tensor", "role", "dtype", "storage", "encoding", "byte_order", "start", "end", "nbytes", "digest",
    )  # fmt: skip

    #: The component's role: ``"data"``, ``"values"``, ``"scales"``, …
    role: str
    #: The element type.
    dtype: DType
    #: The type that its elements are stored as.
    storage: DType
    #: ``"raw"`` or ``"zstd"``.
    encoding: str
    #: ``"little"`` or ``"big"``: the byte order in the file; arrays are always little-endian.
    byte_order: str
    #: Offset of its stored bytes in the file; ``None`` if the manifest contains them as numbers, as zTensor 0.1
    #: allows for indices.
    start: int | None
    #: End offset of its stored bytes.
    end: int | None
    #: The number of decoded bytes; ``None`` if it is only known after decoding.
    nbytes: int | None
    #: The digest of the stored bytes, such as ``"crc32c:0x1c291ca3"``.
    digest: str | None

    def __init__(self, tensor: Tensor, row: tuple[Any, ...]) -> None:
        self._tensor = tensor
        (self.role, dtype, storage, self.encoding, self.byte_order) = row[:5]
        self.dtype, self.storage = DType(dtype), DType(storage)
        (self.start, self.end, self.nbytes, self.digest) = row[5:]

    def bytes(self) -> memoryview:
        """Returns its decoded bytes, read-only: a view into the map if they are stored raw."""
        t = self._tensor
        buffer: Any = t._native().read(t._at, self.role)
        return memoryview(buffer)

    def stored(self) -> memoryview:
        """Returns its bytes as stored in the file."""
        t = self._tensor
        buffer: Any = t._native().stored(t._at, self.role)
        return memoryview(buffer)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Returns its storage elements as a read-only array of shape ``(count,)``."""
        t = self._tensor
        return flat(t._native().read(t._at, self.role), self.storage)

    def __reduce__(self) -> Any:
        return _component, (self._tensor, self.role)

    def __repr__(self) -> str:
        return f"<holdall.Component {self.role!r} {self.dtype}, {self.encoding}, bytes {self.start}..{self.end}>"


class Tensor:
    """A tensor of an open file. Its bytes are read on access.

    It is an array for NumPy (``numpy.asarray(t)``), for DLPack (``torch.from_dlpack(t)``) and for
    ``memoryview``; indexing it (``t[10:20]``, ``t[3, :, 0]``) reads only the rows that are needed.
    """

    __slots__ = ("_file", "_at", "_info")

    def __init__(self, file: File, at: int) -> None:
        self._file = file
        self._at = at
        self._info = file._native.info(at)

    def _native(self) -> _holdall.File:
        return self._file._native

    @property
    def name(self) -> str:
        """The tensor's name, exactly as in the file."""
        return self._info[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions, in elements; ``()`` for a scalar."""
        return self._info[1]

    @property
    def fault(self) -> HoldallError | None:
        """The error that reading the tensor raises; ``None`` if it can be read."""
        return self._native().fault(self._at)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._info[1])

    @property
    def size(self) -> int:
        """The number of elements."""
        out = 1
        for n in self._info[1]:
            out *= n
        return out

    @property
    def layout(self) -> str:
        """The tensor's layout: ``"dense"``, ``"sparse_csr"``, ``"quantized_group"``, …"""
        return self._info[2]

    @property
    def dtype(self) -> DType:
        """The element type: ``"float32"``, ``"bfloat16"``, ``"float8_e4m3fn"``, … It is also equal to the type of NumPy,
        ml_dtypes or torch: ``t.dtype == np.float32``."""
        return DType(self._info[3] or "none")

    @property
    def stored_nbytes(self) -> int:
        """The number of bytes of its components in the file."""
        return self._info[4]

    @property
    def nbytes(self) -> int:
        """The number of decoded bytes of its components, as far as the file states them."""
        return sum(c.nbytes or 0 for c in self.components.values())

    @property
    def attributes(self) -> dict[str, Any]:
        """The tensor's attributes."""
        return self._native().tensor_attributes(self._at)

    @property
    def components(self) -> dict[str, Component]:
        """The components by role, in the file's own order."""
        return {row[0]: Component(self, row) for row in self._native().components(self._at)}

    @property
    def location(self) -> dict[str, tuple[int, int]]:
        """Start and end of each component's stored bytes in the file. Components whose numbers are in the manifest
        are left out."""
        found = self.components.items()
        return {role: (c.start, c.end) for role, c in found if c.start is not None and c.end is not None}

    @property
    def file(self) -> File:
        """The file that contains the tensor."""
        return self._file

    def numpy(self, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Returns a dense or strided tensor as a NumPy array of its shape. NumPy's strings, bytes and times, which files store
        as numbers, have their NumPy dtype, as with :func:`holdall.load`; for strings and bytes, the last dimension of
        ``shape`` is the number of characters.

        Args:
            copy: ``None``: read-only, without a copy if the file is mapped and the bytes are stored raw. ``True``:
                writable, in separate memory. ``False``: read-only, and an error if a copy is needed.

        Raises:
            UsageError: the tensor is not an array, the file is closed, or ``copy=False`` although bytes must be decoded.
            UnsupportedError: the element type needs ml_dtypes, which is not installed.
        """
        return restored(self._numbers(copy), self._info[5])

    def _numbers(self, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Returns a tensor as an array of the stored numbers, also if they are strings or times in NumPy.
        ``copy`` is as for :meth:`numpy`."""
        native = self._file._native
        if self._info[2] == "strided":
            return self._turned(copy)
        if copy is None:
            view: np.ndarray[Any, Any] | None = native.view(self._at)
            if view is not None:
                return view
        self._dense("numpy")
        if copy:
            buffer, start = native.read_owned(self._at, "data")
            out = self._array(buffer, start, self.shape)
            return out if out.flags.aligned else out.copy()
        if copy is False and (self.dtype in PACKED or not native.is_view(self._at, "data")):
            raise self._misuse("its bytes in memory do not have the layout of an array", "leave copy=False out")
        return self._array(native.read(self._at, "data"), 0, self.shape)

    def _turned(self, copy: bool | None) -> np.ndarray[Any, Any]:
        """Returns a tensor whose elements are not stored in row-major order as an array over them. A copy keeps their order, and
        has no gaps."""
        import numpy as np

        self._dense("numpy")
        native, strides = self._native(), self.attributes.get("strides")
        if copy is False and not native.is_view(self._at, "data"):
            raise self._misuse("its bytes in memory do not have the layout of an array", "leave copy=False out")
        buffer, start = native.read_owned(self._at, "data") if copy else (native.read(self._at, "data"), 0)
        out = strided_view(buffer, start, self.shape, self.dtype, strides) if isinstance(strides, list) else None
        if out is None:
            return self.to_dense()  # Or it says what is wrong with the strides.
        has_gaps = out.nbytes != len(buffer) - start or not out.flags.aligned
        return np.array(out, order="K") if copy and has_gaps else out

    def torch(self, device: Any = None) -> torch.Tensor:
        """Returns the tensor as a torch tensor in separate memory, on ``device`` (by default the host).

        Dense tensors stay dense and keep their shape, except FP4, which torch stores in pairs (``torch.float4_e2m1fn_x2``),
        so that the last dimension is half as long. Sparse ones become ``torch.sparse_csr`` or ``torch.sparse_coo``.

        Raises:
            UnsupportedError: torch is not installed, or lacks the element type.
            MalformedError: a sparse tensor has indices outside of its shape.
            UsageError: the tensor has another layout, or the file is closed.
        """
        from ._sparse import LAYOUTS, to_torch
        from ._torch import strided, tensor

        out: torch.Tensor
        if self.layout in LAYOUTS:
            out = to_torch(self, device)
            return out
        self._dense("torch")
        if self.layout == "strided":
            out = strided(self, device)
            return out
        buffer, start = self._native().read_owned(self._at, "data")
        out = tensor(buffer, start, self.shape, self.dtype, device)
        return out

    def to_dense(self) -> np.ndarray[Any, Any]:
        """Returns a writable dense copy of a tensor of any layout: sparse tensors with their zeros, quantized ones as
        float32, others as described by the ``layouts`` that the file was opened with.

        Raises:
            MalformedError: an index is outside of the shape.
            LimitError: the copy has more bytes than ``limits["decoded_len"]``.
            UnsupportedError: the layout has no elements.
        """
        if is_dense(self.layout):
            return self.numpy(copy=True)
        if self.layout in WAYS and self.fault is None:
            raise UnsupportedError(
                f"{self._file.name}: tensor `{self.name}`: the layout {self.layout} has no dense form",
                code="file/unknown-layout",
                kind="unsupported",
                source=self._file.name,
                tensor=self.name,
                hint=way(self.layout, ""),
            )
        dtype, shape, buffer = self._native().to_dense(self._at)
        return self._array(buffer, 0, tuple(shape), dtype).copy()

    def dequantize(self) -> np.ndarray[Any, Any]:
        """Returns a quantized tensor (in groups or in GGUF blocks) as float32 in its shape; a tensor of a described
        layout is decoded as its description says.


        Raises:
            UsageError: the tensor is not quantized.
        """
        if not (
            self.layout == "quantized_group"
            or self.layout.startswith("gguf.")
            or self._native().is_described(self._at)
        ):
            raise self._misuse(f"its layout is {self.layout}, not quantized_group", None)
        return self.to_dense()

    def scipy(self) -> Any:
        """Returns a sparse tensor as ``scipy.sparse.csr_array`` or ``coo_array``.

        Raises:
            UnsupportedError: SciPy is not installed.
            MalformedError: an index is outside of the shape.
            UsageError: the tensor is not sparse.
        """
        from ._sparse import to_scipy

        return to_scipy(self)

    def records(self) -> Records:
        """Returns the records of a dataset (layout ``records``): rows, columns, text.

        Raises:
            UsageError: the tensor is not a dataset, or the file is closed.
            MalformedError: its schema is not valid, or its length does not fit the schema.
        """
        from ._records import records

        return records(self)

    def blob(self) -> Blob:
        """Returns the entries of a blob (layout ``blob``): text, JSON, bytes or arrays.

        Raises:
            UsageError: the tensor is not a blob, or the file is closed.
            MalformedError: its schema is not valid, or its length does not fit the schema.
        """
        from ._blob import blob

        return blob(self)

    def read_into(self, buffer: Any, *, raw: bool = False) -> None:
        """Decodes the tensor into existing memory: a writable, contiguous array or buffer of exactly its size, with
        its element type unless ``raw`` is true: see :func:`holdall.load_into`.

        Raises:
            UsageError: the buffer is read-only, not contiguous, or has another length or element type.
        """
        self._dense("read_into")
        self._native().read_into(self._at, "data", writable(buffer, None if raw else self))

    def stats(self, bins: int = 16, *, threads: int | None = None, progress: Progress = None) -> Stats:
        """Returns min, max, mean, std, counts of special values, and a histogram, read in bounded memory.

        Raises:
            UnsupportedError: the layout has no elements.
        """
        with listening(progress) as listener:
            return Stats._of(self._native().stats(self._at, bins, threads, listener))

    def verify(self) -> VerifyReport:
        """Checks the tensor's digests, and the rules of its layout."""
        return VerifyReport._of(self._native().verify_tensor(self._at))

    @overload
    def __getitem__(self, key: slice | EllipsisType | None | list[Any] | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]: ...
    @overload
    def __getitem__(self, key: tuple[slice | EllipsisType | None, ...]) -> np.ndarray[Any, Any]: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        """Returns the elements that NumPy's ``a[key]`` selects. For basic keys (integers, slices, ``...``,
        ``None``) only the needed rows are read; the result may be a read-only view into the map."""
        if type(key) is slice and self._info[1] and self._info[5] is None and is_dense(self._info[2]):
            start, stop, step = key.indices(self._info[1][0])
            rows = self._file._native.rows(self._at, start, stop) if step == 1 and start < stop else None
            if rows is not None:
                return rows
        self._dense("[]")
        if self._info[2] == "strided":
            return self.numpy()[key]
        return _slices.read(self, key)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        """Returns whether the only element of a tensor is not zero, as with NumPy's arrays.

        Raises:
            ValueError: the tensor has no element, or more than one. ``t is not None`` tests whether there is a tensor.
        """
        if self.size != 1:
            raise ValueError(
                f"the truth value of a tensor of shape {list(self.shape)} is ambiguous: use `is not None`, len(t), or "
                "t.numpy().any()"
            )
        return bool(self._scalar("bool"))

    def __float__(self) -> float:
        """Returns the value of a tensor of one element. Without this, Python would parse the tensor's bytes as text."""
        return float(self._scalar("float"))

    def __int__(self) -> int:
        """Returns the value of a tensor of one element, without its fraction."""
        return int(self._scalar("int"))

    def __complex__(self) -> complex:
        """Returns the value of a tensor of one element."""
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        """Returns the value of an integer scalar, exactly.

        Raises:
            TypeError: the tensor is not a scalar, or not an integer.
        """
        if self.shape or not self.dtype.startswith(("int", "uint")):
            raise TypeError(f"only integer scalars are an index, not a {self.dtype} tensor of shape {list(self.shape)}")
        return int(self._scalar("index"))

    def _scalar(self, what: str) -> Any:
        """Returns the only element of a dense tensor as a Python number."""
        if self.size != 1:
            raise TypeError(f"only a tensor of one element converts to {what}; `{self.name}` has the shape {list(self.shape)}")
        return self._numbers().reshape(-1)[0].item()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        import numpy as np

        same = dtype is None or np.dtype(dtype) == self.numpy_dtype
        if copy is False and not same:
            raise self._misuse(f"{self.dtype} elements as {dtype} need a copy", None)
        a = self.numpy(copy=copy if same else None)
        return a if same else a.astype(dtype)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of its elements."""
        dtype = numpy_dtype(self.dtype)
        how = restoring(self._info[5], self.shape, dtype.itemsize)
        return dtype if how is None else how.dtype

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Returns a DLPack capsule. Consumers of DLPack 1.0 get a read-only view; older ones, which cannot mark
        memory as read-only, get a copy."""
        if stream is not None:
            raise BufferError("the memory is the host's: stream must be None")
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError("the memory is the host's")
        from ._torch import warn_of_view

        code = DLPACK.get(self.dtype)
        if code is None:
            raise BufferError(f"DLPack does not support {self.dtype} in this memory layout")
        self._dense("__dlpack__")
        if self._info[2] == "strided":
            return self._dlpack_moved(list(self.shape), code, max_version is not None and max_version[0] >= 1)
        native = self._native()
        versioned = max_version is not None and max_version[0] >= 1
        width = max(1, code[1] // 8)
        if self.dtype.startswith("complex"):
            width //= 2
        shape = list(self.shape)
        if versioned and not copy:
            is_view = native.is_view(self._at, "data")
            if is_view or copy is None:
                buffer = native.read(self._at, "data")
                if buffer.address % width == 0:
                    if is_view:
                        warn_of_view()
                    return buffer.dlpack(0, shape, *code, versioned=True, copied=not is_view)
        if copy is False:
            raise BufferError("a copy is needed: the bytes in memory do not have the layout of DLPack")
        buffer, start = native.read_owned(self._at, "data")
        if (buffer.address + start) % width:
            return self._dlpack_moved(shape, code, versioned)
        return buffer.dlpack(start, shape, *code, versioned=versioned, copied=versioned)

    def _dlpack_moved(self, shape: list[int], code: tuple[int, int], versioned: bool) -> Any:
        """Returns the capsule for elements that are not aligned in the file, by a copy."""
        import numpy as np

        a = self._numbers(copy=True) if self.dtype in PLAIN else None
        if a is None:
            raise BufferError("the elements lie at odd addresses; copy them with numpy(copy=True)")
        return np.asarray(a).__dlpack__(max_version=(1, 0)) if versioned else np.asarray(a).__dlpack__()

    def __arrow_c_schema__(self) -> Any:
        from ._arrow import schema_of_tensor

        self._dense("__arrow_c_schema__")
        return schema_of_tensor(self)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """Returns a dense tensor as an Arrow array: numbers, or rows that are tensors of fixed shape."""
        from ._arrow import array_of_tensor

        self._dense("__arrow_c_array__")
        return array_of_tensor(self)

    def __jax_array__(self) -> Any:
        """Returns a dense tensor as a jax array, for ``jax.numpy.asarray(t)``."""
        import jax.numpy

        return jax.numpy.asarray(self._numbers())

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __buffer__(self, flags: int) -> memoryview:
        a: Any = self._numbers()
        return memoryview(a)

    def _dense(self, what: str) -> None:
        """Raises if the tensor is not dense. The elements of a dense tensor are in its component ``data``."""
        fault = self.fault
        if fault is not None:
            raise fault
        if not is_dense(self._info[2]) and (self._info[2] != "strided" or what not in ARRAYS):
            raise self._misuse(
                f"{what}: its layout is {self.layout}, not dense",
                way(self.layout, "to_dense(), scipy(), dequantize() and components give what it has"),
            )

    def _array(
        self, buffer: _holdall.Buffer, start: int, shape: tuple[int, ...], dtype: str | None = None
    ) -> np.ndarray[Any, Any]:
        try:
            return array(buffer, start, shape, dtype or self.dtype)
        except UnsupportedError as e:
            raise with_tensor_name(e, self._file.name, self.name) from None

    def _misuse(self, message: str, hint: str | None) -> UsageError:
        return UsageError(
            f"{self._file.name}: tensor `{self.name}`: {message}",
            code="python/tensor",
            kind="misuse",
            source=self._file.name,
            tensor=self.name,
            hint=hint,
        )

    def __repr__(self) -> str:
        return f"<holdall.Tensor {self.name!r} {self.dtype} {list(self.shape)}, {self.layout}>"

    def _repr_html_(self) -> str:
        from ._tensor_html import tensor

        return tensor(self)

    def __reduce__(self) -> Any:
        return _tensor, (self._file, self.name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Tensor):
            return self._file is other._file and self._at == other._at
        return NotImplemented

    def __hash__(self) -> int:
        return hash((id(self._file), self._at))


def _tensor(file: File, name: str) -> Tensor:
    """Restores a pickled tensor."""
    return file[name]


def _component(tensor: Tensor, role: str) -> Component:
    """Restores a pickled component."""
    return tensor.components[role]
