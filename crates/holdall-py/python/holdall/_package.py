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
    said: dict[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: bool | str | os.PathLike[str] = False,
) -> Package:
    """See :func:`holdall.carton.open`."""
    caps = dict(limits) if limits is not None else None
    words, offline = allowed(allow), bool(offline)
    if isinstance(source, (str, os.PathLike)):
        opened = _holdall.Package.open(source, io, check, caps, words, stores(storage_options), cached(cache), offline, said)
        return Package(opened, os.fsdecode(source))
    if said is not None:
        raise TypeError("what runs a model is said of a folder without carton.toml")
    data, name = in_memory(source, name)
    return Package(_holdall.Package.open_bytes(data, name, check, caps, words, stores(storage_options), cached(cache), offline), name)


class Package:
    """An open package of a model: :func:`holdall.carton.open`. A context manager.

    Its attributes hold what is known without reading the model's files. Only :meth:`load` and :meth:`test` execute anything in a
    package. Threads may share it. Arrays made from it stay valid after it is closed.
    """

    __slots__ = (
        "_native", "_tensors", "source", "version", "name", "short_description", "description", "license", "repository",
        "homepage", "platforms", "inputs", "outputs", "self_tests", "examples", "runner", "card", "base_models", "sbom",
        "hash", "files", "values", "__weakref__",
    )  # fmt: skip

    #: The name it was opened under.
    source: str
    #: Version of the package's format.
    version: str
    #: Name of the model.
    name: str | None
    #: One line about it.
    short_description: str | None
    #: A description of it, in Markdown.
    description: str | None
    #: An SPDX expression, as a rule.
    license: str | None
    #: Address of the model's repository, and of its home page.
    repository: str | None
    homepage: str | None
    #: Target triples of the platforms it runs on; all where there are none.
    platforms: tuple[str, ...]
    #: Declared inputs, in the order that arrays without names follow.
    inputs: tuple[Spec, ...]
    #: Declared outputs.
    outputs: tuple[Spec, ...]
    #: Inputs with the outputs they should give: names of tensors in :attr:`values`.
    self_tests: tuple[SelfTest, ...]
    #: Inputs and outputs to look at.
    examples: tuple[Example, ...]
    #: What runs the model.
    runner: Runner
    #: Free texts about the model.
    card: dict[str, str]
    #: What the model was made from.
    base_models: tuple[str, ...]
    #: Path in the package of a bill of materials.
    sbom: str | None
    #: The model hash: SHA-256 of ``MANIFEST``, in hex; ``None`` for a folder without one.
    hash: str | None
    #: Files by path, those that are only linked to among them.
    files: Mapping[str, PackageFile]
    #: Tensors of self-tests and examples by name, as read-only arrays: read when they are asked for.
    values: Mapping[str, Value]

    def __init__(self, native: _holdall.Package, source: str) -> None:
        self._native = native
        self._tensors: File | None = None
        self.source = source
        said = native.description()
        for sides in ("inputs", "outputs"):
            said[sides] = tuple(Spec._of(spec) for spec in said[sides])
        said["self_tests"] = tuple(SelfTest(**test) for test in said["self_tests"])
        said["examples"] = tuple(Example(**example) for example in said["examples"])
        runner = said["runner"]
        said["runner"] = made(Runner, runner, framework_version=runner["required_framework_version"])
        said["platforms"] = tuple(said.pop("required_platforms"))
        said["base_models"] = tuple(said["base_models"])
        for key, told in said.items():
            setattr(self, key, told)
        self.hash = native.hash()
        files = (PackageFile(*row) for row in native.files())
        self.files = Files(self, {file.path: file for file in files})
        self.values = Values(self)

    @property
    def warnings(self) -> list[FormatWarning]:
        """What is odd about the package but does not make it bad."""
        return [FormatWarning(**w) for w in self._native.warnings()]

    @property
    def tensors(self) -> File:
        """The tensors of self-tests and examples as an ordinary open file, closed with the package.

        Raises:
            UnsupportedError: the package is an unpacked folder, not a single file. :attr:`values` has the tensors.
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
        """An HTML page that shows the package: its description, tables, and the pictures, sounds and films in
        ``misc``. It fetches nothing and runs nothing; HTML in the description is shown as text.

        Raises:
            IntegrityError: a file on the page is not the one that was packed.
        """
        return self._native.page(True)

    def markdown(self) -> str:
        """The same page as Markdown; pictures are links in it."""
        return self._native.page(False)

    def read(self, path: str) -> bytes:
        """The bytes of a file of the package, checked against its SHA-256. A linked file is fetched.

        Raises:
            MissingMemberError: there is no such file. IntegrityError: its bytes are not those that were packed.
        """
        return self._native.read(_path(path))

    def open(self, path: str) -> File:
        """Opens a tensor file inside, as :func:`holdall.open` does: mapped where it lies if it is stored as it is.
        Its SHA-256 is checked only if the package was opened with ``check="all"``.

        Raises:
            MissingMemberError: there is no such file. UnsupportedError: it is not a tensor file.
        """
        return File(self._native.open_file(_path(path)), f"{self.source}!/{path}")

    def verify(
        self, *, strict: bool = False, threads: int | None = None, progress: Progress = None
    ) -> PackageReport:
        """Checks every byte of the package: hashes, checksums, compressed data, tensors.

        Findings are in the report, which is false if there are any. Linked files are not read.

        Args:
            strict: Whether warnings count as findings.
            progress: ``True`` for a bar, or a function of the bytes done and all bytes.
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
        """Writes the files of the package into a new folder, which appears when all of them have the right hash.

        Symbolic links are links in the folder, too. Returns what the folder lacks, in words: that a file is a symbolic link,
        where the system has none.

        Args:
            model: Whether to write only the content of ``model/``, without that folder.
            overwrite: Whether an existing folder is replaced as a whole.

        Raises:
            UsageError: the folder exists. IntegrityError: a file's bytes are not those that were packed.
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
        """Loads the model, which begins to execute what is in the package: see :func:`holdall.carton.load`."""
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
        """Closes the package. Models that were loaded from it stay."""
        self._native.close()
        if self._tensors is not None:
            self._tensors.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
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
    """Files by path. A path that is not there is :class:`MissingMemberError`, and what is near is named."""

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
        """The paths that IPython and Jupyter offer after ``files["``."""
        return list(self)

    def __repr__(self) -> str:
        return f"<holdall.carton files {list(self)!r}>"


class Values(Mapping[str, Value]):
    """The tensors of a package's self-tests and examples as arrays, read when they are asked for."""

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
        """The names that IPython and Jupyter offer after ``values["``."""
        return [] if self._package.closed else list(self)

    def __repr__(self) -> str:
        if self._package.closed:
            return "<holdall.carton values, closed>"
        return f"<holdall.carton values {list(self)!r}>"


def _path(path: object) -> str:
    if not isinstance(path, str):
        raise TypeError(f"a path in a package is a text, not {type(path).__name__}")
    return path


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
