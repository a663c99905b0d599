"""What operations report."""

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
    "Diff",
    "TensorDiff",
    "ValueDiff",
]

Number = int | float | complex
Said = dict[str, Any]
T = TypeVar("T")


def made(cls: type[T], said: Said, **others: Any) -> T:
    """An instance of ``cls`` of what the native half says, under the names of ``holdall --json``; ``others`` are the
    fields that are something else here."""
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    return cls(**{name: others[name] if name in others else said[name] for name in names})


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
    def _of(cls, said: Said) -> Stats:
        bins = said["histogram"]
        return made(cls, said, histogram=bins and Histogram(bins["min"], bins["max"], bins["counts"]))


@dataclass(frozen=True)
class Unverified:
    """Something that could not be verified; one for each reason."""

    reason: str
    message: str
    tensor: str
    component: str | None
    count: int


@dataclass(frozen=True)
class Import:
    """Something that a pickle would import."""

    #: The module, ``"?"`` where only running the pickle would tell, and the name in it.
    module: str
    name: str
    #: ``"safe"``, ``"unknown"``, ``"suspicious"`` or ``"dangerous"``.
    verdict: str
    #: Whether it would be called, too.
    called: bool
    #: How often it is named, and where first, in bytes of the file.
    count: int
    offset: int


@dataclass(frozen=True)
class Pickle:
    """A pickle, and what unpickling it would do."""

    #: The file; ``ZIP!/NAME`` of one in a zip.
    source: str
    #: Where in that file it begins, and its bytes, as far as it can be followed.
    offset: int
    len: int
    #: Whether it is in the texts or bytes of another pickle.
    inner: bool
    #: The highest protocol that it says; 0 of those that say none.
    protocol: int
    #: The worst of its imports; at least ``"unknown"`` where it cannot be followed to its end.
    verdict: str
    imports: list[Import]
    #: Why it cannot be followed to its end. What is before that would have run.
    broken: HoldallError | None


@dataclass(frozen=True)
class ScanReport:
    """What was found in a file, a folder or an archive. True if all pickles are safe and everything was followed, also if there are none."""

    #: ``"no pickles"``, ``"safe"``, ``"unknown"``, ``"suspicious"`` or ``"dangerous"``: the worst of all.
    verdict: str
    #: Files that were looked at, those in zips too.
    files: int
    pickles: list[Pickle]
    #: What could not be followed, and why: pickles may be there.
    unread: list[HoldallError]

    def __bool__(self) -> bool:
        return self.verdict in ("safe", "no pickles")

    @classmethod
    def _of(cls, said: Said) -> ScanReport:
        def pickle(one: Said) -> Pickle:
            return made(Pickle, one, imports=[made(Import, each) for each in one["imports"]])

        return made(cls, said, pickles=[pickle(one) for one in said["pickles"]])


class Verified:
    """What the reports of verifications have in common."""

    #: ``"sound"``, ``"incomplete"`` or ``"bad"``.
    verdict: str
    #: What is wrong: the first 1000.
    findings: list[HoldallError]

    def __bool__(self) -> bool:
        return self.verdict == "sound"

    def raise_if_bad(self) -> None:
        """Raises the first finding, if there is one: :class:`IntegrityError` or :class:`MalformedError`, mostly."""
        if self.findings:
            raise self.findings[0]


@dataclass(frozen=True)
class VerifyReport(Verified):
    """What a verification did, found, and could not do. True if the file is sound: nothing is wrong with it, and every check
    could be made."""

    #: ``"sound"``, ``"incomplete"`` or ``"bad"``.
    verdict: str
    tensors: int
    components: int
    #: Bytes of the file that the components take, and those of them that were read.
    stored_len: int
    read_len: int
    #: Components whose digest was right, by algorithm.
    digests: dict[str, int]
    #: The digest of what a file of zTensor 2 holds, however it lies in files, where all of it is right.
    content: str | None
    #: Compressed components that decode to their length, and components of ``bool`` with nothing but 0 and 1.
    decoded: int
    bools: int
    #: Tensors of each layout whose components fit their shape or schema.
    sparse: int
    quantized: int
    described: int
    records: int
    blobs: int
    #: What is wrong: the first 1000.
    findings: list[HoldallError]
    finding_count: int
    unverified: list[Unverified]
    warnings: list[FormatWarning]

    @classmethod
    def _of(cls, said: Said) -> VerifyReport:
        unverified = [Unverified(**u) for u in said["unverified"]]
        return made(cls, said, unverified=unverified, warnings=[FormatWarning(**w) for w in said["warnings"]])

    @classmethod
    def _unopened(cls, e: HoldallError) -> VerifyReport:
        """Of a file that cannot be opened for what is in it."""
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


@dataclass(frozen=True)
class Overflowed:
    """A tensor some of whose numbers overflowed when they were rounded to another float type."""

    #: Its name in the target.
    name: str
    #: What its elements were and what they became, as ``holdall --json`` has it: ``"f32"``, ``"f8_e4m3fn"``.
    from_type: str
    to_type: str
    count: int


@dataclass(frozen=True)
class Reformed:
    """A tensor that was made sparse or quantized."""

    #: Its name in the target.
    name: str
    #: What it became: ``"csr"``, ``"coo"``, ``"group:4:128"``, ``"q8_0"``.
    form: str
    #: Bytes that it decoded to in the source, and does in the target.
    from_len: int
    len: int
    #: Of a quantized one: the greatest distance of an element from what is read now, and the root mean square of them.
    max_error: float | None
    rms_error: float | None


@dataclass(frozen=True)
class ConvertReport:
    """What a conversion did."""

    tensors: int
    #: Components that share the bytes of another.
    shared: int
    #: Decoded bytes of all components with bytes of their own.
    decoded_len: int
    source_len: int
    target_len: int
    #: What the source has and the target lacks, besides what was asked for: what is not known here, and what the target has no
    #: place for.
    left_behind: list[str]
    #: What is odd about the source, as far as it is about what was written.
    warnings: list[FormatWarning]
    #: Tensors whose elements became another float type.
    cast: int
    #: Numbers of these that were beyond what the type holds, and the tensors they are in.
    overflowed: int
    overflows: list[Overflowed]
    #: Tensors that were made sparse or quantized.
    reformed: list[Reformed]
    #: The names of the files in the folder that was written; none where one file was.
    files: list[str]

    @classmethod
    def _of(cls, said: Said) -> ConvertReport:
        overflows = [Overflowed(o["name"], o["from"], o["to"], o["count"]) for o in said["overflows"]]
        reformed = [Reformed(**r) for r in said["reformed"]]
        warnings = [FormatWarning(**w) for w in said["warnings"]]
        return made(cls, said, overflows=overflows, reformed=reformed, warnings=warnings)


@dataclass(frozen=True)
class SalvageReport:
    """What was recovered from a damaged file, and what could not be."""

    #: Why the file cannot be opened as it is; ``None`` where it can be.
    refused: HoldallError | None
    source_len: int
    #: Bytes that were taken for the file: fewer where an older end of it was found.
    read_len: int
    #: Tensors that were taken.
    tensors: int
    #: Files that were taken, of a package.
    files: int
    #: What is wrong with those that were not: the first 1000.
    left_out: list[HoldallError]
    left_out_count: int
    #: Components without a digest: bytes of them that changed would not show.
    unchecked: int
    #: What else the file has and the new one lacks.
    left_behind: list[str]
    target_len: int

    @property
    def is_whole(self) -> bool:
        """Whether everything that the file once had was recovered, as far as that can be told."""
        return self.refused is None and self.left_out_count == 0


@dataclass(frozen=True)
class ValueDiff:
    """How elements compare."""

    count: int
    #: Elements that are not the same.
    unequal: int
    #: Elements that do not agree under the tolerance.
    differing: int
    max_abs: float
    max_rel: float
    #: Place, value in ``a`` and value in ``b`` of the first that does not agree.
    first: tuple[list[int], Number, Number] | None

    @classmethod
    def _of(cls, said: Said) -> ValueDiff:
        first = said["first"]
        return made(cls, said, first=first and (first["index"], first["a"], first["b"]))


def _pair(said: list[Any] | None) -> tuple[Any, Any] | None:
    return None if said is None else (said[0], said[1])


def _type_name(said: Said | None) -> str | None:
    return None if said is None else _holdall.type_name(said["dtype"], said["logical_type"])


def _sides(said: list[Said]) -> dict[str, tuple[Any, Any]]:
    return {attribute["key"]: (attribute.get("a"), attribute.get("b")) for attribute in said}


@dataclass(frozen=True)
class TensorDiff:
    """The differences between two tensors of the same name; ``None`` where there is none."""

    name: str
    types: tuple[str | None, str | None] | None
    shapes: tuple[list[int], list[int]] | None
    layouts: tuple[str, str] | None
    attributes: dict[str, tuple[Any, Any]]
    #: Roles of components that are not the same.
    components: list[str]
    values: ValueDiff | None
    #: Why the values could not be compared.
    incomparable: HoldallError | None

    @classmethod
    def _of(cls, said: Said) -> TensorDiff:
        return made(
            cls,
            said,
            types=_pair(said["types"] and [_type_name(side) for side in said["types"]]),
            shapes=_pair(said["shapes"]),
            layouts=_pair(said["layouts"]),
            attributes=_sides(said["attributes"]),
            components=[component["role"] for component in said["components"]],
            values=said["values"] and ValueDiff._of(said["values"]),
        )

    def __str__(self) -> str:
        pairs = [pair for pair in (self.types, self.shapes, self.layouts) if pair]
        what = [f"{a} → {b}" for a, b in pairs]
        what += [f"attribute {key}: {a!r} → {b!r}" for key, (a, b) in self.attributes.items()]
        what += [f"component {role}" for role in self.components]
        if self.values:
            v = self.values
            what.append(f"{v.unequal} of {v.count} values differ, by {v.max_abs:.5g} at most")
        if self.incomparable:
            what.append(f"not compared: {self.incomparable._message}")
        return f"{self.name}: {', '.join(what)}"


@dataclass(frozen=True)
class Diff:
    """The differences between two files, ``a`` and ``b``. True if there are any."""

    #: No difference at all, bit for bit.
    is_identical: bool
    #: No difference but in values that agree under the tolerance.
    is_same: bool
    compared: int
    identical: int
    #: Names of tensors that are only in ``a``, and only in ``b``.
    removed: list[str]
    added: list[str]
    attributes: dict[str, tuple[Any, Any]]
    changed: list[TensorDiff]

    @classmethod
    def _of(cls, said: Said) -> Diff:
        return made(
            cls,
            said,
            is_identical=said["identical"],
            is_same=said["same"],
            identical=said["unchanged"],
            removed=[tensor["name"] for tensor in said["removed"]],
            added=[tensor["name"] for tensor in said["added"]],
            attributes=_sides(said["attributes"]),
            changed=[TensorDiff._of(tensor) for tensor in said["changed"]],
        )

    def __bool__(self) -> bool:
        return not self.is_same

    def __str__(self) -> str:
        """A line for each difference, the first 100."""
        lines = [f"~ attribute {key}: {a!r} → {b!r}" for key, (a, b) in self.attributes.items()]
        lines += [f"- {name}" for name in self.removed] + [f"+ {name}" for name in self.added]
        lines += [f"~ {tensor}" for tensor in self.changed]
        more = [f"… and {len(lines) - 100} more"] if len(lines) > 100 else []
        verdict = "identical" if self.is_identical else "same, within the tolerance" if self.is_same else "different"
        return "\n".join([f"{verdict}: {self.identical} of {self.compared} tensors are identical", *lines[:100], *more])
