"""What packages say of their models, and what is reported about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ._reports import Said, Verified, made
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

#: ``"*"`` for any shape, another text for a symbol (the same whole shape wherever it stands), or a size for each
#: dimension: a number of elements, ``"*"``, or a symbol (the same size wherever it stands in a call).
Shape = str | tuple[int | str, ...]


class Spec(NamedTuple):
    """A declared input or output of a model."""

    name: str
    #: Its elements' type: ``"float32"``, ``"int64"``, ``"string"``, …
    dtype: str
    #: ``("batch", 3)``: see the guide. ``()`` is a scalar.
    shape: Shape = "*"
    #: For people.
    description: str | None = None
    #: The name of a node in the model, where it is another.
    internal_name: str | None = None

    @classmethod
    def _of(cls, said: Said) -> Spec:
        shape = said["shape"]
        return cls(**{**said, "shape": shape if isinstance(shape, str) else tuple(shape)})

    def __str__(self) -> str:
        shape = self.shape if isinstance(self.shape, str) else "[" + ", ".join(map(str, self.shape)) + "]"
        return f"{self.name}: {self.dtype} {'any shape' if shape == '*' else shape}"


@dataclass(frozen=True)
class Runner:
    """What runs a model."""

    #: ``"onnx"``, ``"python"``, ``"noop"``, …
    name: str
    #: The versions of its framework that will do, as Cargo writes requirements: ``">=1.12, <2"``.
    framework_version: str
    #: Version of what the runner expects in ``model/``.
    compat_version: int
    options: Mapping[str, int | float | str | bool]


@dataclass(frozen=True)
class SelfTest:
    """Inputs, and the outputs they should give.

    Of an open package, the values are names of tensors in :attr:`Package.values`. For :func:`holdall.carton.pack`
    they may be arrays, too. ``expected`` is ``None`` where the model only has to run.
    """

    inputs: Mapping[str, Any]
    expected: Mapping[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    #: Outputs are close where ``|found - expected| <= atol + rtol * |expected|``.
    rtol: float = 1e-5
    atol: float = 1e-8
    #: Whether NaN is as good as NaN.
    equal_nan: bool = False


@dataclass(frozen=True)
class Example:
    """Inputs and outputs to look at.

    Of an open package they are references: ``"@tensor_data/NAME"``, of which :attr:`Package.values` has the tensor, or
    ``"@misc/PATH"``. For :func:`holdall.carton.pack` they may be arrays, and paths (``pathlib.Path``) of files to show.
    """

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None


class PackageFile(NamedTuple):
    """A file of a package."""

    #: Its path there, parts separated by ``/``.
    path: str
    #: Its size in bytes; ``None`` where only a fetch tells.
    nbytes: int | None
    #: SHA-256 of its bytes, in hex; ``None`` for ``MANIFEST``, ``LINKS``, and in a folder without ``MANIFEST``.
    sha256: str | None
    #: Where its bytes are: in the ``"zip"``, on the ``"disk"``, or ``"links"``: elsewhere, see ``urls``.
    place: str
    #: The path in the package that it stands for, where it is a symbolic link.
    target: str | None
    #: Addresses that ``LINKS`` has for it.
    urls: tuple[str, ...]


@dataclass(frozen=True)
class PackReport:
    """A package that was written."""

    #: Where it was written to.
    path: str
    #: The model hash: SHA-256 of ``MANIFEST``, in hex. The same files have the same.
    hash: str
    #: Bytes of the package.
    nbytes: int
    #: Files in it, and those of them that it only links to.
    files: int
    linked: int
    #: Files and folders that were not packed: secrets, caches, and what ``.holdallignore`` names. Folders end in ``/``.
    left_out: list[str]
    #: What the folder has and the package lacks, in words: that a file is a symbolic link that a package cannot have,
    #: whose target was packed.
    left_behind: list[str]
    #: What is odd about it, as whoever opens it will hear.
    warnings: list[FormatWarning]


@dataclass(frozen=True)
class PackageReport(Verified):
    """What verifying a package found, and could not do. True where the verdict is ``"sound"``."""

    #: ``"sound"``, ``"incomplete"`` or ``"bad"``.
    verdict: str
    files: int
    #: Files whose SHA-256 is the one in ``MANIFEST``, and those without one.
    hashed: int
    unhashed: int
    #: Files that are only linked to, and were not read.
    linked: int
    #: Stored bytes that were read.
    read_len: int
    #: Tensors whose files hold what is said of them.
    tensors: int
    #: What is wrong: the first 1000.
    findings: list[HoldallError]
    finding_count: int
    #: What is over a limit and was not checked: the first 1000.
    over_limit: list[HoldallError]
    over_limit_count: int
    warnings: list[FormatWarning]


@dataclass(frozen=True)
class OutputReport:
    """How one output of a self-test compares with the expected one. True where it is close."""

    name: str
    #: Whether everything is close enough.
    close: bool
    #: Why they could not be compared: of another type, another shape, not given.
    mismatch: str | None
    #: Elements compared, and those of them that are too far.
    count: int
    differing: int
    #: The most of ``|found - expected|``, and of that divided by ``|expected|``.
    max_abs: float
    max_rel: float
    #: The first that is too far: tensor of a nested one, index, element found, element expected.
    first: tuple[int | None, list[int], str, str] | None

    @classmethod
    def _of(cls, said: Said) -> OutputReport:
        first = said["first"]
        first = first and (first["part"], first["index"], first["found"], first["expected"])
        return made(cls, said, count=said["elements"], differing=said["differ"], first=first)

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
    """How one self-test went. True where it passed."""

    name: str
    passed: bool
    #: The outputs that were expected.
    outputs: list[OutputReport]
    #: Why it could not be run to its end.
    error: HoldallError | None
    #: The tolerance that counted.
    rtol: float
    atol: float
    equal_nan: bool
    #: How long the model ran.
    seconds: float

    @classmethod
    def _of(cls, said: Said) -> SelfTestReport:
        return made(cls, said, outputs=[OutputReport._of(output) for output in said["outputs"]])

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        lines = [f"{'ok' if self.passed else 'failed'}  {self.name}"]
        lines += [f"  {self.error}"] if self.error is not None else []
        return "\n".join(lines + [f"  {output}" for output in self.outputs])


@dataclass(frozen=True)
class SelfTestReports:
    """How the self-tests of a package went. True where none failed; printed, it tells all of it."""

    #: The package, as it was opened.
    source: str
    tests: list[SelfTestReport] = field(default_factory=list)

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(test.passed for test in self.tests)

    @property
    def failed(self) -> int:
        """How many did not."""
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
