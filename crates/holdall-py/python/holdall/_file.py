"""Open files and their tensors."""

from __future__ import annotations

import json
import os
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from . import _holdall
from ._arrays import array, complete_load, cache_dtypes, with_tensor_name, writable
from ._limits import Limits
from ._progress import Progress, listening
from ._quantized import QuantizedWeight, QuantizedWeights
from ._reports import VerifyReport
from ._sources import in_store, local, reader
from ._stream import Arriving
from ._sparse import LAYOUTS
from ._tensor import WAYS, Tensor, is_dense
from ._tree import Tree
from .errors import FormatWarning, HoldallError, MalformedError, MissingNameError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import numpy as np

    from ._evolution import Converter
    from ._rows import Schema

__all__ = ["open", "staged", "File", "Source"]

IoMode = Literal["auto", "map", "read", "direct"]
Check = Literal["off", "fast", "read", "all"]
#: The handling of tied weights: loaded as arrays over shared memory, or each as a separate copy.
Kept = Literal["share", "copy"]
#: Features of addresses that must be allowed explicitly: plain http, hosts in private networks.
Allow = Literal["http", "private-hosts"]
#: The layout of quantized weights in the file that has each as one tensor.
WEIGHT = "quantized_weight"
#: The types that :func:`open` accepts.
Source = str | os.PathLike[str] | bytes | bytearray | memoryview | list[str | os.PathLike[str]] | Any


def open(
    source: Source,
    *,
    io: IoMode = "auto",
    check: Check = "read",
    limits: Limits | None = None,
    strict: bool = False,
    allow: Iterable[Allow] = (),
    storage_options: Mapping[str, Any] | None = None,
    cache: bool | str | os.PathLike[str] = False,
    offline: bool = False,
    layouts: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    name: str | None = None,
    store: Any = None,
    schema: Schema | None = None,
    dataset: str | None = None,
    rename: Mapping[str, str] | None = None,
    converters: Mapping[str, Converter] | None = None,
) -> File:
    """Opens a tensor file of any format that Holdall reads. Only its index is read.

    A tensor that cannot be read (because its dtype is unknown, for example) does not affect the others: see
    :attr:`Tensor.fault`.

    Args:
        source: A path; a file inside a package, ``"model.carton!/model/weights.zt"``; or an address (``https://…``,
            ``holdall://…``, ``s3://…``, ``gs://…``, ``az://…``, ``hf://owner/name/path``), which is read by ranges.
            Or a list of these: shards, which are opened as one file. Or the content of a file as ``bytes`` (not
            copied), ``bytearray`` or ``memoryview``. Or an object that is read by position while the file is open: a
            file of fsspec, a binary file object with ``seek`` (read from its current position), or an object with
            ``size`` and one of ``get_ranges(starts, ends)``, ``get_range(start, end)``, ``read(start, end)``. An
            object that only has ``read`` is read completely.
        io: How bytes are read: ``"map"`` maps the file, ``"read"`` reads by position, ``"direct"`` reads
            without the system's cache; ``"auto"`` maps on local disks and reads on network file systems.
        check: Digests that are checked when components are read: ``"off"``, ``"fast"`` (all but SHA-256), ``"read"``
            (all) or ``"all"``; only ``"all"`` checks views into the map. Parts of components are never checked.
        limits: Upper bounds on what the file may demand, such as ``{"decoded_len": 1 << 30}`` (bytes): see
            :class:`holdall.Limits`.
        strict: Whether opening fails if a tensor cannot be read.
        allow: What is allowed in addition to https to public hosts: ``"http"``, ``"private-hosts"``.
        storage_options: Options for object stores, named as in fsspec: ``key``, ``secret``, ``token``,
            ``anon``, ``profile``, ``endpoint_url``, ``client_kwargs``, ``account_name``, ``account_key``, … Others
            are taken from the environment and from profiles. A pickled file contains them.
        cache: A folder that caches blocks of remote files; ``True`` for the system's cache folder.
        offline: Whether files that a package links to are taken only from the cache, instead of being fetched.
        layouts: One or several files that describe custom layouts (TOML, see ``docs/spec/layouts.md``). Tensors of
            these layouts can then be read: :meth:`Tensor.to_dense`, statistics.
        name: The name that messages use for a source without a path.
        store: An object store of obstore, or an object with the same ``head(path)`` and ``get_ranges(path, starts=,
            ends=)``; ``source`` is then a path in it. Replacing the file while it is open is not detected.
        schema: The schema to read the file with, of a record or of the whole file: tensors and records are converted
            when they are read, as :func:`holdall.schema.migrate` would write them. Members and tensors that the
            schema does not have are left out.
        dataset, rename, converters: ``path``, ``rename`` and ``converters`` of :func:`holdall.schema.migrate`.

    Raises:
        MissingFileError, FileIoError: the file cannot be read.
        UnsupportedError: the format of the file is not known.
        MalformedError, LimitError: the file breaks a rule of its format, or exceeds a limit.
    """
    how = locals()
    caps = dict(limits) if limits is not None else None
    if isinstance(layouts, (tuple, list)) or not isinstance(layouts, (str, os.PathLike)):
        described = list(layouts)
    else:
        described = [layouts]
    found = None
    if store is not None:
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"with store=, source must be a path, not {type(source).__name__}")
        found = in_store(store, os.fsdecode(source))
    elif not isinstance(source, (str, os.PathLike, bytes, bytearray, memoryview, list)):
        source = local(source)
        found = None if isinstance(source, str) else reader(source)
    if found is not None:
        read, size, own, far = found
        native = _holdall.File.open_source(read, size, name or own, far, check, caps, bool(strict), described)
        file = File(native, name or own)
    elif isinstance(source, (str, os.PathLike, list)):
        paths = source if isinstance(source, list) else [source]
        kept = stores(storage_options) if storage_options else {}
        native = _holdall.File.open(paths, io, check, caps, bool(strict), allowed(allow), kept, cached(cache), bool(offline), described)
        names = [source] if type(source) is str else [os.fsdecode(path) for path in paths]
        file = File(native, names[0] if len(names) == 1 else native.name, how, names)
    else:
        data, name = in_memory(source, name)
        file = File(_holdall.File.open_bytes(data, name, check, caps, bool(strict), described), name)
    if schema is None:
        if dataset is not None or rename or converters:
            raise TypeError("dataset, rename and converters require schema")
        return file
    from ._evolution import evolution
    from ._rows import schema as given

    evolving = evolution(file, dataset, rename, converters, True)
    return File(_holdall.schema_view(file._native, given(schema), evolving), file.name, file._how, file._paths)


def in_memory(source: Source, name: str | None) -> tuple[bytes, str]:
    """Returns the bytes of a source without a path, and its name for messages."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = source if type(source) is bytes else bytes(source)
    elif hasattr(source, "read"):
        data = source.read()
        if not isinstance(data, bytes):
            raise TypeError("a file object must be opened in binary mode: read() must return bytes")
        name = name or getattr(source, "name", None)
    else:
        raise TypeError(f"source must be a path, bytes or an object with read(), not {type(source).__name__}")
    return data, name if isinstance(name, str) else "<bytes>"


def allowed(allow: Iterable[Allow]) -> list[str]:
    """Returns the allowances as a list of words."""
    if isinstance(allow, (str, bytes)):
        raise TypeError('allow must be a list of words, such as ["http"], not one text')
    return list(allow)


#: Options of fsspec about its own caches and connections, which are ignored.
_OTHERS = frozenset(
    "asynchronous batch_size block_size cache_regions cache_timeout check_connection config_kwargs consistency "
    "default_block_size default_cache_type default_fill_cache listings_expiry_time loop max_concurrency "
    "max_paths project requests_timeout s3_additional_kwargs session_kwargs skip_instance_cache timeout use_listings_cache "
    "use_ssl version_aware".split()
)


def cached(cache: bool | str | os.PathLike[str]) -> None | str | os.PathLike[str]:
    """Returns the folder of a cache; an empty string for the system's."""
    if isinstance(cache, bool):
        return "" if cache else None
    return cache


def stores(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns ``storage_options`` as a flat dict of strings."""
    flat: dict[str, str] = {}
    for name, value in dict(options or {}).items():
        if value is None or name in _OTHERS:
            continue
        if name == "client_kwargs":
            flat.update(stores(value))
        elif isinstance(value, bool):
            flat[name] = "true" if value else "false"
        elif isinstance(value, Mapping):
            flat[name] = json.dumps(dict(value))
        else:
            flat[name] = str(value)
    return flat


@contextmanager
def staged(
    address: str,
    *,
    overwrite: bool = False,
    allow: Iterable[Allow] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Yields a path to write a file to; it is uploaded to an object store when the block ends without an error.

    ``with holdall.staged("s3://bucket/model.zt") as path: holdall.save(path, arrays)``

    Args:
        address: ``s3://…``, ``gs://…`` or ``az://…``. If it ends in a slash, the path is for a folder, for a model in several
            files: ``holdall.convert(source, path, max_shard_size="5GB")``.
        overwrite: Whether an existing object is replaced.
        allow, storage_options: As for :func:`open`.

    Raises:
        TargetExistsError: the object exists, or the folder contains an object. UsageError: the credentials are wrong.
        FileIoError, NotFoundError: the store refuses the upload.
    """
    native = _holdall.Staged(address, bool(overwrite), allowed(allow), stores(storage_options))
    try:
        yield os.fspath(native.path() or "")
        native.publish()
    finally:
        native.close()


class File(Mapping[str, "Tensor"]):
    """An open file: its tensors by name, in the file's own order.

    Threads may share it. Pickling keeps its path, which is opened again, so processes may share it too. Arrays made from
    it stay valid after it is closed; other uses of a closed file raise :class:`~holdall.errors.UsageError`.
    """

    __slots__ = ("_native", "_how", "_paths", "_logical", "name", "format", "version", "io", "__weakref__")

    #: The path or address under which it was opened.
    name: str
    #: The id of its format: ``"ztensor"``, ``"metatensor"``, ``"safetensors"``, …
    format: str
    #: The version of its format; empty if the format has no versions.
    version: str
    #: The reading mode of the file: the one that ``"auto"`` resolved to.
    io: str

    def __init__(
        self, native: _holdall.File, name: str, how: dict[str, Any] | None = None, paths: Sequence[str] = ()
    ) -> None:
        self._native = native
        #: The paths that :func:`open` was given.
        self._paths = paths
        #: The arguments of :func:`open`, if the file has a path or an address.
        self._how = how
        #: The file with each quantized weight as one tensor, once it is needed.
        self._logical: File | None = None
        self.name = name
        self.format, self.version, self.io = native.head()

    def __getitem__(self, name: str) -> Tensor:
        at = self._position(name)
        if at is None:
            if isinstance(name, str) and _is_text(name):
                self._native.find(name)  # Raises, and names what is near.
            raise MissingNameError(
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

    def _ipython_key_completions_(self) -> list[str]:
        """Returns the names that IPython and Jupyter offer after ``file["``."""
        return [] if self.closed else list(self)

    def values(self) -> ValuesView[Tensor]:
        """Returns the tensors, in the file's own order."""
        return _Values(self)

    def items(self) -> ItemsView[str, Tensor]:
        """Names and tensors, in the file's own order."""
        return _Items(self)

    def __enter__(self) -> File:
        len(self._native)  # Raises if the file is closed.
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file. A memory map is released together with the last array that views it."""
        self._native.close()
        if self._logical is not None:
            self._logical.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._native.closed

    @property
    def attributes(self) -> dict[str, Any]:
        """The file's attributes; in safetensors, its metadata."""
        return self._native.attributes()

    @property
    def warnings(self) -> list[FormatWarning]:
        """Unusual properties of the file that are not errors."""
        return [FormatWarning(**w) for w in self._native.warnings()]

    @property
    def unrepresented(self) -> list[str]:
        """Parts of the file that this version does not know, as messages: fields of its manifest or header, a
        newer version. Rewriting the file would drop them. At most 8 are listed."""
        return self._native.unrepresented()

    @property
    def faults(self) -> list[HoldallError]:
        """The errors of the tensors that cannot be read, in the file's order; all other tensors can be read."""
        return self._native.faults()

    def load(
        self,
        names: Iterable[str] | None = None,
        *,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        dtype: Any = None,
        saturate: bool = False,
        dense: bool = False,
        dequantize: bool = False,
        tied: Kept = "share",
        threads: int | None = None,
        check: Check | None = None,
        progress: Progress = None,
    ) -> dict[str, Any]:
        """Loads tensors into writable NumPy arrays in new memory: see :func:`holdall.load`."""
        from ._restore import Loaded, restore, value, warn_of_faults

        if dequantize:
            return self._dequantized().load(
                names, include=include, exclude=exclude, dtype=dtype, saturate=saturate, dense=dense, tied=tied,
                threads=threads, check=check, progress=progress,
            )  # fmt: skip

        if tied not in ("share", "copy"):
            raise UsageError(f'tied must be "share" or "copy", not {tied!r}', code="python/option", kind="misuse")
        native = self._native
        names = None if names is None else _names(names)
        positions = None if names is None else [self[name]._at for name in names]
        if include is not None or exclude is not None:
            if names is not None:
                raise TypeError("pass either names or include and exclude, not both")
            positions = native.select(_globs(include), _globs(exclude))
        apart = set(native.not_dense())
        wanted = list(range(len(native)) if positions is None else positions)
        # Errors of single tensors; a tensor that was asked for by name raises its error.
        faults: dict[str, HoldallError] = {e.tensor: e for e in native.faults() if e.tensor is not None}
        if names is not None:
            for at in wanted if faults else ():
                fault = native.fault(at)
                if fault is not None:
                    raise fault
        if faults or not apart.isdisjoint(wanted):
            broken = {native.position(name) for name in faults}
            others = [at for at in wanted if at in apart and at not in broken]
            positions = [at for at in wanted if at not in apart and at not in broken]
        else:
            others = []
        for at in wanted if faults else ():
            name, _, layout = native.info(at)[:3]
            if layout == WEIGHT and name in faults:
                # A model that lacks a weight is of no use to those who asked for its values.
                raise faults[name]
        found = {native.info(at)[0] for at in wanted} if faults else set()
        faults = {name: e for name, e in faults.items() if name in found}
        kept = faults if names is None else None
        if dtype is not None:
            # These are not rounded.
            plain = WAYS if dense else (*LAYOUTS, *WAYS)
            rounded = [native.info(at) for at in wanted if at not in apart or native.info(at)[2] not in plain]
            rounded = [info for info in rounded if info[0] not in faults]
            # Dense ones by themselves: a conversion of all tensors to dense ones has quantized weights in place of the
            # tensors that store them.
            stored = [info[0] for info in rounded if is_dense(info[2]) or info[2] == "strided"]
            made_dense = [info[0] for info in rounded if info[0] not in {*stored} and (dense or info[2] == WEIGHT)]
            both = self._rounded(stored, dtype, saturate, False, tied, threads, progress)
            both |= self._rounded(made_dense, dtype, saturate, True, tied, threads, progress)
            out = {info[0]: both[info[0]] for info in rounded if info[0] in both}
            done = set(out)
            others = [at for at in others if native.info(at)[0] not in done]
        else:
            cache_dtypes(native.dtypes(positions))
            with listening(progress) as listener:
                loaded = native.load(positions, threads, check, listener, True, tied == "share")
            out, done = complete_load(loaded, self._array, kept), set()
        for at in others:
            t = Tensor(self, at)
            try:
                out[t.name] = value(t, dense or t.layout == WEIGHT)
            except (MalformedError, UnsupportedError) as e:
                if kept is None:
                    raise
                kept[t.name] = e
        done.update(native.info(at)[0] for at in others)
        used = restore(out, self, done, kept)
        if others or used or faults:
            asked = {*(names or ())}
            in_order = [native.info(at)[0] for at in wanted]
            out = {name: out[name] for name in in_order if name in out and (name not in used or name in asked)}
        if names is None and include is None and exclude is None:
            tree = Tree.of(self)
            if tree is not None and tree.fits([*out, *faults]):
                if faults:
                    warn_of_faults(faults, self.name)
                whole: dict[str, Any] = tree.restored(out, faults)
                return whole
        if faults:
            warn_of_faults(faults, self.name)
            return Loaded(out, faults)
        return out

    @property
    def quantized(self) -> QuantizedWeights:
        """The quantized weights of the model: those that it stores as several tensors, by name. ``config.json`` and similar
        files next to the model are read.

        Raises:
            MalformedError: such a file is not JSON.
        """
        return QuantizedWeights({about["name"]: QuantizedWeight(self, about) for about in self._native.quantized()})

    def _dequantized(self) -> File:
        """Returns the file with each quantized weight as one tensor."""
        if self._logical is None or self.closed:
            self._logical = File(self._native.dequantized(), self.name, self._how, self._paths)
        return self._logical

    def _rounded(
        self,
        names: list[str],
        dtype: Any,
        saturate: bool,
        dense: bool,
        tied: Kept,
        threads: int | None,
        progress: Progress,
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Loads tensors with a conversion, as :func:`holdall.convert` would write them. The source elements are
        held in memory only piece by piece."""
        from io import BytesIO

        from ._operations import convert

        if not names:
            return {}
        made = BytesIO()
        try:
            convert(
                self, made, format="ztensor", encoding="raw", digest="none", include=names, dense=dense, dtype=dtype,
                saturate=saturate, attributes={}, threads=threads, progress=progress,
            )  # fmt: skip
        except UnsupportedError as e:
            # Where a dense tensor is refused, it is a part of a quantized weight.
            if not dense and any(remedy["do"] == "make_dense" for remedy in e.remedies):
                e.hint = "dequantize=True gives the values of quantized weights"
            raise
        with open(made.getvalue(), name=self.name) as file:
            return file.load(names, tied=tied, threads=threads)

    def _array(
        self, name: str, shape: tuple[int, ...], dtype: str, buffer: _holdall.Buffer, start: int, copy: bool
    ) -> np.ndarray[Any, Any]:
        """Returns a loaded tensor that needs special treatment as an array."""
        try:
            made = array(buffer, start, shape, dtype)
            return made.copy() if copy else made
        except UnsupportedError as e:
            raise with_tensor_name(e, self.name, name) from None

    def stream(self, order: Iterable[str] | None = None, *, check: Check | None = None) -> Arriving:
        """Loads tensors in the background, in the given order, and yields each as it arrives, so that computing can
        begin before the last tensor is there. Requests for the first tensors have the highest priority. At most 256
        MiB are loaded ahead.

        ::

            with f.stream(["embed.weight", "layers.0.w", "layers.1.w"]) as arriving:
                for name, array in arriving:
                    ...

        Args:
            order: Names, in the order in which they are needed; by default all tensors, in the file's order. Small neighbours
                arrive together, and a tensor that arrives before an earlier one is returned before it.
            check: Digests that are checked, as for :func:`open`.

        Returns:
            An iterator over names and read-only arrays; for a tensor that is not dense, the dict of its components' storage
            order: Names, in the order in which they are needed; by default all tensors, in the file's order. Small
                neighbouring tensors arrive together, and a tensor that arrives early is returned early.
        Raises:
            MissingNameError: the file has no tensor of a name.
        """
        names = list(self) if order is None else _names(order)
        noted = {self._native.info(at)[0]: about for at, about in _holdall.noted(self._native)}
        return Arriving(self._native.stream(names, check), self.name, noted)

    def load_into(
        self,
        buffers: Mapping[str, Any],
        *,
        raw: bool = False,
        threads: int | None = None,
        check: Check | None = None,
        progress: Progress = None,
    ) -> None:
        """Reads tensors into existing memory: see :func:`holdall.load_into`."""
        if not isinstance(buffers, Mapping):
            raise TypeError("buffers must be a mapping of names to writable arrays")
        wanted = []
        for name, buffer in buffers.items():
            t = self[name]
            t._dense("load_into")
            wanted.append((t._at, "data", writable(buffer, None if raw else t)))
        with listening(progress) as listener:
            self._native.load_into(wanted, threads, check, listener)

    def verify(
        self,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        *,
        strict: bool = False,
        threads: int | None = None,
        progress: Progress = None,
    ) -> VerifyReport:
        """Checks everything that can be checked: see :func:`holdall.verify`."""
        with listening(progress) as listener:
            found = self._native.verify(_globs(include), _globs(exclude), bool(strict), threads, listener)
        return VerifyReport._of(found)

    def _position(self, name: object) -> int | None:
        if isinstance(name, str):
            try:
                return self._native.position(name)
            except UnicodeEncodeError:
                pass  # No file has such a name.
        len(self._native)  # Raises if the file is closed.
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
        len(self._native)  # Raises if the file is closed.
        if self._how is None:
            raise TypeError(f"{self.name}: a file without a path cannot be pickled")
        # An absolute path, since the other process may have another working directory.
        paths = [path if "://" in path else os.path.abspath(path) for path in self._paths]
        return _again, (paths, {key: self._how[key] for key in _HOW})


#: The arguments of :func:`open` with which a pickled file is opened again.
_HOW = frozenset(open.__kwdefaults__ or ()) - {"name", "store"}


def _again(paths: list[str], how: dict[str, Any]) -> File:
    """Restores a pickled file."""
    return open(paths[0] if len(paths) == 1 else paths, **how)


class _Values(ValuesView["Tensor"]):
    """The tensors of a file, accessed by index, without looking up names."""

    __slots__ = ()
    _mapping: File

    def __iter__(self) -> Iterator[Tensor]:
        file = self._mapping
        return (Tensor(file, at) for at in range(len(file)))


class _Items(ItemsView[str, "Tensor"]):
    """The names and tensors of a file, accessed by index."""

    __slots__ = ()
    _mapping: File

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return ((t.name, t) for t in _Values(self._mapping))


def _is_text(name: str) -> bool:
    """Returns whether a file can have a tensor of this name: names with lone surrogates are not possible."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _names(names: Iterable[str]) -> list[str]:
    if isinstance(names, (str, bytes)):
        raise TypeError("names must be a list of names, not a single name")
    return list(names)


def _globs(patterns: Iterable[str] | None) -> list[str] | None:
    if patterns is None:
        return None
    if isinstance(patterns, Mapping):
        raise TypeError("patterns, and rules of rename, must be lists: ['OLD=NEW']")
    return [patterns] if isinstance(patterns, str) else list(patterns)
