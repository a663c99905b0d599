"""What is done with whole files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Iterator, Literal, Optional, Union

from . import _holdall
from ._arrays import dtype_name
from ._file import Check, File, Io, Kept, Source, _globs, open
from ._progress import Progress, listening
from ._reports import ConvertReport, Diff, SalvageReport, ScanReport, Stats, VerifyReport
from ._write import Digest, Encoding, Target, _writing
from .errors import HoldallError, Integrity, Limit, Malformed, Misuse, Unsupported

if TYPE_CHECKING:
    import numpy as np

__all__ = ["load", "load_into", "convert", "salvage", "scan", "verify", "diff", "inspect", "stats"]


@contextmanager
def _opened(source: Union[Source, File], **options: Any) -> Iterator[File]:
    if isinstance(source, File):
        yield source
    else:
        with open(source, **options) as file:
            yield file


def load(
    source: Union[Source, File],
    names: Optional[Iterable[str]] = None,
    *,
    include: Optional[Iterable[str]] = None,
    exclude: Optional[Iterable[str]] = None,
    dtype: Any = None,
    saturate: bool = False,
    dense: bool = False,
    tied: Kept = "share",
    io: Io = "auto",
    check: Check = "read",
    threads: Optional[int] = None,
    progress: Progress = None,
) -> dict[str, "np.ndarray[Any, Any]"]:
    """Loads tensors into writable NumPy arrays in fresh memory, on all cores, digests checked.

    Args:
        source: What :func:`holdall.open` takes, or an open file.
        names: The tensors to load, in this order; all of them unless said.
        include, exclude: Patterns (``"layers.*.weight"``) of the tensors to load, and to leave out, in place of names.
        dtype, saturate: The float type that dense tensors of floats are rounded into, or one for each pattern: see
            :func:`holdall.convert`.
        dense: Whether sparse and quantized tensors are loaded too, as dense copies.
        tied: Dense tensors that have the same bytes in the file (tied weights) are arrays over one memory: who changes
            one changes the other. ``"copy"`` gives each memory of its own.
        threads: One for each core unless said.
        progress: ``True`` for a bar, or a function of the bytes done and all bytes.

    Raises:
        NotFound: there is no tensor of that name, or none that a pattern matches.
        Integrity: a digest is not that of the bytes.
        Unsupported: another layout than dense (without ``dense``), or an element type that needs ml_dtypes.
    """
    with _opened(source, io=io, check=check) as file:
        return file.load(
            names,
            include=include,
            exclude=exclude,
            dtype=dtype,
            saturate=saturate,
            dense=dense,
            tied=tied,
            threads=threads,
            check=check,
            progress=progress,
        )


def load_into(
    source: Union[Source, File],
    buffers: Mapping[str, Any],
    *,
    raw: bool = False,
    io: Io = "auto",
    check: Check = "read",
    threads: Optional[int] = None,
    progress: Progress = None,
) -> None:
    """Reads dense tensors into memory that is there: writable contiguous arrays (NumPy's, torch's on the host,
    pinned ones too, or anything with the buffer protocol), each with as many bytes as its tensor.

    Args:
        raw: Whether a buffer of other elements gets the bytes as they are. Otherwise it has elements of the tensor's type;
            ``bytearray`` and the like, which are bytes and no elements, take any.

    Raises:
        Misuse: a buffer is read-only, not contiguous, of another length or of other elements, or overlaps another.
    """
    with _opened(source, io=io, check=check) as file:
        file.load_into(buffers, raw=raw, threads=threads, check=check, progress=progress)


def convert(
    source: Union[Source, File],
    target: Target,
    *,
    format: Optional[str] = None,
    version: Optional[str] = None,
    encoding: Optional[Encoding] = None,
    level: Optional[int] = None,
    digest: Optional[Digest] = None,
    align: Optional[int] = None,
    include: Optional[Iterable[str]] = None,
    exclude: Optional[Iterable[str]] = None,
    rename: Iterable[str] = (),
    sharing: Literal["keep", "dedupe", "copy"] = "keep",
    dense: bool = False,
    raw_types: bool = False,
    drop_attributes: bool = False,
    dtype: Any = None,
    saturate: bool = False,
    sparse: Union[None, Literal["csr", "coo"], Mapping[str, str]] = None,
    quantize: Union[None, str, Mapping[str, str]] = None,
    max_shard_size: Union[None, int, str] = None,
    max_shard_tensors: Optional[int] = None,
    graph: Union[None, Source, File] = None,
    external: Union[None, int, str] = None,
    attributes: Optional[Mapping[str, Any]] = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: Optional[int] = None,
    progress: Progress = None,
) -> ConvertReport:
    """Writes a file in another format, version, encoding or alignment, in bounded memory.

    Args:
        source: What :func:`holdall.open` takes, or an open file; a folder of ``.npy`` files, which are named
            after their paths.
        target: A path, or an object with ``write``.
        encoding: ``"raw"`` or ``"zstd"`` for every component; else each stays as it is.
        include, exclude: Patterns (``"layers.*.weight"``) of the tensors to take, and to leave out.
        rename: Rules such as ``"model.*=*"``.
        sharing: What becomes of components with the same bytes.
        dense: Whether sparse and quantized tensors are written as dense ones.
        raw_types: Whether types that the target lacks are written as their storage elements.
        drop_attributes: Whether attributes that the target cannot hold are left out.
        dtype: The float type that dense tensors of floats are rounded into (``"bfloat16"``, ``np.float16``,
            ``"f8_e4m3fn"``), to nearest, ties to even; or one for each pattern, the first that matches counts:
            ``{"*.norm.*": "keep", "*": "bf16"}``. A tensor that is named, not by a pattern, and has no floats is
            refused.
        saturate: Whether numbers beyond the largest of ``dtype`` become that, not infinite or NaN.
        sparse: Writes tensors as sparse ones where that is smaller: ``"csr"`` (matrices) or ``"coo"``; or one for each
            pattern, as with ``dtype``. A tensor that is named becomes sparse, or is refused.
        quantize: Quantizes floats of two dimensions and more: ``"group:4:128"`` is 4 bits in groups of 128 (-1: of a row);
            ``"q8_0"``, ``"q4_0"``, ``"q4_1"``, ``"q5_0"``, ``"q5_1"``, ``"q2_k"`` to ``"q6_k"``, ``"mxfp4"``, ``"tq1_0"`` and
            ``"tq2_0"`` are blocks of GGUF; or one for each pattern. The error that this makes is in the report: :attr:`ConvertReport.reformed`.
        max_shard_size: Writes a folder of files with at most so many bytes of tensors each (``"5GB"``, ``"2GiB"``, a number):
            safetensors with their index, as the Hugging Face hub has models, with ``format="gguf"`` the parts of a split
            file, or with ``format="ztensor2"`` shards and the file that names them. Their names are in :attr:`ConvertReport.files`.
        max_shard_tensors: The same with at most so many tensors in each file, alone or beside ``max_shard_size``.
        graph: The ONNX model into whose graph tensors are written, by name; everything else of it stays as it is. Without it a
            model is written into its own.
        external: Of an ONNX model that is written: tensors of so many bytes and more (``"1MiB"``, a number) are in a file beside
            it, or ``"none"``; else those that were.
        attributes: The target's attributes in place of the source's.
        overwrite: Whether a file that is there is replaced.

    Raises:
        Unsupported: what the target cannot hold; nothing was written then.
        Misuse: the target is there and ``overwrite`` is false (``write/exists``).
        Integrity, Malformed: bad bytes in the source. What was at the target stays.
    """
    writing = _writing(format, version, attributes, encoding, level, digest, align, overwrite, sync, threads)
    converting = {
        "include": _globs(include),
        "exclude": _globs(exclude),
        "rename": _globs(rename),
        "sharing": sharing,
        "dense": bool(dense),
        "raw_types": bool(raw_types),
        "drop_attributes": bool(drop_attributes),
        "dtypes": _casts(dtype),
        "saturate": bool(saturate),
        "max_shard_size": max_shard_size,
        "max_shard_tensors": max_shard_tensors,
        "external": external,
        "forms": [*_forms(sparse, "sparse"), *_forms(quantize, "quantize")],
    }
    with ExitStack() as stack:
        file = stack.enter_context(_opened(source))
        onto = None if graph is None else stack.enter_context(_opened(graph))._native
        listener = stack.enter_context(listening(progress))
        try:
            return ConvertReport._of(file._native.convert(target, writing, converting, onto, listener))
        except Misuse as e:
            if e.code == "write/extension" and str(target).endswith((".parquet", ".arrow", ".feather", ".csv", ".ndjson")):
                e.hint = "of a dataset, .records().arrow() has to_parquet and to_ipc; .records().to_pandas() writes tables of text"
            raise


def _casts(dtype: Any) -> list[str]:
    """Rules about element types as the native half reads them."""

    def spelled(of: Any) -> str:
        return of if isinstance(of, str) else dtype_name(of)

    if dtype is None:
        return []
    if isinstance(dtype, Mapping):
        return [f"{pattern}={spelled(of)}" for pattern, of in dtype.items()]
    return [spelled(dtype)]


#: What ``sparse`` takes; ``quantize`` takes all other forms.
_SPARSE = ("csr", "coo")


def _forms(forms: Any, what: str) -> list[str]:
    """Rules about forms as the native half reads them."""
    if forms is None:
        return []
    rules = list(forms.items()) if isinstance(forms, Mapping) else [(None, forms)]
    for _, form in rules:
        if not isinstance(form, str) or (form != "keep" and (form in _SPARSE) != (what == "sparse")):
            known = '"csr" or "coo"' if what == "sparse" else '"group:…" or a block type such as "q8_0"'
            raise Misuse(f"{what} is {known}, not {form!r}", code="python/option", kind="misuse")
    return [form if pattern is None else f"{pattern}={form}" for pattern, form in rules]


def salvage(
    source: Union[str, "os.PathLike[str]"],
    target: Union[str, "os.PathLike[str]"],
    *,
    format: Optional[str] = None,
    version: Optional[str] = None,
    io: Io = "auto",
    limits: Optional[Mapping[str, int]] = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: Optional[int] = None,
    progress: Progress = None,
) -> SalvageReport:
    """Takes what is sound out of a damaged file: every tensor that is all there and whose bytes are right, as far as the
    file has digests to tell.

    Args:
        source: The path of the damaged file, which stays as it is.
        target: The path of the file to write, in the format of its extension, or else of the source.
        overwrite: Whether a file that is there is replaced.

    Raises:
        Malformed: not one tensor can be taken; nothing was written then. Io: the file cannot be read.
    """
    writing = _writing(format, version, None, None, None, None, None, overwrite, sync, threads)
    caps = dict(limits) if limits is not None else None
    with listening(progress) as listener:
        return SalvageReport(**_holdall.salvage(source, target, io, caps, writing, listener))


def scan(
    source: Union[str, "os.PathLike[str]"],
    *,
    io: Io = "auto",
    limits: Optional[Mapping[str, int]] = None,
    progress: Progress = None,
) -> ScanReport:
    """What unpickling would import and call, for every pickle in a file, a folder or an archive. Nothing is imported, called or
    unpickled.

    The report is true where all is safe: where every pickle could be followed to its end, and imports nothing but what
    tensors and plain values are made of.

    Args:
        source: The path of a file or folder, an address on the web, or ``ARCHIVE!/PATH``.

    Raises:
        Io: something cannot be read.
    """
    caps = dict(limits) if limits is not None else None
    with listening(progress) as listener:
        return ScanReport._of(_holdall.scan(source, io, caps, listener))


def verify(
    source: Union[Source, File],
    include: Optional[Iterable[str]] = None,
    exclude: Optional[Iterable[str]] = None,
    *,
    strict: bool = False,
    threads: Optional[int] = None,
    progress: Progress = None,
) -> VerifyReport:
    """Checks everything about a file that can be checked: digests, compressed bytes, indices, booleans, gaps.

    What is wrong is in the report, which is then false, and does not stop the rest. So is what keeps the file from being
    opened: that it was cut short, or is not a tensor file at all.

    Args:
        strict: Whether warnings are findings, too.

    Raises:
        Io: the file cannot be read.
    """
    try:
        with _opened(source) as file:
            return file.verify(include, exclude, strict=strict, threads=threads, progress=progress)
    except (Malformed, Integrity, Limit, Unsupported) as e:
        return VerifyReport._unopened(e)


def diff(
    a: Union[Source, File],
    b: Union[Source, File],
    *,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    include: Optional[Iterable[str]] = None,
    exclude: Optional[Iterable[str]] = None,
    threads: Optional[int] = None,
    progress: Progress = None,
) -> Diff:
    """Compares two files of any formats: names, types, shapes, attributes, values. How something is stored is no
    difference.

    Args:
        rtol, atol: Elements agree when ``|a - b| <= atol + rtol * |b|``; a NaN agrees with a NaN, and 0.0
            with -0.0. One that is not given is 0; without both, elements of one type agree when they are the same bits.
    """
    with _opened(a) as left, _opened(b) as right, listening(progress) as listener:
        native = left._native
        found = native.diff(right._native, rtol, atol, _globs(include), _globs(exclude), threads, listener)
        return Diff._of(found)


def inspect(source: Union[Source, File]) -> dict[str, Any]:
    """What a file contains, as plain values: format, version, attributes, warnings, and for each tensor its shape,
    type, layout, attributes and components; of records also their members, as rows of :func:`holdall.schema.layout`.

    Of a tar archive or a zip that is no file of tensors itself, ``files`` are those in it: ``path``, ``len`` and ``stored_len`` in bytes,
    ``method`` of those that are compressed, and the ``format`` of those that ``ARCHIVE!/PATH`` opens.

    Of the folder of a model, ``folder`` is what stands beside its tensors: the main facts of ``config.json`` (``config``), and the
    files of a tokenizer (``tokenizer``)."""
    try:
        found = _inspected(source)
        if isinstance(source, (str, os.PathLike)):
            folder = _holdall.model_folder(source)
            if folder is not None:
                found["warnings"] += [w["message"] for w in folder.pop("warnings")]
                found["folder"] = folder
        return found
    except Unsupported as e:
        if e.code != "format/unknown" or isinstance(source, File) or not hasattr(_holdall, "contents"):
            raise
        try:
            found = _holdall.contents(source)
        except (HoldallError, TypeError):
            raise e from None
        name = found.pop("source")
        return {"name": name, **found, "attributes": {}, "warnings": [], "tensors": {}}


def _inspected(source: Union[Source, File]) -> dict[str, Any]:
    with _opened(source) as file:
        tensors = {}
        for name, t in file.items():
            tensors[name] = {
                "shape": list(t.shape),
                "dtype": t.dtype,
                "layout": t.layout,
                "attributes": t.attributes,
                "components": {
                    role: {
                        "dtype": c.dtype,
                        "encoding": c.encoding,
                        "start": c.start,
                        "end": c.end,
                        "nbytes": c.nbytes,
                        "digest": c.digest,
                    }
                    for role, c in t.components.items()
                },
            }
            if t.layout == "records" and t.fault is None:
                tensors[name]["members"] = [row._asdict() for row in t.records().members]
        return {
            "name": file.name,
            "format": file.format,
            "version": file.version,
            "attributes": file.attributes,
            "warnings": [str(w.message) for w in file.warnings],
            "tensors": tensors,
        }


def stats(
    source: Union[Source, File],
    names: Optional[Iterable[str]] = None,
    *,
    bins: int = 16,
    threads: Optional[int] = None,
) -> dict[str, Stats]:
    """Statistics of tensors' values: see :meth:`holdall.Tensor.stats`."""
    with _opened(source) as file:
        wanted = list(file) if names is None else list(names)
        return {name: file[name].stats(bins, threads=threads) for name in wanted}
