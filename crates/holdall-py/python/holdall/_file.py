"""Open files and their tensors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

from . import _holdall, _slices
from ._arrays import DLPACK, PACKED, PLAIN, array
from ._progress import Progress, listening
from ._reports import Stats, VerifyReport, Warning
from .errors import Misuse, NotFound, Unsupported

if TYPE_CHECKING:
    import numpy as np

__all__ = ["open", "File", "Tensor", "Component", "Source"]

Io = Literal["auto", "map", "read", "direct"]
Check = Literal["off", "fast", "all"]
#: What :func:`open` takes.
Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Any]


def open(
    source: Source,
    *,
    io: Io = "auto",
    check: Check = "fast",
    limits: Optional[Mapping[str, int]] = None,
    name: Optional[str] = None,
) -> "File":
    """Opens a tensor file of any format that Holdall reads. Only its table of contents is read.

    Args:
        source: A path; or the file itself as ``bytes`` (not copied), ``bytearray``, ``memoryview``; or an
            object with ``read``, of which everything is read.
        io: How bytes are fetched: ``"map"`` maps the file, ``"read"`` reads by position, ``"direct"`` reads
            past the system's cache; ``"auto"`` maps on local disks and reads on network file systems.
        check: Digests that are checked when components are read: ``"off"``, ``"fast"`` (CRC-32C) or ``"all"``.
            What is only a view into the map is checked under ``"all"`` alone.
        limits: Caps of what the file may ask for, such as ``{"decoded_len": 1 << 30}`` (bytes).
        name: Name for a source without a path, for messages.

    Raises:
        MissingFile, Io: it cannot be read.
        Unsupported: no format claims it.
        Malformed, Limit: what its format finds wrong.
    """
    caps = dict(limits) if limits is not None else None
    if isinstance(source, (str, os.PathLike)):
        native = _holdall.File.open(source, io, check, caps)
        return File(native, os.fsdecode(source))
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = source if type(source) is bytes else bytes(source)
    elif hasattr(source, "read"):
        data = source.read()
        if not isinstance(data, bytes):
            raise TypeError("a file object is opened in binary mode: read() gives bytes")
        name = name or getattr(source, "name", None)
    else:
        raise TypeError(f"a path, bytes or an object with read() is opened, not {type(source).__name__}")
    name = name if isinstance(name, str) else "<bytes>"
    return File(_holdall.File.open_bytes(data, name, check, caps), name)


class File(Mapping[str, "Tensor"]):
    """An open file: its tensors by name, in the file's own order.

    Threads may share it. Arrays made from it stay valid after it is closed; everything else about a closed
    file raises :class:`~holdall.errors.Misuse`.
    """

    __slots__ = ("_native", "name", "format", "version", "io", "__weakref__")

    #: The name it was opened under.
    name: str
    #: Id of its format: ``"ztensor"``, ``"metatensor"``, ``"safetensors"``.
    format: str
    #: Version of its format; empty where the format has none.
    version: str
    #: How its bytes are fetched: what ``"auto"`` came to.
    io: str

    def __init__(self, native: _holdall.File, name: str) -> None:
        self._native = native
        self.name = name
        self.format, self.version, self.io = native.head()

    def __getitem__(self, name: str) -> "Tensor":
        at = self._position(name)
        if at is None:
            if isinstance(name, str) and _is_text(name):
                self._native.find(name)  # Raises, and names what is near.
            raise NotFound(
                f"{self.name}: there is no tensor {name!r}",
                code="file/no-tensor",
                kind="not_found",
                source=self.name,
            )
        return Tensor(self, at)

    def __contains__(self, name: object) -> bool:
        return self._position(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.names())

    def __len__(self) -> int:
        return len(self._native)

    def __enter__(self) -> "File":
        self._native.head()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file. The map goes when the last array that looks into it does."""
        self._native.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._native.closed

    @property
    def attributes(self) -> dict[str, Any]:
        """The file's attributes; in safetensors, its metadata."""
        return self._native.attributes()

    @property
    def warnings(self) -> list[Warning]:
        """What is odd about the file but does not make it bad."""
        return [Warning(**w) for w in self._native.warnings()]

    def load(
        self,
        names: Optional[Iterable[str]] = None,
        *,
        dense: bool = False,
        threads: Optional[int] = None,
        check: Optional[Check] = None,
        progress: Progress = None,
    ) -> dict[str, "np.ndarray[Any, Any]"]:
        """Tensors as writable NumPy arrays that own their memory: see :func:`holdall.load`."""
        positions = None if names is None else [self[name]._at for name in _names(names)]
        native = self._native
        apart = set(native.not_dense())
        others = sorted(apart) if positions is None else [at for at in positions if at in apart]
        wanted = range(len(native)) if positions is None else positions
        if others:
            if not dense:
                name, _, layout, _, _ = native.info(others[0])
                raise Unsupported(
                    f"{self.name}: tensor `{name}`: its layout is {layout}, not dense",
                    code="python/layout",
                    kind="unsupported",
                    source=self.name,
                    tensor=name,
                    hint="pass dense=True for dense copies, or the names of dense tensors",
                )
            positions = [at for at in wanted if at not in apart]
        with listening(progress) as listener:
            rows = native.load(positions, threads, check, listener)
        out = {}
        for name, shape, dtype, buffer, start, nbytes, copy in rows:
            try:
                a = array(buffer, start, shape, dtype)
            except Unsupported as e:
                raise _placed(e, self.name, name) from None
            out[name] = a.copy() if copy else a
        if others:
            for at in others:
                t = Tensor(self, at)
                out[t.name] = t.to_dense()
            out = {native.info(at)[0]: out[native.info(at)[0]] for at in wanted}
        return out

    def load_into(
        self,
        buffers: Mapping[str, Any],
        *,
        threads: Optional[int] = None,
        check: Optional[Check] = None,
        progress: Progress = None,
    ) -> None:
        """Reads tensors into memory that is there: see :func:`holdall.load_into`."""
        if not isinstance(buffers, Mapping):
            raise TypeError("buffers is a mapping of names to writable arrays")
        wanted = []
        for name, buffer in buffers.items():
            t = self[name]
            wanted.append((t._at, t._main().role, _writable(buffer)))
        with listening(progress) as listener:
            self._native.load_into(wanted, threads, check, listener)

    def verify(
        self,
        include: Optional[Iterable[str]] = None,
        exclude: Optional[Iterable[str]] = None,
        *,
        threads: Optional[int] = None,
        progress: Progress = None,
    ) -> VerifyReport:
        """Checks everything that can be checked: see :func:`holdall.verify`."""
        with listening(progress) as listener:
            found = self._native.verify(_globs(include), _globs(exclude), threads, listener)
        return VerifyReport(**found)

    def _position(self, name: object) -> Optional[int]:
        if isinstance(name, str) and _is_text(name):
            return self._native.position(name)
        self._native.head()  # Raises if the file is closed.
        return None

    def __repr__(self) -> str:
        if self.closed:
            return f"<holdall.File {self.name!r}, closed>"
        version = f" {self.version}" if self.version else ""
        count = len(self)
        return f"<holdall.File {self.name!r}, {self.format}{version}, {count} tensor{'' if count == 1 else 's'}>"

    def _repr_html_(self) -> str:
        from ._html import table

        return table(self)

    def __reduce__(self) -> Any:
        raise TypeError("an open file cannot be pickled; pickle its path")


class Component:
    """One stored run of bytes of a tensor, in one role."""

    __slots__ = (
        "_tensor", "role", "dtype", "storage", "encoding", "byte_order", "start", "end", "nbytes", "digest",
    )  # fmt: skip

    #: What it is to its tensor: ``"data"``, ``"values"``, ``"scales"``, …
    role: str
    #: Its elements' type.
    dtype: str
    #: The type that its elements are stored as.
    storage: str
    #: ``"raw"`` or ``"zstd"``.
    encoding: str
    #: ``"little"`` or ``"big"``, in the file; arrays are always little-endian.
    byte_order: str
    #: Where its stored bytes start in the file, in bytes.
    start: int
    #: Where they end.
    end: int
    #: Decoded bytes; ``None`` where only decoding tells.
    nbytes: Optional[int]
    #: Digest of the stored bytes, such as ``"crc32c:0x1c291ca3"``.
    digest: Optional[str]

    def __init__(self, tensor: "Tensor", row: tuple[Any, ...]) -> None:
        self._tensor = tensor
        (self.role, self.dtype, self.storage, self.encoding, self.byte_order) = row[:5]
        (self.start, self.end, self.nbytes, self.digest) = row[5:]

    def bytes(self) -> memoryview:
        """Its decoded bytes, read-only: a view into the map where they are raw."""
        t = self._tensor
        buffer: Any = t._native().read(t._at, self.role)
        return memoryview(buffer)

    def stored(self) -> memoryview:
        """Its bytes as they are in the file."""
        t = self._tensor
        buffer: Any = t._native().stored(t._at, self.role)
        return memoryview(buffer)

    def numpy(self) -> "np.ndarray[Any, Any]":
        """Its storage elements, one after the other: shape ``(count,)``, read-only."""
        import numpy as np

        t = self._tensor
        buffer = t._native().read(t._at, self.role)
        name = self.storage
        if name == "bfloat16":
            name = "uint16"
        width = np.dtype(name).itemsize
        return array(buffer, 0, (len(buffer) // width,), name)

    def __repr__(self) -> str:
        return f"<holdall.Component {self.role!r} {self.dtype}, {self.encoding}, bytes {self.start}..{self.end}>"


class Tensor:
    """One tensor of an open file. Its bytes are fetched when they are asked for.

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
        """Its name, exactly as the file has it."""
        return self._info[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions, in elements; ``()`` for a scalar."""
        return self._info[1]

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self._info[1])

    @property
    def size(self) -> int:
        """How many elements it has."""
        out = 1
        for n in self._info[1]:
            out *= n
        return out

    @property
    def layout(self) -> str:
        """How its components form it: ``"dense"``, ``"sparse_csr"``, ``"quantized_group"``, …"""
        return self._info[2]

    @property
    def dtype(self) -> str:
        """Its elements' type: ``"float32"``, ``"bfloat16"``, ``"float8_e4m3fn"``, …"""
        return self._info[3] or "none"

    @property
    def stored_nbytes(self) -> int:
        """Bytes of the file that its components take."""
        return self._info[4]

    @property
    def nbytes(self) -> int:
        """Bytes that its components decode to, as far as the file tells."""
        return sum(c.nbytes or 0 for c in self.components.values())

    @property
    def attributes(self) -> dict[str, Any]:
        """Its attributes."""
        return self._native().tensor_attributes(self._at)

    @property
    def components(self) -> dict[str, Component]:
        """Its components by role, in the file's own order."""
        return {row[0]: Component(self, row) for row in self._native().components(self._at)}

    @property
    def location(self) -> dict[str, tuple[int, int]]:
        """Where the stored bytes of each component are in the file: start and end, in bytes."""
        return {role: (c.start, c.end) for role, c in self.components.items()}

    @property
    def file(self) -> File:
        """The file it is in."""
        return self._file

    def numpy(self, copy: Optional[bool] = None) -> "np.ndarray[Any, Any]":
        """A dense tensor as a NumPy array of its shape.

        Args:
            copy: ``None``: read-only, without a copy where the file is mapped and the bytes are stored as they
                are. ``True``: writable, in memory of its own. ``False``: read-only, and an error where a copy
                is needed.

        Raises:
            Misuse: another layout, a closed file, or ``copy=False`` where bytes must be decoded.
            Unsupported: an element type that needs ml_dtypes, which is not there.
        """
        main = self._dense("numpy")
        native = self._native()
        if copy:
            buffer, start = native.read_owned(self._at, main.role)
            out = self._array(buffer, start, self.shape)
            return out if out.flags.aligned else out.copy()
        if copy is False and (self.dtype in PACKED or not native.is_view(self._at, main.role)):
            raise self._misuse("its bytes are not in memory as an array has them", "leave copy=False out")
        return self._array(native.read(self._at, main.role), 0, self.shape)

    def torch(self, device: Any = None) -> Any:
        """A dense tensor as a torch tensor in memory of its own, on ``device`` (the host's unless said).

        Raises:
            Unsupported: torch is not there, or lacks the element type.
            Misuse: another layout, or a closed file.
        """
        from ._torch import tensor

        main = self._dense("torch")
        buffer, start = self._native().read_owned(self._at, main.role)
        return tensor(buffer, start, self.shape, self.dtype, device)

    def to_dense(self) -> "np.ndarray[Any, Any]":
        """A dense copy, writable, whatever the layout: sparse with their zeros, quantized as float32.

        Raises:
            Malformed: indices outside the shape.
            Limit: more bytes than ``limits["decoded_len"]``.
            Unsupported: a layout that has no elements.
        """
        if self.layout == "dense":
            return self.numpy(copy=True)
        dtype, shape, buffer = self._native().to_dense(self._at)
        return self._array(buffer, 0, tuple(shape), dtype).copy()

    def dequantize(self) -> "np.ndarray[Any, Any]":
        """A quantized tensor as float32, of its shape.

        Raises:
            Misuse: another layout.
        """
        if self.layout != "quantized_group":
            raise self._misuse(f"its layout is {self.layout}, not quantized_group", None)
        return self.to_dense()

    def scipy(self) -> Any:
        """A sparse tensor as ``scipy.sparse.csr_array`` or ``coo_array``.

        Raises:
            Unsupported: SciPy is not there.
            Malformed: indices outside the shape.
            Misuse: another layout.
        """
        from ._sparse import to_scipy

        return to_scipy(self)

    def read_into(self, buffer: Any) -> None:
        """Decodes it into memory that is there: a writable, contiguous array or buffer of its bytes' number.

        Raises:
            Misuse: a buffer that is read-only, not contiguous, or of another length.
        """
        self._native().read_into(self._at, self._main().role, _writable(buffer))

    def stats(self, bins: int = 16, *, threads: Optional[int] = None, progress: Progress = None) -> Stats:
        """Extremes, moments, oddities and a histogram of its values, in bounded memory.

        Raises:
            Unsupported: a layout that has no elements.
        """
        with listening(progress) as listener:
            return Stats(**self._native().stats(self._at, bins, threads, listener))

    def verify(self) -> VerifyReport:
        """Checks its digests, and what its layout demands."""
        return VerifyReport(**self._native().verify_tensor(self._at))

    def __getitem__(self, key: Any) -> Any:
        """The elements that NumPy's ``a[key]`` has. Of basic keys (integers, slices, ``...``, ``None``) only the
        rows that are needed are read; they may be a read-only view into the map."""
        self._dense("[]")
        return _slices.read(self, key)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> "np.ndarray[Any, Any]":
        import numpy as np

        same = dtype is None or np.dtype(dtype) == self.numpy_dtype
        if copy is False and not same:
            raise self._misuse(f"{self.dtype} elements as {dtype} need a copy", None)
        a = self.numpy(copy=copy if same else None)
        return a if same else a.astype(dtype)

    @property
    def numpy_dtype(self) -> "np.dtype[Any]":
        """NumPy's dtype of its elements."""
        from ._arrays import numpy_dtype

        return numpy_dtype(self.dtype)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        """A DLPack capsule. Consumers of DLPack 1.0 get a read-only view; older ones, which cannot be told
        that, memory of their own."""
        if stream is not None:
            raise BufferError("the memory is the host's: there is no stream to wait for")
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError("the memory is the host's")
        code = DLPACK.get(self.dtype)
        if code is None:
            raise BufferError(f"DLPack has no {self.dtype} that lies as this one does")
        main = self._dense("__dlpack__")
        native = self._native()
        versioned = max_version is not None and max_version[0] >= 1
        width = max(1, code[1] // 8)
        if self.dtype == "complex64" or self.dtype == "complex128":
            width //= 2
        shape = list(self.shape)
        if versioned and not copy:
            is_view = native.is_view(self._at, main.role)
            if is_view or copy is None:
                buffer = native.read(self._at, main.role)
                if buffer.address % width == 0:
                    return buffer.dlpack(0, shape, *code, versioned=True, copied=not is_view)
        if copy is False:
            raise BufferError("a copy is needed: the bytes are not there as DLPack wants them")
        buffer, start = native.read_owned(self._at, main.role)
        if (buffer.address + start) % width:
            return self._dlpack_moved(shape, code, versioned)
        return buffer.dlpack(start, shape, *code, versioned=versioned, copied=versioned)

    def _dlpack_moved(self, shape: list[int], code: tuple[int, int], versioned: bool) -> Any:
        """As before, of elements whose place in the file does not suit their size."""
        import numpy as np

        a = self.numpy(copy=True) if self.dtype in PLAIN else None
        if a is None:
            raise BufferError("the elements lie at odd addresses; copy them with numpy(copy=True)")
        return np.asarray(a).__dlpack__(max_version=(1, 0)) if versioned else np.asarray(a).__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __buffer__(self, flags: int) -> memoryview:
        a: Any = self.numpy()
        return memoryview(a)

    def _main(self) -> Component:
        """The component that has its elements."""
        components = self.components
        if self.layout == "dense" and "data" in components:
            return components["data"]
        raise self._misuse(f"its layout is {self.layout}, not dense", "to_dense() gives a dense copy")

    def _dense(self, what: str) -> Component:
        if self.layout != "dense":
            raise self._misuse(
                f"{what}: its layout is {self.layout}, not dense",
                "to_dense(), scipy(), dequantize() and components give what it has",
            )
        return self._main()

    def _array(
        self, buffer: _holdall.Buffer, start: int, shape: tuple[int, ...], dtype: Optional[str] = None
    ) -> "np.ndarray[Any, Any]":
        try:
            return array(buffer, start, shape, dtype or self.dtype)
        except Unsupported as e:
            raise _placed(e, self._file.name, self.name) from None

    def _misuse(self, message: str, hint: Optional[str]) -> Misuse:
        return Misuse(
            f"{self._file.name}: tensor `{self.name}`: {message}",
            code="python/tensor",
            kind="misuse",
            source=self._file.name,
            tensor=self.name,
            hint=hint,
        )

    def __repr__(self) -> str:
        return f"<holdall.Tensor {self.name!r} {self.dtype} {list(self.shape)}, {self.layout}>"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Tensor):
            return self._file is other._file and self._at == other._at
        return NotImplemented

    def __hash__(self) -> int:
        return hash((id(self._file), self._at))


def _is_text(name: str) -> bool:
    """Whether a name can be in a file at all: lone surrogates cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _names(names: Iterable[str]) -> list[str]:
    if isinstance(names, (str, bytes)):
        raise TypeError("names is a list of names, not one name")
    return list(names)


def _globs(patterns: Optional[Iterable[str]]) -> Optional[list[str]]:
    if patterns is None:
        return None
    return [patterns] if isinstance(patterns, str) else list(patterns)


def _writable(buffer: Any) -> Any:
    """The memory of an array to read into: what has the buffer protocol, or torch's memory."""
    if type(buffer).__module__.partition(".")[0] == "torch" and hasattr(buffer, "detach"):
        from ._torch import memory

        return memory(buffer)
    import numpy as np

    if isinstance(buffer, np.ndarray):
        # Types that NumPy borrows from ml_dtypes have no buffer protocol of their own.
        if not buffer.flags.c_contiguous:
            raise Misuse("the array to read into is not contiguous", code="python/buffer", kind="misuse")
        if buffer.dtype.hasobject:
            raise Misuse("an array of objects cannot be read into", code="python/buffer", kind="misuse")
        if buffer.dtype.byteorder == ">":
            raise Misuse("the array to read into is big-endian", code="python/buffer", kind="misuse")
        return buffer.reshape(-1).view(np.uint8)
    return buffer


def _placed(e: Unsupported, source: str, tensor: str) -> Unsupported:
    """The error, said of a tensor."""
    return Unsupported(
        f"{source}: tensor `{tensor}`: {e._message}",
        code=e.code,
        kind=e.kind,
        source=source,
        tensor=tensor,
        hint=e.hint,
    )
