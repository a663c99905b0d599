"""Reports of operations."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

from . import _holdall
from .errors import FormatWarning, HoldallError

__all__ = [
    "Histogram",
    "Stats",
    "SalvageReport",
    "ScanReport",
    "Pickle",
    "Import",
    "VerifyReport",
    "Unverified",
    "ConvertReport",
    "Overflowed",
    "Reformed",
    "Dequantized",
    "Diff",
    "SampleDiff",
    "TensorDiff",
    "LayerDiff",
    "ValueDiff",
]

Number = int | float | complex
JsonObject = dict[str, Any]
T = TypeVar("T")


def made(cls: type[T], report: JsonObject, **others: Any) -> T:
    """Returns an instance of ``cls`` with the fields of the native half's report, which have the names of
    ``holdall --json``; ``others`` replace fields that have another type here."""
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    return cls(**{name: others[name] if name in others else report[name] for name in names})


class Histogram(NamedTuple):
    """Counts of finite values in bins of equal width from ``min`` to ``max``."""

    #: The start of the first bin: the smallest finite value.
    min: float
    #: The end of the last bin: the largest finite value.
    max: float
    #: The number of values in each bin.
    counts: list[int]


@dataclass(frozen=True)
class Stats:
    """Statistics of a tensor's values; ``min`` to ``histogram`` cover the finite values::

        s = holdall.stats("model.safetensors", ["w"])["w"]
        print(s.min, s.max, s.mean, s.std, s.zeros, s.nan)
        print(s.histogram.counts)
    """

    #: ``"value"``; ``"magnitude"`` of complex elements.
    measure: str
    #: The number of values, including the zeros that a sparse tensor does not store.
    count: int
    zeros: int
    #: The zeros that a sparse tensor does not store, also counted in ``zeros``.
    implied_zeros: int
    nan: int
    inf: int
    neg_inf: int
    #: The smallest finite value, exact even for 64-bit integers; ``None`` if no value is finite.
    min: Number | None
    #: The largest finite value, exact even for 64-bit integers; ``None`` if no value is finite.
    max: Number | None
    #: The mean of the finite values.
    mean: float | None
    #: The standard deviation of the population (divided by the count).
    std: float | None
    #: ``None`` if no value is finite, or ``bins=0`` was passed.
    histogram: Histogram | None

    @classmethod
    def _of(cls, report: JsonObject) -> Stats:
        bins = report["histogram"]
        return made(cls, report, histogram=bins and Histogram(bins["min"], bins["max"], bins["counts"]))

    def _repr_html_(self) -> str:
        from ._html import stats

        return stats(self)


@dataclass(frozen=True)
class Unverified:
    """A part of the file that could not be verified; one entry for each reason."""

    reason: str
    message: str
    tensor: str
    component: str | None
    count: int


@dataclass(frozen=True)
class Import:
    """An object that a pickle would import."""

    #: The module (``"?"`` if it is only known when the pickle runs) and the name in it.
    module: str
    name: str
    #: ``"safe"``, ``"unknown"``, ``"suspicious"`` or ``"dangerous"``.
    verdict: str
    #: Whether the object would also be called.
    called: bool
    #: The number of references to it, and the file offset of the first, in bytes.
    count: int
    offset: int


@dataclass(frozen=True)
class Pickle:
    """A pickle and the imports that unpickling would make."""

    #: The file; ``ZIP!/NAME`` for a pickle in a zip.
    source: str
    #: The offset in the file, and the length in bytes, as far as the pickle can be followed.
    offset: int
    len: int
    #: Whether it is embedded in the strings or bytes of another pickle.
    inner: bool
    #: The highest protocol that it declares; 0 if it declares none.
    protocol: int
    #: The worst rating of its imports; at least ``"unknown"`` if it cannot be followed to its end.
    verdict: str
    imports: list[Import]
    #: Why it cannot be followed to its end. The instructions before that point would have run.
    broken: HoldallError | None


@dataclass(frozen=True)
class ScanReport:
    """The result of scanning a file, a folder or an archive. True if all pickles are safe and everything could be
    followed, also if there are no pickles."""

    #: The worst rating: ``"no pickles"``, ``"safe"``, ``"unknown"``, ``"suspicious"`` or ``"dangerous"``.
    verdict: str
    #: The number of files that were examined, including those in zips.
    files: int
    pickles: list[Pickle]
    #: Parts that could not be followed, with the reason; they may contain pickles.
    unread: list[HoldallError]

    def __bool__(self) -> bool:
        return self.verdict in ("safe", "no pickles")

    @classmethod
    def _of(cls, report: JsonObject) -> ScanReport:
        def pickle(one: JsonObject) -> Pickle:
            return made(Pickle, one, imports=[made(Import, each) for each in one["imports"]])

        return made(cls, report, pickles=[pickle(one) for one in report["pickles"]])


class Verified:
    """The common part of verification reports."""

    #: ``"sound"``, ``"incomplete"`` or ``"bad"``.
    verdict: str
    #: Errors: the first 1000.
    findings: list[HoldallError]

    def __bool__(self) -> bool:
        return self.verdict == "sound"

    def raise_if_bad(self) -> None:
        """Raises the first finding, if any: usually an :class:`IntegrityError` or a :class:`MalformedError`."""
        if self.findings:
            raise self.findings[0]


@dataclass(frozen=True)
class VerifyReport(Verified):
    """The checks of a verification and their results. True if the file is sound: no errors were found, and every
    check could be made."""

    #: ``"sound"``, ``"incomplete"`` or ``"bad"``.
    verdict: str
    tensors: int
    components: int
    #: Bytes of the file that belong to components, and how many of them were read.
    stored_len: int
    read_len: int
    #: The number of components whose digest matched, by algorithm.
    digests: dict[str, int]
    #: The digest of the contents of a zTensor 2 file, independent of how they are stored, if all of them are correct.
    content: str | None
    #: The number of compressed components that decode to their length, and of ``bool`` components with only 0 and 1.
    decoded: int
    bools: int
    #: The number of tensors of each layout whose components match their shape or schema.
    sparse: int
    quantized: int
    described: int
    records: int
    blobs: int
    #: Errors: the first 1000.
    findings: list[HoldallError]
    finding_count: int
    unverified: list[Unverified]
    warnings: list[FormatWarning]

    @classmethod
    def _of(cls, report: JsonObject) -> VerifyReport:
        unverified = [Unverified(**u) for u in report["unverified"]]
        return made(cls, report, unverified=unverified, warnings=[FormatWarning(**w) for w in report["warnings"]])

    @classmethod
    def _unopened(cls, e: HoldallError) -> VerifyReport:
        """Returns the report for a file that cannot be opened."""
        is_bad = e.kind in ("malformed", "integrity")
        unverified = [] if is_bad else [Unverified("unsupported", e._message, e.tensor or "", e.component, 1)]
        zero = {f.name: 0 for f in fields(cls) if f.type == "int"}
        return cls(
            **{**zero, "finding_count": int(is_bad)},
            verdict="bad" if is_bad else "incomplete",
            digests={},
            content=None,
            findings=[e] if is_bad else [],
            unverified=unverified,
            warnings=[],
        )

    def _repr_html_(self) -> str:
        from ._html import verified

        return verified(self)


@dataclass(frozen=True)
class Overflowed:
    """A tensor with numbers that overflowed when they were rounded to another float type."""

    #: The tensor's name in the target.
    name: str
    #: The element types before and after, as in ``holdall --json``: ``"f32"``, ``"f8_e4m3fn"``.
    from_type: str
    to_type: str
    count: int


@dataclass(frozen=True)
class Reformed:
    """A tensor that was made sparse or quantized."""

    #: The tensor's name in the target.
    name: str
    #: The new form: ``"csr"``, ``"coo"``, ``"group:4:128"``, ``"q8_0"``.
    form: str
    #: The size in bytes in the source and in the target, decoded.
    from_len: int
    len: int
    #: The maximum and the root mean square of the rounding errors, for a quantized tensor.
    max_error: float | None
    rms_error: float | None


@dataclass(frozen=True)
class Dequantized:
    """A quantized weight of several tensors that was written as one dense tensor."""

    name: str
    kind: str
    #: The tensors whose content is in the values.
    applied: list[str]
    #: Tensors next to the weight that do not change its values: scales of activations.
    dropped: list[str]


@dataclass(frozen=True)
class ConvertReport:
    """The result of a conversion."""

    tensors: int
    #: The number of components that share the bytes of another.
    shared: int
    #: Decoded bytes of all components, shared bytes counted once.
    decoded_len: int
    source_len: int
    target_len: int
    #: Parts of the source that the target lacks, apart from those that the caller left out: parts that this version
    #: does not know, or that the target format cannot hold.
    left_behind: list[str]
    #: Warnings about the parts of the source that were written.
    warnings: list[FormatWarning]
    #: The number of tensors whose elements were converted to another float type.
    cast: int
    #: The number of values out of range of the new type, and the tensors that contain them.
    overflowed: int
    overflows: list[Overflowed]
    #: The number of tensors that were written in byte planes, and of other tensors with a compressed component.
    in_planes: int
    compressed: int
    #: Tensors that were made sparse or quantized.
    reformed: list[Reformed]
    #: The quantized weights that became dense, with the names of the tensors that the target does not have.
    dequantized: list[Dequantized]
    #: The names of the files in the folder that was written; empty if a single file was written.
    files: list[str]

    @classmethod
    def _of(cls, report: JsonObject) -> ConvertReport:
        overflows = [Overflowed(o["name"], o["from"], o["to"], o["count"]) for o in report["overflows"]]
        reformed = [Reformed(**r) for r in report["reformed"]]
        dequantized = [Dequantized(**d) for d in report["dequantized"]]
        warnings = [FormatWarning(**w) for w in report["warnings"]]
        return made(cls, report, overflows=overflows, reformed=reformed, dequantized=dequantized, warnings=warnings)


@dataclass(frozen=True)
class SalvageReport:
    """The parts of a damaged file that were recovered, and those that could not be."""

    #: Why the damaged file cannot be opened; ``None`` if it can be.
    open_error: HoldallError | None
    source_len: int
    #: The bytes that were considered: fewer than the file has if an older end of it was found.
    read_len: int
    #: Recovered tensors.
    tensors: int
    #: Recovered files of a package.
    files: int
    #: Errors of the tensors that were not recovered: the first 1000.
    left_out: list[HoldallError]
    left_out_count: int
    #: Components without a digest, for which changed bytes would go unnoticed.
    unchecked: int
    #: Other parts of the damaged file that were not recovered.
    left_behind: list[str]
    target_len: int

    @property
    def is_complete(self) -> bool:
        """Whether all of the original file was recovered, as far as can be determined."""
        return self.open_error is None and self.left_out_count == 0


@dataclass(frozen=True)
class ValueDiff:
    """The comparison of the elements of two tensors."""

    count: int
    #: The number of elements that are not identical.
    unequal: int
    #: The number of elements that differ by more than the tolerance.
    differing: int
    max_abs: float
    max_rel: float
    #: The share of elements that are not identical, from 0 to 1.
    share: float
    #: Elements that are not identical and of which one is NaN or infinite; ``rms``, ``relative`` and ``cosine`` leave them out.
    non_finite: int
    #: The root of the mean square of the differences. ``None``, like the next two, for elements of an unknown type.
    rms: float | None
    #: ``rms`` divided by the root of the mean square of the elements of ``a``; infinite if all of these are 0.
    relative: float | None
    #: The cosine of the angle between both tensors as vectors: 1 if they are equal, 0 if one is all zeros.
    cosine: float | None
    #: Index, value in ``a`` and value in ``b`` of the first element that differs by more than the tolerance.
    first: tuple[list[int], Number, Number] | None

    @classmethod
    def _of(cls, report: JsonObject) -> ValueDiff:
        first = report["first"]
        return made(cls, report, first=first and (first["index"], first["a"], first["b"]))


def _pair(report: list[Any] | None) -> tuple[Any, Any] | None:
    return None if report is None else (report[0], report[1])


def _type_name(report: JsonObject | None) -> str | None:
    return None if report is None else _holdall.type_name(report["dtype"], report["logical_type"])


def _sides(report: list[JsonObject]) -> dict[str, tuple[Any, Any]]:
    return {attribute["key"]: (attribute.get("a"), attribute.get("b")) for attribute in report}


@dataclass(frozen=True)
class TensorDiff:
    """The differences between two tensors of the same name; a field is ``None`` if there is no difference."""

    name: str
    types: tuple[str | None, str | None] | None
    shapes: tuple[list[int], list[int]] | None
    layouts: tuple[str, str] | None
    attributes: dict[str, tuple[Any, Any]]
    #: Roles of components that differ.
    components: list[str]
    values: ValueDiff | None
    #: Why the values could not be compared.
    incomparable: HoldallError | None

    @classmethod
    def _of(cls, report: JsonObject) -> TensorDiff:
        return made(
            cls,
            report,
            types=_pair(report["types"] and [_type_name(side) for side in report["types"]]),
            shapes=_pair(report["shapes"]),
            layouts=_pair(report["layouts"]),
            attributes=_sides(report["attributes"]),
            components=[component["role"] for component in report["components"]],
            values=report["values"] and ValueDiff._of(report["values"]),
        )

    def __str__(self) -> str:
        pairs = [pair for pair in (self.types, self.shapes, self.layouts) if pair]
        what = [f"{a} → {b}" for a, b in pairs]
        what += [f"attribute {key}: {a!r} → {b!r}" for key, (a, b) in self.attributes.items()]
        what += [f"component {role}" for role in self.components]
        if self.values:
            v = self.values
            relative = "" if v.relative is None else f" ({v.relative:.3g} relative, cosine {v.cosine:.6g})"
            what.append(f"{v.unequal} of {v.count} values differ, by {v.max_abs:.5g} at most{relative}")
        if self.incomparable:
            what.append(f"not compared: {self.incomparable._message}")
        return f"{self.name}: {', '.join(what)}"


@dataclass(frozen=True)
class LayerDiff:
    """What changed in a layer of a model, summed over its tensors that are in both files."""

    #: The common start of the names of its tensors, such as ``model.layers.12``; ``None`` for the tensors outside any layer.
    name: str | None
    tensors: int
    #: Tensors of which a value, a shape or a component differs.
    changed: int
    #: Tensors whose values could not be compared one by one.
    uncompared: int
    #: The number of elements of the other tensors, and of those that are not identical.
    count: int
    unequal: int
    share: float
    max_abs: float
    #: As in :class:`ValueDiff`.
    non_finite: int
    rms: float | None
    relative: float | None
    cosine: float | None


@dataclass(frozen=True)
class SampleDiff:
    """What a sample of the weights says about two models: see ``docs/sampling.md``."""

    #: ``"same"``, ``"same_base"``, ``"unrelated"`` or ``"undecided"``.
    verdict: str
    #: The evidence for the verdict, or the reason for the lack of one.
    reason: str
    #: The probability with which each statement holds, such as 0.999.
    confidence: float
    #: The bytes of the tensors of ``a`` and of ``b`` that were read, and all.
    bytes_read: tuple[int, int]
    bytes: tuple[int, int]
    #: The runs of neighbouring elements and the elements that were compared, and of those the ones that are not equal.
    runs: int
    elements: int
    unequal: int
    #: Tensors of which elements were compared; those that both have; those that one lacks, or has in another shape.
    sampled: int
    common: int
    unmatched: int
    #: The shares of the weights in matrices that were sampled, in those that correlate, and in those that do not.
    coverage: float
    related: float
    unrelated: float
    #: The correlation in the median matrix, and the interval in which it is.
    correlation: float | None
    interval: tuple[float, float] | None
    #: The greatest share of runs that can differ if none of the sampled ones does.
    most_unequal: float
    #: Whether types differ, and all values are equal when rounded to the other type.
    rounded: bool
    #: Whether a side is quantized, and no difference is larger than quantization makes.
    within_quantization: bool

    @classmethod
    def _of(cls, report: JsonObject) -> SampleDiff:
        pairs = {name: _pair(report[name]) for name in ("bytes_read", "bytes", "interval")}
        return made(cls, report, **pairs)


@dataclass(frozen=True)
class Diff:
    """The differences between two files, ``a`` and ``b``. True if there are any."""

    #: Whether there is no difference at all, bit for bit.
    is_identical: bool
    #: Whether all differences are within the tolerance.
    is_same: bool
    compared: int
    identical: int
    #: Names of tensors that are only in ``a``, and only in ``b``.
    removed: list[str]
    added: list[str]
    attributes: dict[str, tuple[Any, Any]]
    changed: list[TensorDiff]
    #: The layers of the model, in the order of ``a``.
    layers: list[LayerDiff]

    @classmethod
    def _of(cls, report: JsonObject) -> Diff:
        return made(
            cls,
            report,
            is_identical=report["identical"],
            is_same=report["same"],
            identical=report["unchanged"],
            removed=[tensor["name"] for tensor in report["removed"]],
            added=[tensor["name"] for tensor in report["added"]],
            attributes=_sides(report["attributes"]),
            changed=[TensorDiff._of(tensor) for tensor in report["changed"]],
            layers=[made(LayerDiff, layer) for layer in report["layers"]],
        )

    def __bool__(self) -> bool:
        return not self.is_same

    def __str__(self) -> str:
        """Returns a line for each difference, up to 100."""
        lines = [f"~ attribute {key}: {a!r} → {b!r}" for key, (a, b) in self.attributes.items()]
        lines += [f"- {name}" for name in self.removed] + [f"+ {name}" for name in self.added]
        lines += [f"~ {tensor}" for tensor in self.changed]
        more = [f"… and {len(lines) - 100} more"] if len(lines) > 100 else []
        verdict = "identical" if self.is_identical else "same, within the tolerance" if self.is_same else "different"
        return "\n".join([f"{verdict}: {self.identical} of {self.compared} tensors are identical", *lines[:100], *more])

    def _repr_html_(self) -> str:
        from ._html import diff

        return diff(self)
