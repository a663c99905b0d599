"""Open packages of models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import _holdall
from ._carton_arrays import Value, value
from ._carton_types import Example, PackageFile, PackageReport, Runner, SelfTest, SelfTestReports, Spec
from ._file import Allow, Check, File, IoMode, Source, _is_text, allowed, cached, in_memory, stores
from ._limits import Limits
from ._model import Env, Log, Model, Options, Runners, load
from ._progress import Progress, listening
from ._reports import made
from .errors import FormatWarning, MissingMemberError, MissingNameError, UnsupportedError

__all__ = ["Package", "open_package"]


def open_package(
    source: Source,
    io: IoMode,
    check: Check,
    limits: Limits | None,
    allow: Iterable[Allow],
    offline: bool,
    name: str | None,
    description: dict[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: bool | str | os.PathLike[str] = False,
) -> Package:
    """Opens a package: see :func:`holdall.carton.open`."""
    caps = dict(limits) if limits is not None else None
    words, offline = allowed(allow), bool(offline)
    if isinstance(source, (str, os.PathLike)):
        opened = _holdall.Package.open(source, io, check, caps, words, stores(storage_options), cached(cache), offline, description)
        return Package(opened, os.fsdecode(source))
    if description is not None:
        raise TypeError("runner, framework_version, inputs and outputs require a folder without carton.toml")
    data, name = in_memory(source, name)
    return Package(_holdall.Package.open_bytes(data, name, check, caps, words, stores(storage_options), cached(cache), offline), name)


class Package:
    """An open package of a model: :func:`holdall.carton.open`. A context manager.

    Its attributes are available without reading the model's files. Only :meth:`load` and :meth:`test` execute code
    from the package. Threads may share it. Arrays made from it stay valid after it is closed.
    """

    __slots__ = (
        "_native", "_tensors", "source", "version", "name", "short_description", "description", "license", "repository",
        "homepage", "platforms", "inputs", "outputs", "self_tests", "examples", "runner", "card", "base_models", "sbom",
        "hash", "files", "values", "__weakref__",
    )  # fmt: skip

    #: The path or address under which it was opened.
    source: str
    #: The version of the package format.
    version: str
    #: The name of the model.
    name: str | None
    #: A description in one line.
    short_description: str | None
    #: A description in Markdown.
    description: str | None
    #: The license, usually an SPDX expression.
    license: str | None
    #: The addresses of the model's repository and of its home page.
    repository: str | None
    homepage: str | None
    #: Target triples of supported platforms; empty if all are supported.
    platforms: tuple[str, ...]
    #: The declared inputs; arrays without names follow this order.
    inputs: tuple[Spec, ...]
    #: The declared outputs.
    outputs: tuple[Spec, ...]
    #: Inputs with their expected outputs, as names of tensors in :attr:`values`.
    self_tests: tuple[SelfTest, ...]
    #: Example inputs and outputs.
    examples: tuple[Example, ...]
    #: The runner of the model, with its requirements.
    runner: Runner
    #: Further information about the model, as free text by name.
    card: dict[str, str]
    #: The models that this model was derived from.
    base_models: tuple[str, ...]
    #: Path in the package of a software bill of materials.
    sbom: str | None
    #: The model hash: SHA-256 of ``MANIFEST``, in hex; ``None`` for a folder without one.
    hash: str | None
    #: Files by path, including those that are only linked to.
    files: Mapping[str, PackageFile]
    #: The tensors of self-tests and examples by name, as read-only arrays, read on first access.
    values: Mapping[str, Value]

    def __init__(self, native: _holdall.Package, source: str) -> None:
        self._native = native
        self._tensors: File | None = None
        self.source = source
        description = native.description()
        for sides in ("inputs", "outputs"):
            description[sides] = tuple(Spec._of(spec) for spec in description[sides])
        description["self_tests"] = tuple(SelfTest(**test) for test in description["self_tests"])
        description["examples"] = tuple(Example(**example) for example in description["examples"])
        runner = description["runner"]
        description["runner"] = made(Runner, runner, framework_version=runner["required_framework_version"])
        description["platforms"] = tuple(description.pop("required_platforms"))
        description["base_models"] = tuple(description["base_models"])
        for key, field in description.items():
            setattr(self, key, field)
        self.hash = native.hash()
        files = (PackageFile(*row) for row in native.files())
        self.files = Files(self, {file.path: file for file in files})
        self.values = Values(self)

    @property
    def warnings(self) -> list[FormatWarning]:
        """Unusual properties of the package that are not errors."""
        return [FormatWarning(**w) for w in self._native.warnings()]

    @property
    def tensors(self) -> File:
        """The tensors of self-tests and examples as an ordinary open file, closed with the package.

        UnsupportedError: the package is an unpacked folder, not a single file; use :attr:`values` instead.
        """
        if self._tensors is None or self._tensors.closed:
            native = self._native.tensors()
            if native is None:
                raise UnsupportedError(
                    f"{self.source}: the tensors of an unpacked folder are in no one file",
                    code="python/layout",
                    kind="unsupported",
                    source=self.source,
                    hint="values has them as arrays; or pack the folder first",
                )
            self._tensors = File(native, self.source)
        return self._tensors

    def html(self) -> str:
        """Returns an HTML page that shows the package: its description, tables, and the pictures, sounds and films in
        ``misc``. The page loads nothing and runs no scripts; HTML in the description is shown as text.

        Raises:
            IntegrityError: a file on the page does not match its hash.
        """
        return self._native.page(True)

    def markdown(self) -> str:
        """Returns the same page as Markdown, with pictures as links."""
        return self._native.page(False)

    def read(self, path: str) -> bytes:
        """Returns the bytes of a file of the package, checked against its SHA-256. A linked file is fetched.

        Raises:
            MissingMemberError: the package has no such file. IntegrityError: its bytes do not match its hash.
        """
        return self._native.read(_path(path))

    def open(self, path: str) -> File:
        """Opens a tensor file inside the package, as :func:`holdall.open` does; it can be mapped if it is stored
        uncompressed. Its SHA-256 is checked only if the package was opened with ``check="all"``.

        Raises:
            MissingMemberError: the package has no such file. UnsupportedError: it is not a tensor file.
        """
        return File(self._native.open_file(_path(path)), f"{self.source}!/{path}")

    def verify(
        self, *, strict: bool = False, threads: int | None = None, progress: Progress = None
    ) -> PackageReport:
        """Checks every byte of the package: hashes, checksums, compressed data, tensors.

        Findings are in the report, which is false if there are any. Linked files are not read.

        Args:
            strict: Whether warnings count as findings.
            progress: ``True`` for a bar, or a function that is called with the bytes done and the total.
        """
        with listening(progress) as listener:
            found = self._native.verify(bool(strict), threads, listener)
        return made(PackageReport, found, warnings=[FormatWarning(**w) for w in found["warnings"]])

    def unpack(
        self,
        folder: str | os.PathLike[str],
        *,
        model: bool = False,
        overwrite: bool = False,
        threads: int | None = None,
        progress: Progress = None,
    ) -> list[str]:
        """Writes the files of the package into a new folder, which appears when the hashes of all files have been
        checked.

        Symbolic links are restored as links. Returns the differences between the package and the folder, as messages:
        for example a symbolic link that the system cannot create.

        Args:
            model: Whether to write only the content of ``model/``, without that folder itself.
            overwrite: Whether an existing folder is replaced as a whole.

        Raises:
            UsageError: the folder exists. IntegrityError: the bytes of a file do not match its hash.
        """
        with listening(progress) as listener:
            return self._native.unpack(folder, bool(model), bool(overwrite), threads, listener)

    def fetch(self, *, progress: Progress = None) -> int:
        """Downloads the linked files of the package into the cache, and returns how many there are."""
        with listening(progress) as listener:
            return self._native.fetch(listener)

    def load(
        self,
        *,
        options: Options | None = None,
        python: str | os.PathLike[str] | None = None,
        env: Env | None = None,
        timeout: float | None = None,
        log: Log | None = None,
        runners: Runners | None = None,
    ) -> Model:
        """Loads the model, which executes code from the package: see :func:`holdall.carton.load`."""
        return load(self, options, python, env, timeout, log, runners)

    def test(
        self,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool | None = None,
        options: Options | None = None,
        python: str | os.PathLike[str] | None = None,
        env: Env | None = None,
        timeout: float | None = None,
        log: Log | None = None,
        runners: Runners | None = None,
    ) -> SelfTestReports:
        """Loads the model and runs the package's self-tests: see :func:`holdall.carton.test`."""
        with self.load(options=options, python=python, env=env, timeout=timeout, log=log, runners=runners) as model:
            return model.test(rtol=rtol, atol=atol, equal_nan=equal_nan)

    def close(self) -> None:
        """Closes the package. Models that were loaded from it stay usable."""
        self._native.close()
        if self._tensors is not None:
            self._tensors.close()

    @property
    def closed(self) -> bool:
        """Whether the package is closed."""
        return self._native.closed

    def __enter__(self) -> Package:
        self._native.hash()  # Raises if it is closed.
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return f"<holdall.carton.Package {self.source!r}, closed>"
        parts = [repr(self.source)]
        parts += [self.name] if self.name is not None else []
        parts += [f"runner {self.runner.name}", _count(len(self.files), "file")]
        parts += [_count(len(self.self_tests), "self-test")] if self.self_tests else []
        return f"<holdall.carton.Package {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        from ._html import card

        return card(self)

    def __reduce__(self) -> Any:
        raise TypeError("an open package cannot be pickled; pickle its path")


class Files(Mapping[str, PackageFile]):
    """Files by path. Looking up a missing path raises :class:`MissingMemberError`, which suggests similar paths."""

    __slots__ = ("_files", "_package")

    def __init__(self, package: Package, files: dict[str, PackageFile]) -> None:
        self._package = package
        self._files = files

    def __getitem__(self, path: str) -> PackageFile:
        found = self._files.get(path) if isinstance(path, str) else None
        if found is not None:
            return found
        if isinstance(path, str) and _is_text(path):
            self._package._native.read(path)
        raise MissingMemberError(
            f"{self._package.source}: there is no file {path!r}",
            code="package/no-file",
            kind="not_found",
            source=self._package.source,
        )

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and path in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def _ipython_key_completions_(self) -> list[str]:
        """Returns the paths that IPython and Jupyter offer after ``files["``."""
        return list(self)

    def __repr__(self) -> str:
        return f"<holdall.carton files {list(self)!r}>"


class Values(Mapping[str, Value]):
    """The tensors of a package's self-tests and examples as arrays, read on first access."""

    __slots__ = ("_package",)

    def __init__(self, package: Package) -> None:
        self._package = package

    def __getitem__(self, name: str) -> Value:
        if not isinstance(name, str) or not _is_text(name):
            raise MissingNameError(
                f"{self._package.source}: there is no tensor {name!r}",
                code="package/no-tensor",
                kind="not_found",
                source=self._package.source,
            )
        return value(self._package._native.value(name), writable=False)

    def __contains__(self, name: object) -> bool:
        return name in self._package._native.value_names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._package._native.value_names())

    def __len__(self) -> int:
        return len(self._package._native.value_names())

    def _ipython_key_completions_(self) -> list[str]:
        """Returns the names that IPython and Jupyter offer after ``values["``."""
        return [] if self._package.closed else list(self)

    def __repr__(self) -> str:
        if self._package.closed:
            return "<holdall.carton values, closed>"
        return f"<holdall.carton values {list(self)!r}>"


def _path(path: object) -> str:
    if not isinstance(path, str):
        raise TypeError(f"a path in a package must be a string, not {type(path).__name__}")
    return path


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
