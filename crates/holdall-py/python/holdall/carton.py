"""Packages of models (Cartons, ``.carton``): open, create and run them.

A package holds a model's files, its description, its inputs and outputs, self-tests, and
the hash of every file::

    from holdall import carton

    with carton.open("xor.carton") as package:
        print(package.name, package.inputs, package.files["model/model.onnx"].nbytes)
        assert package.verify()

    assert carton.test("xor.carton")                     # its self-tests
    outputs = carton.run("xor.carton", {"x": x})         # once
    with carton.load("xor.carton") as model:             # many times
        outputs = model(x)

:func:`load`, :func:`run` and :func:`test` (and :meth:`Package.load`, :meth:`Package.test`) execute code from the
package, with all of your permissions. No other function does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Iterator

from . import _declared, _holdall
from ._carton_arrays import Value
from ._carton_types import (
    Example,
    OutputReport,
    PackageFile,
    PackageReport,
    PackReport,
    Runner,
    SelfTest,
    SelfTestReport,
    SelfTestReports,
    Spec,
)
from ._file import Allow, Check, IoMode, Source
from ._limits import Limits
from ._model import Env, Log, Model, Options, Runners
from ._pack import Path, pack, report
from ._package import Package, open_package
from ._progress import Progress, listening

#: ``open`` is public as well, but ``import *`` must not hide the built-in function.
__all__ = [
    "Example",
    "Model",
    "OutputReport",
    "PackReport",
    "Package",
    "PackageFile",
    "PackageReport",
    "Runner",
    "SelfTest",
    "SelfTestReport",
    "SelfTestReports",
    "Spec",
    "fetch",
    "load",
    "pack",
    "run",
    "shrink",
    "test",
]


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])


def open(
    source: Source,
    *,
    io: IoMode = "auto",
    check: Check = "read",
    limits: Limits | None = None,
    allow: Iterable[Allow] = (),
    storage_options: Mapping[str, Any] | None = None,
    cache: bool | str | os.PathLike[str] = False,
    offline: bool = False,
    name: str | None = None,
    runner: str | None = None,
    framework_version: str | None = None,
    inputs: Iterable[Spec | tuple[Any, ...]] | None = None,
    outputs: Iterable[Spec | tuple[Any, ...]] | None = None,
) -> Package:
    """Opens a package. Only its description is read, and nothing of it is executed.

    Args:
        source: A path of a ``.carton`` file or of an unpacked folder, or an address (``https://…``, ``s3://…``), which is read
            by ranges; or the package itself as ``bytes``, or an object with ``read``.
        io: How bytes are fetched, as for :func:`holdall.open`.
        check: ``"all"`` checks a tensor file inside against its SHA-256 when it is opened.
        limits: Upper bounds on what the package may demand: see :func:`holdall.open`.
        allow: What is allowed in addition to https to public hosts: ``"http"``, ``"private-hosts"``.
        storage_options: Options for object stores, as for :func:`holdall.open`.
        cache: A folder that caches blocks of remote packages, as for :func:`holdall.open`.
        offline: Whether linked files are taken only from the cache. Otherwise they are fetched when they are read.
        name: The name that messages use for a source without a path.
        runner, framework_version: The runner for a folder without ``carton.toml``, which has the model's files or a
            folder ``model`` with them. For ``"onnx"`` the graph gives the version, the inputs and the outputs.
        inputs, outputs: The inputs and outputs of such a folder, as :func:`pack` takes them.

    Raises:
        MissingFileError, FileIoError: the package cannot be read.
        MalformedError, IntegrityError, LimitError: the package is not valid.
        UsageError: the file has another format.
    """
    description = None
    if any(of is not None for of in (runner, framework_version, inputs, outputs)):
        description = {
            "runner": _declared.optional(runner, "runner"),
            "framework_version": _declared.optional(framework_version, "framework_version"),
            "inputs": _declared.specs(inputs, "input"),
            "outputs": _declared.specs(outputs, "output"),
        }
    return open_package(source, io, check, limits, allow, offline, name, description, storage_options, cache)


@contextmanager
def _opened(
    source: Source | Package,
    allow: Iterable[Allow] = (),
    offline: bool = False,
    runner: str | None = None,
    framework_version: str | None = None,
) -> Iterator[Package]:
    if isinstance(source, Package):
        if runner is not None or framework_version is not None:
            raise TypeError("runner and framework_version must not be passed for an open package")
        yield source
    else:
        opened = open(
            source, allow=allow, offline=offline, runner=runner, framework_version=framework_version
        )
        with opened as package:
            yield package


def load(
    source: Source | Package,
    *,
    options: Options | None = None,
    python: Path | None = None,
    env: Env | None = None,
    timeout: float | None = None,
    log: Log | None = None,
    runners: Runners | None = None,
    runner: str | None = None,
    framework_version: str | None = None,
    allow: Iterable[Allow] = (),
    offline: bool = False,
) -> Model:
    """Loads the model of a package. **Code from the package is executed**, with all of your permissions.

    The files of the model are checked against their hashes and unpacked into a temporary folder, which is removed
    when the model is closed, or earlier.

    Args:
        source: A source for :func:`open`, or an open package.
        options: Options for the runner, which override the package's.
        python: The interpreter for the runner ``python``; by default ``HOLDALL_PYTHON`` of the environment, or this
            interpreter. The model runs in a separate process.
        env: Environment variables for that process: a mapping of names to values, or the names of variables of this
            process to pass on. By default the process gets the variables that programs need (paths, language,
            threads, devices), and none that may be secrets.
        timeout: Seconds that the model may take to load, and for each call; 600 by default. If given, the ONNX engine
            also runs in a separate process, which is ended after that time.
        log: Called with each line that the model prints, and whether it was printed on standard error, from a separate
            thread. Exceptions in it, including ``SystemExit``, are passed to ``sys.unraisablehook``, and the call continues.
            By default lines go to ``sys.stderr``.
        runners: Commands of runners by name, which override the user's configuration file: ``{"mine": ["python3",
            "mine.py"]}``.
            ``torchscript`` is available if ``python`` has torch and this package.
        runner, framework_version: The runner for a folder without ``carton.toml``: see :func:`open`.

    Raises:
        UnsupportedError: the runner does not exist (``run/no-runner``), or not in the version or on the platform that
            the package requires.
        MalformedError: the model cannot be loaded, or took too long (``runner/timeout``).
        IntegrityError: a file does not match its hash.
    """
    with _opened(source, allow, offline, runner, framework_version) as package:
        return package.load(options=options, python=python, env=env, timeout=timeout, log=log, runners=runners)


def run(
    source: Source | Package,
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    options: Options | None = None,
    python: Path | None = None,
    env: Env | None = None,
    timeout: float | None = None,
    log: Log | None = None,
    runners: Runners | None = None,
    runner: str | None = None,
    framework_version: str | None = None,
    allow: Iterable[Allow] = (),
    offline: bool = False,
) -> dict[str, Value]:
    """Loads the model of a package and runs it once: :func:`load` and :meth:`Model.run`. **Code from the package
    is executed.**"""
    with _opened(source, allow, offline, runner, framework_version) as package:
        with package.load(options=options, python=python, env=env, timeout=timeout, log=log, runners=runners) as model:
            return model.run(inputs)


def test(
    source: Source | Package,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool | None = None,
    options: Options | None = None,
    python: Path | None = None,
    env: Env | None = None,
    timeout: float | None = None,
    log: Log | None = None,
    runners: Runners | None = None,
    runner: str | None = None,
    framework_version: str | None = None,
    allow: Iterable[Allow] = (),
    offline: bool = False,
) -> SelfTestReports:
    """Loads the model of a package and runs the package's self-tests. **Code from the package is executed.**

    A failed test is recorded in its report. The result is true if no test failed.

    Args:
        rtol, atol, equal_nan: Override the tolerances of the package: an output passes if
            ``|found - expected| <= atol + rtol * |expected|``.

    Raises:
        Everything that :func:`load` raises.
    """
    with _opened(source, allow, offline, runner, framework_version) as package:
        return package.test(
            rtol=rtol,
            atol=atol,
            equal_nan=equal_nan,
            options=options,
            python=python,
            env=env,
            timeout=timeout,
            log=log,
            runners=runners,
        )


def fetch(
    source: Source | Package,
    out: Path,
    *,
    allow: Iterable[Allow] = (),
    offline: bool = False,
    overwrite: bool = False,
    progress: Progress = None,
) -> PackReport:
    """Writes a package that contains everything that ``source`` links to, with the same model hash.

    Each file that a server sends must have the hash that the package gives. :meth:`Package.fetch` only fills the cache. A
    package at ``out`` is replaced if ``overwrite`` is true.

    Raises:
        UnsupportedError: an address is not allowed. FileIoError: no address gives a file. UsageError: ``out`` exists.
    """
    with _opened(source, allow, offline) as package, listening(progress) as listener:
        return report(_holdall.fetch(package._native, out, bool(overwrite), listener), out)


def shrink(
    source: Source | Package,
    out: Path,
    *,
    links: Mapping[str, str | Sequence[str]] | None = None,
    base_url: str | None = None,
    at_least: int = 64 << 10,
    save_files: Path | None = None,
    allow: Iterable[Allow] = (),
    overwrite: bool = False,
    progress: Progress = None,
) -> PackReport:
    """Writes a package that only links to some of its files. Its model hash stays the same.

    Args:
        links: Addresses by the path of the file in the package; one, or several for the same file.
        base_url: Address of every large file, with its hash for ``{sha256}`` or its path for ``{path}``.
        at_least: How many bytes a file must have for ``base_url``.
        save_files: A folder for the files that are taken out, each named by its SHA-256.
        allow: Addresses that may be linked to: ``"http"``, ``"private-hosts"``.
        overwrite: Whether an existing package is replaced.

    Raises:
        NotFoundError: the package has no such file. UsageError: no file is selected, or one that ``MANIFEST`` does
            not list.
    """
    pairs, large = _declared.links(links), _declared.count(at_least, "at_least")
    template = _declared.optional(base_url, "base_url")
    with _opened(source, allow) as package, listening(progress) as listener:
        found = _holdall.shrink(
            package._native, out, pairs, template, large, save_files, bool(overwrite), listener
        )
        return report(found, os.fspath(out))
