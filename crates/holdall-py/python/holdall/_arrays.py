"""Element types, and arrays of NumPy and others as bytes and back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, Iterator, NamedTuple, cast

from ._encode import PACKED, numbers
from .errors import MissingPackageError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import numpy as np

    from ._holdall import Buffer
    from ._tensor import Tensor
    from .errors import HoldallError

#: Element types that NumPy has.
PLAIN = frozenset(
    "float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool complex64 complex128".split()
)
#: Element types that ml_dtypes adds. The last three are packed in files, and one element per byte in memory.
EXTRA = frozenset(
    "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu "
    "float6_e2m3fn float6_e3m2fn float4_e2m1fn".split()
)
#: The packed type that torch has too (two elements per byte), and its name in torch.
FP4, PAIRS = "float4_e2m1fn", "float4_e2m1fn_x2"
#: DLPack's code and bits of each element type.
DLPACK = {
    "int8": (0, 8),
    "int16": (0, 16),
    "int32": (0, 32),
    "int64": (0, 64),
    "uint8": (1, 8),
    "uint16": (1, 16),
    "uint32": (1, 32),
    "uint64": (1, 64),
    "float16": (2, 16),
    "float32": (2, 32),
    "float64": (2, 64),
    "bfloat16": (4, 16),
    "complex32": (5, 32),
    "complex64": (5, 64),
    "complex128": (5, 128),
    "bool": (6, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
}
#: Bytes that are handed to the writer at a time: bounds both the wait after Ctrl-C and the memory of a copy.
CHUNK = 32 << 20


#: Cache of NumPy dtypes by name. The native half creates arrays of these types itself.
DTYPES: dict[str, np.dtype[Any]] = {}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Returns NumPy's dtype of that name, little-endian.

    Raises:
        UnsupportedError: ml_dtypes is needed and not installed, or the name is unknown.
    """
    known = DTYPES.get(name)
    if known is None:
        known = DTYPES[name] = _numpy_dtype(name)
    return known


def extra_dtype(name: str) -> np.dtype[Any]:
    """Returns the dtype of that name in ml_dtypes.

    Raises:
        UnsupportedError: ml_dtypes is not installed, or lacks the type.
    """
    import numpy as np

    try:
        import ml_dtypes
    except ImportError:
        raise MissingPackageError(
            f"NumPy has no {name}",
            code="python/extra",
            kind="unsupported",
            hint="pip install ml_dtypes; or use torch(), DLPack, or the bytes in components",
        ) from None
    if hasattr(ml_dtypes, name):
        extra: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return extra
    raise MissingPackageError(
        f"this ml_dtypes has no {name}",
        code="python/extra",
        kind="unsupported",
        hint="pip install --upgrade ml_dtypes",
    )


def _numpy_dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    if name in PLAIN:
        plain: np.dtype[Any] = np.dtype(name)
        return plain if sys.byteorder == "little" else plain.newbyteorder("<")
    if name in EXTRA:
        return extra_dtype(name)
    raise UnsupportedError(
        f"the element type {name!r} is unknown",
        code="python/dtype",
        kind="unsupported",
        hint='its storage elements: t.components["data"].numpy()',
    )


def cache_dtypes(dtypes: list[str]) -> None:
    """Looks up NumPy's dtypes of these names and caches those that exist."""
    for name in dtypes:
        try:
            numpy_dtype(name)
        except UnsupportedError:
            pass  # The error is raised again when a tensor needs the type.


def complete_load(
    loaded: tuple[dict[str, Any], list[str]], make: Callable[..., Any], faults: dict[str, HoldallError] | None = None
) -> dict[str, Any]:
    """Creates the arrays that the native half could not create: calls ``make`` with the name, shape, element type,
    buffer, start in the buffer, and whether to copy. A tensor for which that fails is left out, and its error added to
    ``faults``; without ``faults``, the error is raised."""
    out, rest = loaded
    for name in rest:
        place = out[name]
        if isinstance(place, tuple):
            try:
                out[name] = make(name, *place)
            except UnsupportedError as e:
                if faults is None:
                    raise
                faults[name] = e
                del out[name]
        elif place in out:
            first = out[place]
            out[name] = first.reshape(first.shape)
        else:
            assert faults is not None
            faults[name] = faults[place]
            del out[name]
    return out


def flat(buffer: Buffer, storage: str) -> np.ndarray[Any, Any]:
    """Returns the storage elements as an array of shape ``(count,)``."""
    import numpy as np

    name = "uint16" if storage == "bfloat16" else storage
    return array(buffer, 0, (len(buffer) // np.dtype(name).itemsize,), name)


def array(buffer: Buffer, offset: int, shape: tuple[int, ...], name: str) -> np.ndarray[Any, Any]:
    """Returns the elements in ``buffer`` from byte ``offset`` on, without a copy unless they are packed."""
    import numpy as np

    dtype = numpy_dtype(name)
    memory: Any = buffer
    try:
        if name not in PACKED and 0 not in shape:
            return np.ndarray(shape, dtype, memory, offset)
        out = np.empty(shape, dtype)
    except ValueError as e:
        # Files may have more dimensions than NumPy's arrays, or longer ones if another dimension is 0.
        raise UnsupportedError(
            f"NumPy has no arrays of shape {list(shape)}: {e}", code="python/shape", kind="unsupported"
        ) from None
    if out.size:
        out = unpack(buffer, offset, shape, PACKED[name]).view(dtype)
    out.flags.writeable = not buffer.readonly
    return out


def strided_view(
    buffer: Buffer, start: int, shape: tuple[int, ...], name: str, strides: list[Any]
) -> np.ndarray[Any, Any] | None:
    """Returns a view into ``buffer`` with these strides, in elements; ``None`` if elements would be outside of the
    buffer, or are packed."""
    import numpy as np

    if name in PACKED or 0 in shape:
        return None
    dtype, memory = numpy_dtype(name), cast(Any, buffer)
    try:
        return np.ndarray(shape, dtype, memory, start, tuple(n * dtype.itemsize for n in strides))
    except (TypeError, ValueError, OverflowError):
        return None


def unpack(buffer: Buffer, offset: int, shape: tuple[int, ...], bits: int) -> np.ndarray[Any, Any]:
    """Unpacks elements of ``bits`` bits, packed low bits first, to one element per byte."""
    import numpy as np

    count = 1
    for size in shape:
        count *= size
    memory: Any = buffer
    packed = np.frombuffer(memory, np.uint8, (count * bits + 7) // 8, offset)
    each = np.unpackbits(packed, bitorder="little")[: count * bits].reshape(count, bits)
    return np.packbits(each, axis=1, bitorder="little").reshape(shape)


def pack(codes: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Packs elements of one byte each to ``bits`` bits: the reverse of :func:`unpack`."""
    import numpy as np

    each = np.unpackbits(codes.reshape(-1, 1), axis=1, bitorder="little")[:, :bits]
    return np.packbits(each.reshape(-1), bitorder="little")


def dtype_name(dtype: Any) -> str:
    """Returns Holdall's name of an element type that is given by its name, or as NumPy's or torch's dtype."""
    if isinstance(dtype, str) and (dtype in PLAIN or dtype in EXTRA):
        return dtype
    if type(dtype).__module__.partition(".")[0] == "torch":
        return str(dtype).partition(".")[2]
    import numpy as np

    return name_of(np.dtype(dtype))


class Writable(NamedTuple):
    """An array about to be written."""

    array: np.ndarray[Any, Any]
    dtype: str
    #: An identity that two arrays share if they are the same tensor, for cases where their memory does not show it.
    identity: tuple[Any, ...] | None
    #: An object that keeps the memory alive.
    owner: Any
    #: The shape in elements, if ``array`` holds packed elements as bytes.
    packed: tuple[int, ...] | None = None
    #: Attributes with NumPy's type of the elements, if it is not ``dtype``.
    attributes: dict[str, Any] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape) if self.packed is None else self.packed

    @property
    def nbytes(self) -> int:
        """The number of bytes of its elements in a file."""
        bits = PACKED.get(self.dtype) if self.packed is None else None
        return int(self.array.nbytes) if bits is None else (int(self.array.size) * bits + 7) // 8

    @property
    def lent(self) -> np.ndarray[Any, Any] | None:
        """The array, if its memory layout is the one of a file; otherwise ``None``."""
        is_plain = _is_plain(self.array, None if self.packed else self.dtype)
        return self.array if is_plain and not (self.dtype == "bool" and has_odd_bools(self.array)) else None

    def chunks(self) -> Iterator[Any]:
        """Yields its bytes, row-major and little-endian, in chunks. Booleans are written as 0 or 1, whatever byte
        they are in memory."""
        if self.dtype != "bool":
            yield from self._chunks()
            return
        for chunk in self._chunks():
            yield (chunk != 0).view(chunk.dtype) if has_odd_bools(chunk) else chunk

    def _chunks(self) -> Iterator[Any]:
        import numpy as np

        a = self.array
        if a.size == 0:
            return
        if self.dtype in PACKED and self.packed is None:
            yield pack(np.ascontiguousarray(a).view(np.uint8), PACKED[self.dtype])
            return
        if a.flags.c_contiguous and not is_big_endian(a.dtype):
            flat = a.reshape(-1).view(np.uint8)
            for start in range(0, flat.size, CHUNK):
                yield flat[start : start + CHUNK]
            return
        if a.ndim == 0 or a.nbytes <= CHUNK:
            yield little_endian_bytes(a)
            return
        rows = max(1, CHUNK * a.shape[0] // a.nbytes)
        for start in range(0, a.shape[0], rows):
            part = a[start : start + rows]
            if part.nbytes <= 2 * CHUNK:
                yield little_endian_bytes(part)
            else:
                yield from self._replace(array=part[0])._chunks()


def plain_name(dtype: np.dtype[Any]) -> str | None:
    """Returns Holdall's name of NumPy's dtype, or ``None`` if its memory layout differs from a file's."""
    name = str(dtype.name)
    known = name in PLAIN or name in EXTRA
    return name if known and name not in PACKED and not is_big_endian(dtype) else None


def has_odd_bools(a: np.ndarray[Any, Any]) -> bool:
    """Returns whether a contiguous array of booleans (or of their bytes) has bytes other than 0 and 1."""
    import numpy as np

    return bool(a.size) and bool(a.reshape(-1).view(np.uint8).max() > 1)


def _is_plain(a: np.ndarray[Any, Any], name: str | None) -> bool:
    """Returns whether elements of that type have the same layout in memory as in a file."""
    return a.flags.c_contiguous and not is_big_endian(a.dtype) and name not in PACKED


def is_big_endian(dtype: np.dtype[Any]) -> bool:
    """Returns whether elements of that dtype are big-endian on this machine."""
    order = dtype.byteorder
    return order == ">" or (order == "=" and sys.byteorder == "big" and dtype.itemsize > 1)


def little_endian_bytes(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the bytes of a row-major little-endian copy."""
    import numpy as np

    order = a.dtype.newbyteorder("<") if is_big_endian(a.dtype) else a.dtype
    return np.ascontiguousarray(a, order).reshape(-1).view(np.uint8)


def name_of(dtype: np.dtype[Any], what: str = "") -> str:
    """Returns Holdall's name of NumPy's dtype; ``what`` names the array in errors.

    Raises:
        UnsupportedError: such elements (strings, objects, records, dates) cannot be stored as a tensor.
    """
    name = str(dtype.name)
    if name in PLAIN or name in EXTRA:
        return name
    hint = "convert them first, for example x.astype('float32')"
    if dtype.hasobject:
        hint = "convert them first, for example x.astype('float32') or, of texts, x.astype(str)"
    raise UnsupportedError(
        f"{what + ': ' if what else ''}elements of NumPy's dtype {dtype} cannot be stored",
        code="python/dtype",
        kind="unsupported",
        hint=hint,
    )


def writable_array(value: Any, what: str = "a tensor") -> Writable:
    """Converts an array of NumPy, torch, jax, or anything with DLPack, ``__array__`` or the buffer protocol.

    Raises:
        TypeError: ``value`` is not an array.
        UnsupportedError: the element type or the device is not supported.
    """
    import numpy as np

    if isinstance(value, Writable):
        return value
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        return _of_torch(value, what)
    if isinstance(value, np.ndarray):
        a = value
    elif isinstance(value, np.generic) or hasattr(value, "__array__"):
        a = np.asarray(value)
    elif hasattr(value, "__dlpack__"):
        a = np.from_dlpack(value)
    else:
        if isinstance(value, (str, int, float, complex, list, tuple, dict)) or value is None:
            raise TypeError(f"{what} must be an array, not {type(value).__name__}: numpy.asarray makes one")
        try:
            view = memoryview(value)
        except TypeError:
            raise TypeError(
                f"{what} must be an array (NumPy, torch, jax, DLPack, the buffer protocol), not {type(value).__name__}"
            ) from None
        a = np.asarray(view)
    if isinstance(a, np.ma.MaskedArray):
        raise UnsupportedError(
            f"{what} is a masked array, which is two tensors",
            code="python/dtype",
            kind="unsupported",
            hint="holdall.save and Writer.add write masked arrays; or pass x.filled()",
        )
    noted = None
    if a.dtype.name not in PLAIN:
        encoded = numbers(a)
        if encoded is not None:
            a, noted = encoded
    name = name_of(a.dtype, what)
    if a.size == 0 or _is_plain(a, name):
        return Writable(a, name, None, (value, a), None, noted)
    identity = (a.__array_interface__["data"][0], name, a.shape, a.strides, a.dtype.byteorder)
    return Writable(a, name, identity, (value, a), None, noted)


def _of_torch(tensor: Any, what: str) -> Writable:
    import numpy as np
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized:
        raise UnsupportedError(
            f"{what}: a sparse or quantized torch tensor is not dense",
            code="python/layout",
            kind="unsupported",
            hint="holdall.save and Writer.add take sparse ones; or x.to_dense(), x.dequantize()",
        )
    has_elements(tensor)
    name = str(tensor.dtype).partition(".")[2]
    if name == PAIRS:
        name = FP4
    if name not in PLAIN and name not in EXTRA:
        raise UnsupportedError(
            f"{what}: elements of {tensor.dtype} cannot be stored", code="python/dtype", kind="unsupported", hint=None
        )
    tensor = tensor.detach().resolve_conj().resolve_neg()
    identity = (
        (str(tensor.device), tensor.data_ptr(), name, tuple(tensor.shape), tensor.stride()) if tensor.numel() else None
    )
    host = tensor.cpu().contiguous()
    raw = bytes_of(host).numpy()
    shape = tuple(tensor.shape)
    if name == FP4:
        return Writable(raw, name, identity, host, (*shape[:-1], 2 * shape[-1]) if shape else (2,))
    if name in PLAIN:
        return Writable(raw.view(np.dtype(name)).reshape(shape), name, identity, host)
    # NumPy may lack the type; the writer only needs its name.
    width = 2 if name == "bfloat16" else 1
    return Writable(raw.view(np.dtype(f"uint{8 * width}")).reshape(shape), name, identity, host)


def bytes_of(tensor: Any) -> Any:
    """Returns the bytes of a contiguous torch tensor of the host, of shape ``(count,)``."""
    import torch

    flat = tensor.reshape(-1)
    if flat.stride() != (1,):
        # A dimension of size 1 may have any stride, also in a contiguous tensor, and views as another type need 1.
        flat = flat.as_strided((flat.numel(),), (1,))
    return flat.view(torch.uint8)


def has_elements(tensor: Any) -> None:
    """Refuses torch tensors on the device ``meta``, which have a shape but no elements."""
    if tensor.device.type == "meta":
        raise UnsupportedError(
            "a torch tensor on the device `meta` has no elements", code="python/tensor", kind="unsupported"
        )


def writable(buffer: Any, target: Tensor | None = None) -> Any:
    """Returns the memory of an array to read into: an object with the buffer protocol, or a torch tensor. If
    ``target`` is given, the element types must match."""
    if type(buffer).__module__.partition(".")[0] == "torch" and hasattr(buffer, "detach"):
        from ._torch import memory

        _compare(target, str(buffer.dtype).partition(".")[2])
        return memory(buffer)
    import numpy as np

    if isinstance(buffer, np.ndarray):
        # Types that NumPy takes from ml_dtypes do not support the buffer protocol.
        if not buffer.flags.c_contiguous:
            raise UsageError("the array to read into is not contiguous", code="python/buffer", kind="misuse")
        if buffer.dtype.hasobject:
            raise UsageError("an array of objects cannot be read into", code="python/buffer", kind="misuse")
        if buffer.dtype.byteorder == ">":
            raise UsageError("the array to read into is big-endian", code="python/buffer", kind="misuse")
        # Strings and times, which files store as numbers, match a tensor that has this very dtype in NumPy.
        if target is None or target._info[5] is None or buffer.dtype != target.numpy_dtype:
            _compare(target, str(buffer.dtype.name))
        return buffer.reshape(-1).view(np.uint8)
    try:
        view = memoryview(buffer)
    except TypeError:
        return buffer  # The native half raises the error.
    # Bytes are not elements.
    if view.format not in ("B", "c"):
        _compare(target, str(np.asarray(view).dtype.name))
    return buffer


def _compare(target: Tensor | None, found: str) -> None:
    """Raises if the element type differs from the tensor's."""
    wanted = target.dtype if target is not None else found
    if target is None or found == wanted:
        return
    if wanted in PACKED:
        # Packed elements have no matching array type, except torch's pairs.
        is_same = found == "uint8" or (wanted == FP4 and found == PAIRS)
    else:
        is_unknown = wanted not in PLAIN and wanted not in EXTRA
        is_same = is_unknown and found == target.components["data"].storage
    if not is_same:
        raise UsageError(
            f"{target.file.name}: tensor `{target.name}`: its elements are {wanted}, those of the array to read into {found}",
            code="python/buffer",
            kind="misuse",
            source=target.file.name,
            tensor=target.name,
            hint=f"read into an array of {wanted}; or raw=True for the bytes as they are",
        )


def with_tensor_name(e: UnsupportedError, source: str, tensor: str) -> UnsupportedError:
    """Returns the error with the names of its source and tensor."""
    return UnsupportedError(
        f"{source}: tensor `{tensor}`: {e._message}",
        code=e.code,
        kind=e.kind,
        source=source,
        tensor=tensor,
        hint=e.hint,
    )
