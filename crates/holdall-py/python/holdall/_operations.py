"""Operations on whole files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Iterator, Literal

from . import _holdall
from ._arrays import dtype_name
from ._file import Check, File, IoMode, Kept, Source, _globs, open
from ._limits import Limits
from ._progress import Progress, listening
from ._reports import ConvertReport, Diff, SalvageReport, SampleDiff, ScanReport, Stats, VerifyReport
from ._write import Digest, Encoding, Target, _writing
from .errors import HoldallError, IntegrityError, LimitError, MalformedError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["load", "load_into", "convert", "salvage", "scan", "verify", "diff", "sample_diff", "inspect", "stats"]


@contextmanager
def _opened(source: Source | File, limits: Limits | None = None, **options: Any) -> Iterator[File]:
    if isinstance(source, File):
        if limits is not None:
            raise UsageError("limits apply when a file is opened, and this file is already open", code="python/option", kind="misuse")
        yield source
    else:
        with open(source, limits=limits, **options) as file:
            yield file


def load(
    source: Source | File,
    names: Iterable[str] | None = None,
    *,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    dtype: Any = None,
    saturate: bool = False,
    dense: bool = False,
    dequantize: bool = False,
    tied: Kept = "share",
    io: IoMode = "auto",
    check: Check = "read",
    limits: Limits | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> dict[str, Any]:
    """Loads tensors into writable NumPy arrays in new memory, on all cores, and checks digests. Strings, bytes and
    times of NumPy (``<U4``, ``S4``, ``datetime64[ns]``) have the dtype that they were written with, and arrays in
    Fortran's order have that order.

    Sparse tensors are SciPy's, of the class that was saved; records are structured arrays, or :class:`Records` if they have
    texts, lists or optional members; runs are a :class:`Blob`. What :func:`save` wrote of nested values comes back as it was.

    A tensor that can be none of these is left out, with a warning: asking the result for it raises its error, and
    ``result.faults`` has the errors by name. If it was asked for by ``names``, the call raises.

    Args:
        source: A source for :func:`holdall.open`, or an open file.
        names: The tensors to load, in this order; all tensors by default.
        include, exclude: Patterns (``"layers.*.weight"``) of the tensors to load, and of those to leave out, instead of names.
        dtype, saturate: The float type that dense float tensors are rounded to, or one for each pattern: see
            :func:`holdall.convert`.
        dense: Whether sparse and quantized tensors are loaded as dense copies.
        dequantize: Whether quantized weights that the model stores as several tensors (GPTQ, AWQ, FP8 with scales, …) are
            loaded as float32 arrays under their own names, without those tensors; see :attr:`File.quantized`. A missing or
            unknown companion of a weight is an error.
        tied: Dense tensors that have the same bytes in the file (tied weights) share their memory, so that changing one
            changes the other. ``"copy"`` gives each its own memory.
        limits: Limits under which the file is opened: see :func:`holdall.open`.
        threads: Number of threads; by default one for each core.
        progress: ``True`` for a bar, or a function that is called with the bytes done and the total.

    Raises:
        MissingNameError: there is no tensor of that name, or no pattern matches one.
        IntegrityError: the bytes do not match their digest.
        UnsupportedError: of a tensor in ``names``: a quantized layout (without ``dense``), or an element type that needs
            ml_dtypes.
    """
    with _opened(source, limits, io=io, check=check) as file:
        return file.load(
            names,
            include=include,
            exclude=exclude,
            dtype=dtype,
            saturate=saturate,
            dense=dense,
            dequantize=dequantize,
            tied=tied,
            threads=threads,
            check=check,
            progress=progress,
        )


def load_into(
    source: Source | File,
    buffers: Mapping[str, Any],
    *,
    raw: bool = False,
    io: IoMode = "auto",
    check: Check = "read",
    limits: Limits | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> None:
    """Reads dense tensors into existing memory: writable contiguous arrays (NumPy arrays, torch tensors on the host,
    also pinned, or anything with the buffer protocol), each with exactly the bytes of its tensor.

    Args:
        limits: Limits under which the file is opened: see :func:`holdall.open`.
        raw: Whether a buffer with another element type gets the bytes as they are. Otherwise its element type must be the
            tensor's; a ``bytearray`` and other plain bytes take any.

    Raises:
        UsageError: a buffer is read-only, not contiguous, has another length or element type, or overlaps another.
    """
    with _opened(source, limits, io=io, check=check) as file:
        file.load_into(buffers, raw=raw, threads=threads, check=check, progress=progress)


def convert(
    source: Source | File,
    target: Target,
    *,
    format: str | None = None,
    version: str | None = None,
    encoding: Encoding | None = None,
    level: int | None = None,
    digest: Digest | None = None,
    align: int | None = None,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    rename: Iterable[str] = (),
    sharing: Literal["keep", "dedupe", "copy"] = "keep",
    dense: bool = False,
    described: bool = False,
    raw_types: bool = False,
    drop_attributes: bool = False,
    dtype: Any = None,
    saturate: bool = False,
    sparse: None | Literal["csr", "coo"] | Mapping[str, str] = None,
    quantize: None | str | Mapping[str, str] = None,
    max_shard_size: None | int | str = None,
    max_shard_tensors: int | None = None,
    graph: None | Source | File = None,
    external: None | int | str = None,
    attributes: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> ConvertReport:
    """Writes a file in another format, version, encoding or alignment, in bounded memory.

    Args:
        source: A source for :func:`holdall.open`, or an open file; or a folder of ``.npy`` files, whose tensors are
            named after their paths.
        target: A path, or an object with ``write``.
        encoding: ``"raw"`` or ``"zstd"`` for every component, ``"planes"`` or ``"smallest"`` as for :func:`save`; by
            default each stays as it is.
        include, exclude: Patterns (``"layers.*.weight"``) of the tensors to write, and of those to leave out.
        rename: Rules such as ``"model.*=*"``.
        sharing: What to do with components that have the same bytes.
        dense: Whether sparse and quantized tensors are written as dense ones.
        described: Whether each quantized weight that the source stores as several tensors is written as one, with those as
            components (zTensor 1.2 only); any other format has them as the same tensors again.
        raw_types: Whether types that the target format lacks are written as their storage elements.
        drop_attributes: Whether attributes that the target cannot hold are left out.
        dtype: The float type that dense float tensors are rounded to (``"bfloat16"``, ``np.float16``,
            ``"f8_e4m3fn"``), to nearest, ties to even; or one for each pattern, of which the first that matches applies:
            ``{"*.norm.*": "keep", "*": "bf16"}``. A tensor that is given by its name, without wildcards, must hold
            floats.
        saturate: Whether values out of range of ``dtype`` are clamped to its largest finite number, instead of becoming infinity or NaN.
        sparse: Writes tensors as sparse where that is smaller: ``"csr"`` (matrices) or ``"coo"``; or one for each
            pattern, as with ``dtype``. A tensor that is given by its name becomes sparse in any case, or is an error.
        quantize: Quantizes float tensors with at least two dimensions: ``"group:4:128"`` is 4 bits in groups of 128 (-1: a whole row);
            ``"q8_0"``, ``"q4_0"``, ``"q4_1"``, ``"q5_0"``, ``"q5_1"``, ``"q2_k"`` to ``"q6_k"``, ``"mxfp4"``, ``"tq1_0"`` and
            ``"tq2_0"`` are GGUF blocks; or one for each pattern. The report has the rounding error: :attr:`ConvertReport.reformed`.
        max_shard_size: Writes a folder of files with at most this many bytes of tensors each (``"5GB"``, ``"2GiB"``, a number):
            safetensors with their index, as on the Hugging Face hub; with ``format="gguf"``, the parts of a split
            file; with ``format="ztensor2"``, shards and the file that names them. Their names are in :attr:`ConvertReport.files`.
        max_shard_tensors: The same with at most this many tensors in each file, alone or together with ``max_shard_size``.
        graph: The ONNX model into whose graph tensors are written, by name; everything else in it stays unchanged. By default
            a model is written into its own graph.
        external: For ONNX: tensors of at least this many bytes (``"1MiB"``, a number) are stored in a separate file
            next to the model; ``"none"`` stores all of them in the model. By default tensors stay where the source
            has them.
        attributes: Attributes of the target, instead of the source's.
        limits: Limits under which the source is opened: see :func:`holdall.open`.
        overwrite: Whether an existing file is replaced.

    Raises:
        UnsupportedError: the target format does not support a property of the source; nothing is written then.
        TargetExistsError: the target exists and ``overwrite`` is false.
        IntegrityError, MalformedError: the source has bad bytes. An existing target stays unchanged.
    """
    writing = _writing(format, version, attributes, encoding, level, digest, align, overwrite, sync, threads)
    converting = {
        "include": _globs(include),
        "exclude": _globs(exclude),
        "rename": _globs(rename),
        "sharing": sharing,
        "dense": bool(dense),
        "described": bool(described),
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
        file = stack.enter_context(_opened(source, limits))
        onto = None if graph is None else stack.enter_context(_opened(graph))._native
        listener = stack.enter_context(listening(progress))
        try:
            return ConvertReport._of(file._native.convert(target, writing, converting, onto, listener))
        except UsageError as e:
            if e.code == "write/extension" and str(target).endswith((".parquet", ".arrow", ".feather", ".csv", ".ndjson")):
                e.hint = "of a dataset, .records().arrow() has to_parquet and to_ipc; .records().to_pandas() writes tables of text"
            raise


def _casts(dtype: Any) -> list[str]:
    """Converts rules about element types for the native half."""

    def spelled(of: Any) -> str:
        return of if isinstance(of, str) else dtype_name(of)

    if dtype is None:
        return []
    if isinstance(dtype, Mapping):
        return [f"{pattern}={spelled(of)}" for pattern, of in dtype.items()]
    return [spelled(dtype)]


#: The forms that ``sparse`` accepts; ``quantize`` accepts all others.
_SPARSE = ("csr", "coo")


def _forms(forms: Any, what: str) -> list[str]:
    """Converts rules about forms for the native half."""
    if forms is None:
        return []
    rules = list(forms.items()) if isinstance(forms, Mapping) else [(None, forms)]
    for _, form in rules:
        if not isinstance(form, str) or (form != "keep" and (form in _SPARSE) != (what == "sparse")):
            known = '"csr" or "coo"' if what == "sparse" else '"group:…" or a block type such as "q8_0"'
            raise UsageError(f"{what} is {known}, not {form!r}", code="python/option", kind="misuse")
    return [form if pattern is None else f"{pattern}={form}" for pattern, form in rules]


def salvage(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    version: str | None = None,
    io: IoMode = "auto",
    limits: Limits | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> SalvageReport:
    """Recovers the intact tensors of a damaged file: every tensor that is complete and whose bytes match their
    digest, if the file has one.

    Args:
        source: The path of the damaged file, which is not changed.
        target: The path of the file to write, in the format of its extension, or of the source if it has none.
        overwrite: Whether an existing file is replaced.

    Raises:
        MalformedError: no tensor is intact; nothing is written then. FileIoError: the file cannot be read.
    """
    writing = _writing(format, version, None, None, None, None, None, overwrite, sync, threads)
    caps = dict(limits) if limits is not None else None
    with listening(progress) as listener:
        return SalvageReport(**_holdall.salvage(source, target, io, caps, writing, listener))


def scan(
    source: str | os.PathLike[str],
    *,
    io: IoMode = "auto",
    limits: Limits | None = None,
    progress: Progress = None,
) -> ScanReport:
    """Finds what unpickling would import and call, for every pickle in a file, a folder or an archive. Nothing is
    imported, called or unpickled.

    The report is true if everything is safe: every pickle could be followed to its end, and imports only what tensors
    and plain values need.

    Args:
        source: The path of a file or folder, an address on the web, or ``ARCHIVE!/PATH``.

    Raises:
        FileIoError: a file cannot be read.
    """
    caps = dict(limits) if limits is not None else None
    with listening(progress) as listener:
        return ScanReport._of(_holdall.scan(source, io, caps, listener))


def verify(
    source: Source | File,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    *,
    strict: bool = False,
    limits: Limits | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> VerifyReport:
    """Checks everything about a file that can be checked: digests, compressed bytes, indices, booleans, gaps.

    Findings are listed in the report, which is then false; they do not stop the other checks. A file that cannot be
    opened, because it was truncated or is not a tensor file, is a finding too.

    Args:
        strict: Whether warnings are findings too.
        limits: Limits under which the file is opened: see :func:`holdall.open`.

    Raises:
        FileIoError: the file cannot be read.
    """
    try:
        with _opened(source, limits) as file:
            return file.verify(include, exclude, strict=strict, threads=threads, progress=progress)
    except (MalformedError, IntegrityError, LimitError, UnsupportedError) as e:
        return VerifyReport._unopened(e)


def diff(
    a: Source | File,
    b: Source | File,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> Diff:
    """Compares two files of any formats: names, types, shapes, attributes, values. How values are stored does not
    matter.

    Args:
        rtol, atol: Elements are equal if ``|a - b| <= atol + rtol * |b|``; NaN equals NaN, and 0.0 equals -0.0.
            The one not given is 0; if neither is given, elements of one type are equal if they have the same bits.
    """
    with _opened(a) as left, _opened(b) as right, listening(progress) as listener:
        native = left._native
        found = native.diff(right._native, rtol, atol, _globs(include), _globs(exclude), threads, listener)
        return Diff._of(found)


def sample_diff(
    a: Source | File,
    b: Source | File,
    *,
    share: float | None = None,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> SampleDiff:
    """Compares two models by a small part of their weights, also at addresses: are they the same, of the same base, or
    unrelated?

    Args:
        share: The greatest share of the bytes of each that is read. By default a hundredth, and less of large models.

    Raises:
        UsageError: ``share`` is not between 0 and 1.
    """
    if share is not None and not 0 < share <= 1:
        raise UsageError(f"`share` is a number above 0, and at most 1; found {share!r}", code="python/option", kind="misuse")
    with _opened(a) as left, _opened(b) as right, listening(progress) as listener:
        found = left._native.sample(right._native, share, _globs(include), _globs(exclude), threads, listener)
        return SampleDiff._of(found)


def inspect(source: Source | File) -> dict[str, Any]:
    """Describes a file in plain values: format, version, attributes, ignored parts, warnings, and for each tensor its
    shape, type, layout, attributes and components; for records also their members, as rows of
    :func:`holdall.schema.layout`.

    For a tar archive or a zip that is not a tensor file itself, ``files`` are the files in it: ``path``, ``len`` and ``stored_len``
    in bytes, ``method`` if compressed, and ``format`` if ``ARCHIVE!/PATH`` can open it.

    For the folder of a model, ``folder`` describes its other files: the main facts of ``config.json``
    (``config``), and the files of a tokenizer (``tokenizer``)."""
    try:
        found = _inspected(source)
        if isinstance(source, (str, os.PathLike)):
            folder = _holdall.model_folder(source)
            if folder is not None:
                found["warnings"] += [w["message"] for w in folder.pop("warnings")]
                found["folder"] = folder
        return found
    except UnsupportedError as e:
        if e.code != "format/unknown" or isinstance(source, File) or not hasattr(_holdall, "contents"):
            raise
        try:
            found = _holdall.contents(source)
        except (HoldallError, TypeError):
            raise e from None
        name = found.pop("source")
        return {"name": name, **found, "attributes": {}, "warnings": [], "tensors": {}}


def _inspected(source: Source | File) -> dict[str, Any]:
    with _opened(source) as file:
        tensors = {}
        for name, t in file.items():
            tensors[name] = {
                "shape": list(t.shape),
                "dtype": str(t.dtype),
                "layout": t.layout,
                "attributes": t.attributes,
                "components": {
                    role: {
                        "dtype": str(c.dtype),
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
            "unrepresented": file.unrepresented,
            "warnings": [str(w.message) for w in file.warnings],
            "tensors": tensors,
        }


def stats(
    source: Source | File,
    names: Iterable[str] | None = None,
    *,
    bins: int = 16,
    threads: int | None = None,
) -> dict[str, Stats]:
    """Returns statistics of the values of ``names``, or of all tensors, by name: see :meth:`holdall.Tensor.stats`.

    ::

        for name, s in holdall.stats("model.safetensors").items():
            print(name, s.min, s.max, s.mean, s.std)
    """
    with _opened(source) as file:
        wanted = list(file) if names is None else list(names)
        return {name: file[name].stats(bins, threads=threads) for name in wanted}
