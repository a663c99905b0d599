"""Writing files: whole dicts of arrays, or tensor by tensor."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from . import _holdall
from ._arrays import EXTRA, FP4, PLAIN, Writable, dtype_name, writable_array, plain_name
from ._blob import Blob
from ._datasets import KIND, Component, Dataset, Runs
from ._encode import DTYPE, KEEPING, LACKING, ORDER, PACKED, TURNING, Noted, is_text, is_turned, spread, texts
from ._file import File
from ._progress import Progress, listening
from ._records import Records, Selection
from ._sparse import is_scipy, is_torch, parts_of_scipy, parts_of_torch
from ._structs import Rows, is_structured
from ._tensor import WAYS, Tensor, is_dense
from ._tree import FORMATS, TREE, flattened, nested
from .errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["save", "save_bytes", "Writer", "TensorSpec"]

Encoding = Literal["raw", "zstd", "planes", "smallest"]
Digest = Literal["none", "crc32c", "xxh3", "sha256"]
Tied = Literal["auto", "share", "copy"]
Part = Writable | Rows | Component
#: Formats in which each name has separate bytes.
APART = ("safetensors", "gguf", "npz")
#: Targets of :func:`save`: a path, or an object with ``write``.
Target = str | os.PathLike[str] | Any


class TensorSpec(NamedTuple):
    """The type and shape of a dense tensor to be written."""

    name: str
    #: The dimensions, in elements.
    shape: Sequence[int]
    #: The element type: ``"float32"``, ``"bfloat16"``, a NumPy dtype, …
    dtype: Any
    attributes: Mapping[str, Any] | None = None


def save(
    target: Target,
    tensors: Mapping[str, Any],
    *,
    format: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    encoding: Encoding = "raw",
    level: int | None = None,
    digest: Digest | None = None,
    align: int | None = None,
    version: str | None = None,
    tied: Tied = "auto",
    overwrite: bool = True,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> None:
    """Writes arrays to a file, which appears at its path when it is complete.

    Arrays may be from NumPy, torch or JAX, sparse ones from SciPy or torch, tensors of open files, or anything with
    DLPack, ``__array__`` or the buffer protocol. Arrays that are not contiguous or are big-endian are written
    row-major and little-endian, a chunk at a time: memory beyond the arrays is about 64 MiB. Structured arrays become
    datasets of records (zTensor, Metatensor), as :class:`Dataset` does of records with texts, lists, optional and union
    members, and :class:`Runs` become blobs: see :meth:`Tensor.records` and :meth:`Tensor.blob`.

    zTensor also holds dicts, lists, tuples, sets, text, bytes, numbers, booleans and ``None``, nested as deep as about 30
    levels: arrays in them are tensors under names with a path (``optimizer.state.0.exp_avg``), and :func:`load` returns the
    whole as it was. Texts, times, masked arrays and small integers of ml_dtypes are written with attributes that say
    what they were, in the formats that hold attributes of tensors.

    Args:
        target: A path, or an object with ``write``, which requires ``format``.
        tensors: Arrays by name; in zTensor, also nested values.
        format: ``"ztensor"``, ``"ztensor2"``, ``"metatensor"``, ``"safetensors"`` or another writable format; by
            default the extension of the path decides.
        attributes: The file's attributes; by default those of ``tensors``, if that is an open file. safetensors has only text;
            other values are written as JSON. Tensors of open files keep their own attributes.
        encoding: ``"raw"``; ``"zstd"`` (zTensor only) at ``level`` (default 3); or ``"planes"`` (zTensor only): floats in byte
            planes, without loss in two thirds (bfloat16) or five sixths (float32) of the bytes of trained weights, and
            everything else in zstd; or ``"smallest"`` (zTensor only): the smallest of these for each tensor, by samples.
        digest: ``"crc32c"``, ``"xxh3"``, ``"sha256"`` or ``"none"``; by default the first of these that the format can store.
        align: The start of every component is a multiple of this many bytes, a power of two.
        version: Version of the format; by default the newest.
        tied: Arrays with the same memory: ``"share"`` writes the bytes once, ``"copy"`` each time;
            ``"auto"`` shares them except in safetensors, where other readers would miss all but the first, and in formats that
            cannot share bytes.
        overwrite: Whether an existing file is replaced.
        sync: Whether the file appears only when its bytes are on disk.
        progress: ``True`` for a bar, or a function that is called with the bytes done and the total.

    Raises:
        UnsupportedError: the format cannot represent a tensor or an attribute; nothing is written then.
        TypeError: a value is neither an array nor one that the format holds; its key and its type are named.
        UsageError: the format is unknown, or the file exists and ``overwrite`` is false.
        FileIoError: the disk is full, for example. An existing file stays unchanged.
    """
    keeps = attributes is None and isinstance(tensors, File)
    own = tensors.attributes if attributes is None and isinstance(tensors, File) else attributes
    writing = _writing(format, version, own, encoding, level, digest, align, overwrite, sync, threads)
    if tied not in ("auto", "share", "copy"):
        raise UsageError(f'tied must be "auto", "share" or "copy", not {tied!r}', code="python/option", kind="misuse")
    of = _format_of(target, format)
    tie = tied == "share" or (tied == "auto" and of not in APART)
    with listening(progress) as listener:
        _save(target, of, writing, tensors, tie, False, listener, keeps)


def save_ordered(
    target: Target, tensors: Mapping[str, Any], metadata: Mapping[str, Any] | None, *, dropped_in: bool = False
) -> None:
    """Works like :func:`save`, but with safetensors as the default format, separate bytes for each name, and tensors
    sorted in the format's own order, so that the order of the names does not matter. When it replaces
    ``safetensors`` itself, extensions of formats that other libraries write (``.bin``, ``.npz``) are ignored, and
    safetensors is written."""
    named = _format_of(target, None)
    is_other = named is None or (dropped_in and named not in ("ztensor", "metatensor"))
    format = "safetensors" if is_other else None
    writing = _writing(format, None, metadata, "raw", None, None, None, True, True, None)
    _save(target, format or named, writing, tensors, False, True, None, False)


def _save(
    target: Target,
    format: str | None,
    writing: dict[str, Any],
    tensors: Mapping[str, Any],
    tie: bool,
    ordered: bool,
    listener: Any,
    keeps_attributes: bool,
) -> None:
    if not isinstance(tensors, Mapping):
        raise TypeError("tensors must be a mapping of names to arrays")
    source = None
    items: Iterable[tuple[str, Any]] = tensors.items()
    if isinstance(tensors, File):
        source = (tensors._native, keeps_attributes)
    else:
        more = nested(tensors)
        if more is not None:
            tensors, tree = _flattened(tensors, format, *more)
            writing["attributes"] = {**(writing["attributes"] or {}), TREE: tree}
        items = spread(tensors.items())
    half = _Half(target, _with_version(format, writing["version"]), tensors)
    try:
        left = _holdall.save(target, writing, items, half, tie, ordered, listener, source)
    except UnsupportedError as e:
        raise half.explained(e) from None
    for what in left:
        warnings.warn(f"left behind: {what}", stacklevel=4)


def _flattened(tensors: Mapping[Any, Any], format: str | None, name: Any, value: Any) -> tuple[dict[str, Any], Any]:
    """Returns the arrays of a nested value and its structure, if the format holds nested values; ``name`` and
    ``value`` are its first entry that is more than an array under a name."""
    if format in FORMATS:
        return flattened(tensors)
    into = "this format" if format is None else f"the format {format}"
    if not isinstance(name, str):
        raise TypeError(
            f"the name of a tensor must be text, not {type(name).__name__}: {name!r}. {into} holds arrays by name; "
            "zTensor (.zt) also holds dicts with other keys"
        )
    raise TypeError(
        f"tensor {name!r} must be an array, not {type(value).__name__}: numpy.asarray makes one of numbers. {into} holds arrays by "
        "name; zTensor (.zt) also holds dicts, lists and scalars"
    )


class _Half:
    """Callbacks of the native half for arrays that are not NumPy's, or whose memory layout differs from a file's."""

    def __init__(self, target: Target, format: str | None, tensors: Mapping[str, Any]) -> None:
        self._folder = _folder(target)
        self._tensors = tensors
        self._format = format
        #: The original Python types of tensors with attributes of their own, by name.
        self._were: dict[str, str] = {}

    @staticmethod
    def stored_as(dtype: Any) -> str | None:
        """Returns the name of the element type, if its layout in memory is the one of a file."""
        return plain_name(dtype)

    def described(self, name: str, value: Any) -> tuple[Any, list[tuple[Part, Any, Any]]]:
        """Returns the spec of a tensor, and for each component its part, its array (if its memory layout is the
        one of a file), and its identity."""
        item = _item(name, value, self._folder, self._format)
        if item.was is not None:
            self._were[name] = item.was
        return item.spec, [(part, part.lent, part.identity) for part in item.parts]


    def explained(self, e: UnsupportedError) -> UnsupportedError:
        """Returns an error of the native half with what the tensor is in Python."""
        was = self._were.get(e.tensor or "")
        if was is None and e.code is not None and e.code.endswith("-type") and not isinstance(self._tensors, File):
            # The native half has its own names of element types.
            dtype = getattr(self._tensors.get(e.tensor or ""), "dtype", None)
            was = None if dtype is None or str(dtype) in str(e) else f"its elements are of the dtype {dtype}"
        return _explained(e, was, self._format)


def _explained(e: UnsupportedError, was: str | None, format: str | None) -> UnsupportedError:
    """Returns an error of the native half with what the tensor is in Python."""
    if was is None:
        return e
    # Without the name of the tensor, which follows here.
    message = e._message.removeprefix(f"tensor `{e.tensor}`").removeprefix(", component `data`").removeprefix(": ")
    return UnsupportedError(
        f"tensor `{e.tensor}`: {was}, which the format {format} does not hold: {message}",
        code=e.code,
        kind=e.kind,
        source=e.source,
        tensor=e.tensor,
        hint=e.hint or "zTensor (.zt) holds it; or convert it first",
    )


def save_bytes(tensors: Mapping[str, Any], *, format: str, **options: Any) -> bytes:
    """Works like :func:`save`, but returns the file as ``bytes``."""
    import io

    out = io.BytesIO()
    save(out, tensors, format=format, **options)
    return out.getvalue()


class Writer:
    """Writes a file tensor by tensor, in bounded memory. A context manager: the file appears when the ``with`` block
    ends, and not at all after an exception.

    ::

        with holdall.Writer("model.zt") as w:
            w.add("bias", bias)
            w.begin("weight", (1_000_000, 512), "float32")
            for rows in batches:
                w.write(rows)

    Formats whose header comes first (safetensors, Metatensor) need :meth:`declare` before the first tensor.
    Options are those of :func:`save`.
    """

    def __init__(
        self,
        target: Target,
        *,
        format: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        encoding: Encoding = "raw",
        level: int | None = None,
        digest: Digest | None = None,
        align: int | None = None,
        version: str | None = None,
        overwrite: bool = True,
        sync: bool = True,
        threads: int | None = None,
    ) -> None:
        self._native = _holdall.Writer(
            target,
            _writing(format, version, attributes, encoding, level, digest, align, overwrite, sync, threads),
        )
        self._folder = _folder(target)
        self._format = _with_version(_format_of(target, format), version)

    def declare(self, tensors: Iterable[TensorSpec]) -> None:
        """Declares the dense tensors that will be written, in order."""
        self._native.declare([_dense_spec(TensorSpec(*t)) for t in tensors])

    def add(self, name: str, array: Any, attributes: Mapping[str, Any] | None = None) -> None:
        """Writes a tensor: a dense array, a sparse SciPy or torch tensor, the records of a structured array or of
        a :class:`Dataset`, or :class:`Runs`."""
        for part, value in spread([(name, array)]):
            self._write(_item(part, value, self._folder, self._format, attributes if part == name else None))

    def add_csr(
        self,
        name: str,
        shape: Sequence[int],
        indptr: Any,
        indices: Any,
        values: Any,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes a sparse tensor in compressed rows: ``indptr`` has an entry more than there are rows; ``indices``
        (columns) and ``values`` have one for each stored element."""
        parts = {"values": values, "indices": _words(indices), "indptr": _words(indptr)}
        self.add_components(name, shape, "sparse_csr", parts, attributes)

    def add_coo(
        self,
        name: str,
        shape: Sequence[int],
        coords: Any,
        values: Any,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes a sparse tensor as coordinates: ``coords`` has shape (dimensions, entries)."""
        parts = {"values": values, "coords": _words(coords)}
        self.add_components(name, shape, "sparse_coo", parts, attributes)

    def add_quantized(
        self,
        name: str,
        shape: Sequence[int],
        packed_weight: Any,
        scales: Any,
        zeros: Any = None,
        *,
        attributes: Mapping[str, Any],
    ) -> None:
        """Writes a quantized tensor. ``attributes`` are its parameters, such as ``{"bits": 4, "group_size": 128}``:
        see the specification of its layout."""
        parts = {"packed_weight": packed_weight, "scales": scales}
        if zeros is not None:
            parts["zeros"] = zeros
        self.add_components(name, shape, "quantized_group", parts, attributes)

    def add_components(
        self,
        name: str,
        shape: Sequence[int],
        layout: str,
        components: Mapping[str, Any],
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes a tensor of any layout, from arrays by role."""
        parts = [(role, writable_array(value, f"component {role!r}")) for role, value in components.items()]
        self._write(_Item(name, shape, layout, attributes, parts))

    def begin(
        self, name: str, shape: Sequence[int], dtype: Any, attributes: Mapping[str, Any] | None = None
    ) -> None:
        """Begins a dense tensor, whose elements are passed to :meth:`write`."""
        self._native.tensor(_dense_spec(TensorSpec(name, shape, dtype, attributes)))

    def write(self, elements: Any) -> None:
        """Writes the next elements of the last begun tensor, row-major: an array of its type, or bytes."""
        part = writable_array(elements, "the written bytes")
        for chunk in part.chunks():
            self._native.write(chunk)

    def close(self) -> None:
        """Completes the file and makes it appear at its path.

        Raises:
            UsageError: the last tensor is not complete, an earlier call failed to write a tensor, or the writer is
                already closed.
        """
        self._native.finish()

    def abort(self) -> None:
        """Stops writing: no file appears, and an existing file stays unchanged."""
        self._native.abort()

    @property
    def closed(self) -> bool:
        """Whether the writer is closed or aborted."""
        return self._native.closed

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any, *exc: object) -> None:
        if kind is not None:
            self._native.abort()
        elif not self._native.closed:
            self._native.finish()

    def _write(self, item: _Item) -> None:
        try:
            self._native.tensor(item.spec)
        except UnsupportedError as e:
            raise _explained(e, item.was, self._format) from None
        for part in item.parts:
            for chunk in part.chunks():
                self._native.write(chunk)


class _Item:
    """A tensor to be written, with its parts."""

    __slots__ = ("name", "shape", "layout", "attributes", "roles", "parts", "was")

    def __init__(
        self,
        name: str,
        shape: Sequence[int],
        layout: str,
        attributes: Mapping[str, Any] | None,
        parts: Sequence[tuple[str, Part]],
        was: str | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a tensor must be text, not {type(name).__name__}")
        self.name = name
        self.shape = tuple(shape)
        self.layout = layout
        self.attributes = attributes
        self.roles = [role for role, _ in parts]
        self.parts = [part for _, part in parts]
        #: The type in Python, if files have no such elements and attributes state it.
        self.was = was

    @property
    def spec(self) -> Any:
        components = [(role, part.dtype, part.nbytes, None) for role, part in zip(self.roles, self.parts)]
        attributes = None if self.attributes is None else dict(self.attributes)
        return (self.name, self.shape, self.layout, attributes, components)


def _folder(target: Target) -> str:
    """Returns the folder for temporary data that does not fit memory: the folder of the target."""
    if isinstance(target, (str, os.PathLike)):
        return os.path.dirname(os.fspath(target)) or "."
    import tempfile

    return tempfile.gettempdir()


def _item(
    name: str, value: Any, folder: str, format: str | None, attributes: Mapping[str, Any] | None = None
) -> _Item:
    try:
        return _made(name, value, folder, format, attributes)
    except UnsupportedError as e:
        if e.tensor is None:
            e.tensor = name
        raise


def _made(
    name: str, value: Any, folder: str, format: str | None, attributes: Mapping[str, Any] | None
) -> _Item:
    if isinstance(value, Noted):
        item = _made(name, value.value, folder, format, {**value.attributes, **(attributes or {})})
        item.was = value.was
        return item
    if is_scipy(value) or is_torch(value):
        layout, found, own = parts_of_scipy(value) if is_scipy(value) else parts_of_torch(value)
        of = [(role, writable_array(x if role == "values" else _words(x), f"tensor {name!r}")) for role, x in found.items()]
        kind = f"it is a sparse {type(value).__name__}"
        return _Item(name, value.shape, layout, {**own, **(attributes or {})} or None, of, kind)
    if (isinstance(value, Records) and value._range == range(value.tensor.shape[0])) or (
        isinstance(value, Blob) and isinstance(value._positions, range) and value._positions == range(value.tensor.shape[0])
    ):
        value = value.tensor
    if isinstance(value, (Records, Selection)):
        records = value if isinstance(value, Records) else value._records
        value = Dataset(iter(value), records.schema)
    if isinstance(value, Blob):
        value = Runs(iter(value), value.dtype or value.content)
    if isinstance(value, Tensor) and value.layout in WAYS:
        with_kind = {**value.attributes, **(attributes or {})}
        of = [(role, writable_array(c.numpy(), f"component {role!r}")) for role, c in value.components.items()]
        return _Item(name, value.shape, value.layout, with_kind, of)
    was: str | None = None
    if is_text(value):
        import numpy as np

        was = f"its elements are NumPy's {value.dtype}"
        runs, own = texts(np.asarray(value))
        value, attributes = Runs(runs, "utf-8"), {**own, **(attributes or {})}
    if isinstance(value, (Dataset, Runs)):
        made = value._encode(name, folder)
        count, layout, schema, components = made.head()
        runs_of = [(role, Component(made, at, dtype, n)) for at, (role, dtype, n) in enumerate(components)]
        return _Item(name, (count,), layout, {**(attributes or {}), KIND: schema}, runs_of, was)
    if is_structured(value):
        rows = Rows(value, name)
        was = f"its elements are records of NumPy's dtype {rows.array.dtype}"
        with_kind = {**rows.attributes, **(attributes or {}), KIND: rows.kind}
        return _Item(name, rows.array.shape, "records", with_kind, [("data", rows)], was)
    if isinstance(value, Tensor) and not is_dense(value.layout) and value.layout != "strided":
        raise UnsupportedError(
            f"tensor `{value.name}` of a file has the layout {value.layout}",
            code="python/layout",
            kind="unsupported",
            tensor=value.name,
            hint="holdall.convert copies every layout; or save t.scipy() or t.to_dense()",
        )
    part = writable_array(value._numbers() if isinstance(value, Tensor) else value, f"tensor {name!r}")
    lacks = part.dtype in LACKING.get(format or "", ()) or (part.dtype == FP4 and format == "pytorch" and part.array.shape[-1:][0] % 2)
    if lacks and part.packed is None and not isinstance(value, Tensor):
        import numpy as np

        part = Writable(part.array.view(np.uint8), "uint8", None, part.owner, None, {DTYPE: part.dtype})
    own = dict(part.attributes or {})
    if own:
        was = f"its elements are of NumPy's dtype {value.dtype}"
    if isinstance(value, Tensor):
        own.update((k, v) for k, v in value.attributes.items() if value.layout != "strided" or k != "strides")
    layout, shape = "dense", part.shape
    a = value if type(value).__module__ == "numpy" and hasattr(value, "flags") else part.array
    if part.packed is None and is_turned(a):
        if format in KEEPING:
            own[ORDER] = "F"
        elif format in TURNING and part.dtype not in PACKED and (part.array.ndim == a.ndim or format == "pytorch"):
            layout, part, own["strides"] = "strided", *_turned(part, a.ndim)
    own.update(attributes or {})
    return _Item(name, shape, layout, own or None, [("data", part)], was)


def _turned(part: Writable, axes: int) -> tuple[Writable, list[int]]:
    """Returns an array whose first dimension varies fastest as it is in memory, and its strides in elements. Those of
    text have another dimension after ``axes`` ones, along which they are contiguous."""
    a = part.array
    turned = a.transpose(*reversed(range(axes)), *range(axes, a.ndim))
    strides, step = [0] * a.ndim, 1
    for axis in (*reversed(range(axes, a.ndim)), *range(axes)):
        strides[axis] = step
        step *= a.shape[axis]
    return part._replace(array=turned, identity=None), strides


def _dense_spec(of: TensorSpec) -> Any:
    if not isinstance(of.name, str):
        raise TypeError(f"the name of a tensor must be text, not {type(of.name).__name__}")
    shape = tuple(int(n) for n in of.shape)
    if any(n < 0 for n in shape):
        raise UsageError("a dimension is negative", code="python/shape", kind="misuse", tensor=of.name)
    name = dtype_name(of.dtype)
    count = 1
    for n in shape:
        count *= n
    if name in PACKED:
        nbytes = (count * PACKED[name] + 7) // 8
    else:
        nbytes = count * _WIDTHS[name]
    if nbytes >= 1 << 63:
        raise UsageError("the shape passes 2**63 bytes", code="python/shape", kind="misuse", tensor=of.name)
    attributes = None if of.attributes is None else dict(of.attributes)
    return (of.name, shape, "dense", attributes, [("data", name, nbytes, None)])


def _width(name: str) -> int:
    if name == "bool" or name.startswith("float8"):
        return 1
    if name == "bfloat16":
        return 2
    return int("".join(c for c in name if c.isdigit())) // 8


_WIDTHS = {name: _width(name) for name in PLAIN | EXTRA if name not in PACKED}


def _words(indices: Any) -> np.ndarray[Any, Any]:
    """Returns indices as uint64, as the sparse layouts store them."""
    import numpy as np

    a = np.asarray(indices)
    if a.size and a.dtype.kind not in "iu":
        raise UsageError(f"indices are integers, not {a.dtype}", code="python/index", kind="misuse")
    if a.size and a.min() < 0:
        raise UsageError("an index is negative", code="python/index", kind="misuse")
    return a.astype(np.uint64)


def _format_of(target: Any, format: str | None) -> str | None:
    name = format
    if name is None and isinstance(target, (str, os.PathLike)):
        name = os.path.splitext(os.fsdecode(target))[1].removeprefix(".")
    for id, _, extensions, _, is_written in _holdall.formats():
        # An extension of a read-only format, such as `model.bin`, does not determine the format to write.
        if name is not None and name.lower() in (id, *extensions) and (is_written or format is not None):
            return id
    return None


def _with_version(format: str | None, version: str | None) -> str | None:
    """Returns the format, with its version if tensors of that version have no attributes."""
    return "ztensor 1.0" if format == "ztensor" and version == "1.0" else format


def _writing(
    format: str | None,
    version: str | None,
    attributes: Mapping[str, Any] | None,
    encoding: str | None,
    level: int | None,
    digest: str | None,
    align: int | None,
    overwrite: bool,
    sync: bool,
    threads: int | None,
) -> dict[str, Any]:
    if attributes is not None and not isinstance(attributes, Mapping):
        raise TypeError("attributes must be a mapping of text to values")
    return {
        "format": format,
        "version": version,
        "attributes": None if attributes is None else dict(attributes),
        "encoding": encoding,
        "level": level,
        "digest": digest,
        "align": align,
        "overwrite": bool(overwrite),
        "sync": bool(sync),
        "threads": threads,
    }
