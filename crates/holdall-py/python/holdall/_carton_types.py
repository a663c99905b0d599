"""Types for the descriptions of packages and for reports about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ._reports import JsonObject, Verified, made
from .errors import FormatWarning, HoldallError

__all__ = [
    "Example",
    "OutputReport",
    "PackReport",
    "PackageFile",
    "PackageReport",
    "Runner",
    "SelfTest",
    "SelfTestReport",
    "SelfTestReports",
    "Spec",
]

#: A shape: ``"*"`` for any shape, another string for a symbol (the same whole shape wherever it is used), or a tuple
#: with an entry per dimension: a number of elements, ``"*"``, or a symbol (the same size wherever it is used in a
#: call).
Shape = str | tuple[int | str, ...]


class Spec(NamedTuple):
    """A declared input or output of a model."""

    name: str
    #: The element type: ``"float32"``, ``"int64"``, ``"string"``, …
    dtype: str
    #: ``("batch", 3)``: see the guide. ``()`` is a scalar.
    shape: Shape = "*"
    #: A description for people.
    description: str | None = None
    #: The name of the node in the model, if it differs from ``name``.
    internal_name: str | None = None

    @classmethod
    def _of(cls, report: JsonObject) -> Spec:
        shape = report["shape"]
        return cls(**{**report, "shape": shape if isinstance(shape, str) else tuple(shape)})

    def __str__(self) -> str:
        shape = self.shape if isinstance(self.shape, str) else "[" + ", ".join(map(str, self.shape)) + "]"
        return f"{self.name}: {self.dtype} {'any shape' if shape == '*' else shape}"


@dataclass(frozen=True)
class Runner:
    """The runner of a model, with its requirements."""

    #: ``"onnx"``, ``"python"``, ``"noop"``, …
    name: str
    #: The accepted versions of its framework, as Cargo writes requirements: ``">=1.12, <2"``.
    framework_version: str
    #: The version of the layout of ``model/`` that the runner expects.
    compat_version: int
    options: Mapping[str, int | float | str | bool]


@dataclass(frozen=True)
class SelfTest:
    """Inputs, and the outputs they should give.

    In an open package, the values are names of tensors in :attr:`Package.values`. For :func:`holdall.carton.pack`
    they may also be arrays. ``expected`` is ``None`` if the model only has to run.
    """

    inputs: Mapping[str, Any]
    expected: Mapping[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    #: Outputs pass if ``|found - expected| <= atol + rtol * |expected|``.
    rtol: float = 1e-5
    atol: float = 1e-8
    #: Whether NaN equals NaN.
    equal_nan: bool = False


@dataclass(frozen=True)
class Example:
    """Example inputs and outputs, shown in the description of a package.

    In an open package they are references: ``"@tensor_data/NAME"``, a tensor in :attr:`Package.values`, or
    ``"@misc/PATH"``. For :func:`holdall.carton.pack` they may also be arrays, or paths (``pathlib.Path``) of files to
    show.
    """

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None


class PackageFile(NamedTuple):
    """A file of a package."""

    #: The path in the package, with ``/`` between its parts.
    path: str
    #: The size in bytes; ``None`` if it is only known after a fetch.
    nbytes: int | None
    #: The SHA-256 of its bytes, in hex; ``None`` for ``MANIFEST``, ``LINKS``, and in a folder without ``MANIFEST``.
    sha256: str | None
    #: The location of the file's bytes: ``"zip"``, ``"disk"``, or ``"links"`` (elsewhere, see ``urls``).
    location: str
    #: The path in the package that it points to, if it is a symbolic link.
    target: str | None
    #: The addresses in ``LINKS`` for this file.
    urls: tuple[str, ...]


@dataclass(frozen=True)
class PackReport:
    """A written package."""

    #: The path of the package.
    path: str
    #: The model hash: SHA-256 of ``MANIFEST``, in hex. Packages of the same files have the same hash.
    hash: str
    #: The size of the package in bytes.
    nbytes: int
    #: The number of files in it, and the number of those that it only links to.
    files: int
    linked: int
    #: Files and folders that were left out: secrets, caches, and those that ``.holdallignore`` names. Folders end in
    #: ``/``.
    left_out: list[str]
    #: Differences between the folder and the package, as messages: for example symbolic links that a package cannot
    #: have, which were replaced by their target.
    left_behind: list[str]
    #: Warnings about the package; opening it gives the same.
    warnings: list[FormatWarning]


@dataclass(frozen=True)
class PackageReport(Verified):
    """The result of verifying a package. True if the verdict is ``"sound"``."""

    #: ``"sound"``, ``"incomplete"`` or ``"bad"``.
    verdict: str
    files: int
    #: The number of files whose SHA-256 matches ``MANIFEST``, and of files without a hash.
    hashed: int
    unhashed: int
    #: Linked files that were not read.
    linked: int
    #: The number of stored bytes that were read.
    read_len: int
    #: The number of tensors whose files match their description.
    tensors: int
    #: Errors: the first 1000.
    findings: list[HoldallError]
    finding_count: int
    #: Parts that exceed a limit and were not checked: the first 1000.
    over_limit: list[HoldallError]
    over_limit_count: int
    warnings: list[FormatWarning]


@dataclass(frozen=True)
class OutputReport:
    """The comparison of one output of a self-test with the expected one. True if it is close enough."""

    name: str
    #: Whether all elements are close enough.
    close: bool
    #: Why the output could not be compared: it has another type or shape, or is missing.
    mismatch: str | None
    #: The number of elements compared, and of those that differ too much.
    count: int
    differing: int
    #: The maximum of ``|found - expected|``, and of that divided by ``|expected|``.
    max_abs: float
    max_rel: float
    #: The first element that differs too much: index of the tensor in a nested one, index, element found, element
    #: expected.
    first: tuple[int | None, list[int], str, str] | None

    @classmethod
    def _of(cls, report: JsonObject) -> OutputReport:
        first = report["first"]
        first = first and (first["part"], first["index"], first["found"], first["expected"])
        return made(cls, report, count=report["elements"], differing=report["differ"], first=first)

    def __bool__(self) -> bool:
        return self.close

    def __str__(self) -> str:
        if self.mismatch is not None:
            return f"{self.name}: {self.mismatch}"
        far = f"at most {self.max_abs:.2e} off, relative {self.max_rel:.2e}" if self.max_abs else "equal"
        if self.first is None:
            return f"{self.name}: {far}"
        part, index, found, expected = self.first
        where = f"{index}" if part is None else f"tensor {part}, {index}"
        counts = f"{self.differing} of {self.count} too far"
        return f"{self.name}: {counts}; first at {where}: {found}, expected {expected}; {far}"


@dataclass(frozen=True)
class SelfTestReport:
    """The result of one self-test. True if it passed."""

    name: str
    passed: bool
    #: The comparisons of the expected outputs.
    outputs: list[OutputReport]
    #: The error that ended the test early.
    error: HoldallError | None
    #: The tolerance that was applied.
    rtol: float
    atol: float
    equal_nan: bool
    #: The duration of the run, in seconds.
    seconds: float

    @classmethod
    def _of(cls, report: JsonObject) -> SelfTestReport:
        return made(cls, report, outputs=[OutputReport._of(output) for output in report["outputs"]])

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        lines = [f"{'ok' if self.passed else 'failed'}  {self.name}"]
        lines += [f"  {self.error}"] if self.error is not None else []
        return "\n".join(lines + [f"  {output}" for output in self.outputs])


@dataclass(frozen=True)
class SelfTestReports:
    """The results of a package's self-tests. True if none failed; printing it shows all details."""

    #: The path or address under which the package was opened.
    source: str
    tests: list[SelfTestReport] = field(default_factory=list)

    @property
    def passed(self) -> int:
        """The number of tests that passed."""
        return sum(test.passed for test in self.tests)

    @property
    def failed(self) -> int:
        """The number of tests that failed."""
        return len(self.tests) - self.passed

    def __bool__(self) -> bool:
        return self.failed == 0

    def __len__(self) -> int:
        return len(self.tests)

    def __iter__(self) -> Iterator[SelfTestReport]:
        return iter(self.tests)

    def __str__(self) -> str:
        count = f"{len(self.tests)} self-test{'' if len(self.tests) == 1 else 's'}"
        lines = [str(test) for test in self.tests]
        return "\n".join([*lines, f"{count}: {self.passed} passed, {self.failed} failed"])
