"""Packages of models (Cartons, ``.carton``): open, make and run them.

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

:func:`load`, :func:`run` and :func:`test` (and :meth:`Package.load`, :meth:`Package.test`) execute what is in a
package, with all your rights. Nothing else does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Iterator, Optional, Union

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
from ._file import Allow, Check, Io, Source
from ._limits import Limits
from ._model import Env, Log, Model, Options, Runners
from ._pack import Path, pack, report
from ._package import Package, open_package
from ._progress import Progress, listening

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
    "open",
    "pack",
    "run",
    "shrink",
    "test",
]


def open(
    source: Source,
    *,
    io: Io = "auto",
    check: Check = "read",
    limits: Optional[Limits] = None,
    allow: Iterable[Allow] = (),
    storage_options: Optional[Mapping[str, Any]] = None,
    cache: Union[bool, str, "os.PathLike[str]"] = False,
    offline: bool = False,
    name: Optional[str] = None,
    runner: Optional[str] = None,
    framework_version: Optional[str] = None,
    inputs: Optional[Iterable[Union[Spec, tuple[Any, ...]]]] = None,
    outputs: Optional[Iterable[Union[Spec, tuple[Any, ...]]]] = None,
) -> Package:
    """Opens a package. Only what describes it is read, and nothing of it is executed.

    Args:
        source: A path of a ``.carton`` file or of an unpacked folder, or an address (``https://…``, ``s3://…``), which is read
            by ranges; or the package itself as ``bytes``, or an object with ``read``.
        io: How bytes are fetched, as for :func:`holdall.open`.
        check: ``"all"`` checks a tensor file inside against its SHA-256 when it is opened.
        limits: Upper bounds on what the package may demand.
        allow: What is permitted besides https to public hosts: ``"http"``, ``"private-hosts"``.
        storage_options: How object stores are used, as for :func:`holdall.open`.
        cache: Where blocks of packages at addresses are kept, as for :func:`holdall.open`.
        offline: Whether linked files come from the cache alone. Otherwise they are fetched when
            they are read.
        name: Name for a source without a path, for messages.
        runner, framework_version: What runs the model of a folder without ``carton.toml``, which has the model's files, or
            a folder ``model`` with them. For ``"onnx"`` the graph gives the version, the inputs and the outputs.
        inputs, outputs: The inputs and outputs of such a folder, as :func:`pack` takes them.

    Raises:
        MissingFile, Io: it cannot be read.
        Malformed, Integrity, Limit: what is wrong with it.
        Misuse: it is a file of another format.
    """
    said = None
    if any(of is not None for of in (runner, framework_version, inputs, outputs)):
        said = {
            "runner": _declared.optional(runner, "runner"),
            "framework_version": _declared.optional(framework_version, "framework_version"),
            "inputs": _declared.specs(inputs, "input"),
            "outputs": _declared.specs(outputs, "output"),
        }
    return open_package(source, io, check, limits, allow, offline, name, said, storage_options, cache)


@contextmanager
def _opened(
    source: Union[Source, Package],
    allow: Iterable[Allow] = (),
    offline: bool = False,
    runner: Optional[str] = None,
    framework_version: Optional[str] = None,
) -> Iterator[Package]:
    if isinstance(source, Package):
        if runner is not None or framework_version is not None:
            raise TypeError("what runs the model of an open package is known")
        yield source
    else:
        opened = open(
            source, allow=allow, offline=offline, runner=runner, framework_version=framework_version
        )
        with opened as package:
            yield package


def load(
    source: Union[Source, Package],
    *,
    options: Optional[Options] = None,
    python: Optional[Path] = None,
    env: Optional[Env] = None,
    timeout: Optional[float] = None,
    log: Optional[Log] = None,
    runners: Optional[Runners] = None,
    runner: Optional[str] = None,
    framework_version: Optional[str] = None,
    allow: Iterable[Allow] = (),
    offline: bool = False,
) -> Model:
    """Loads the model of a package. **What is in the package is executed**, with all your rights.

    The files of the model are checked against their hashes and unpacked into a temporary folder, which is removed with the
    model at the latest.

    Args:
        source: What :func:`open` takes, or an open package.
        options: Options for the runner, before the package's own.
        python: The interpreter of the runner ``python``; else ``HOLDALL_PYTHON`` of the environment, or this one. The
            model has a process of its own.
        env: Variables for that process: a mapping of names to texts, or the names of variables of this process to pass. Without
            it the process has those that programs need (paths, language, threads, devices), and none that may be
            secrets.
        timeout: Seconds that the model may take to load, and for each call; 600 by default. If given, the engine
            for ONNX too runs in a process of its own, which is ended when the time is over.
        log: Called with each line that the model prints, and whether it was printed on standard error, from a separate
            thread. Exceptions in it, including ``SystemExit``, are passed to ``sys.unraisablehook``, and the call continues.
            By default lines go to ``sys.stderr``.
        runners: Commands of runners by name, before those of the user's configuration file: ``{"mine": ["python3", "mine.py"]}``.
            ``torchscript`` is available if ``python`` has torch and this package.
        runner, framework_version: What runs the model of a folder without ``carton.toml``: see :func:`open`.

    Raises:
        Unsupported: there is no such runner (``run/no-runner``), or not in the version or on the platform that the
            package requires.
        Malformed: the model cannot be loaded, or took too long (``runner/timeout``).
        Integrity: a file is not the one that was packed.
    """
    with _opened(source, allow, offline, runner, framework_version) as package:
        return package.load(options=options, python=python, env=env, timeout=timeout, log=log, runners=runners)


def run(
    source: Union[Source, Package],
    inputs: Union[Mapping[str, Any], Sequence[Any]],
    *,
    options: Optional[Options] = None,
    python: Optional[Path] = None,
    env: Optional[Env] = None,
    timeout: Optional[float] = None,
    log: Optional[Log] = None,
    runners: Optional[Runners] = None,
    runner: Optional[str] = None,
    framework_version: Optional[str] = None,
    allow: Iterable[Allow] = (),
    offline: bool = False,
) -> dict[str, Value]:
    """Loads the model of a package and runs it once: :func:`load` and :meth:`Model.run`. **What is in the package is
    executed.**"""
    with _opened(source, allow, offline, runner, framework_version) as package:
        with package.load(options=options, python=python, env=env, timeout=timeout, log=log, runners=runners) as model:
            return model.run(inputs)


def test(
    source: Union[Source, Package],
    *,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    equal_nan: Optional[bool] = None,
    options: Optional[Options] = None,
    python: Optional[Path] = None,
    env: Optional[Env] = None,
    timeout: Optional[float] = None,
    log: Optional[Log] = None,
    runners: Optional[Runners] = None,
    runner: Optional[str] = None,
    framework_version: Optional[str] = None,
    allow: Iterable[Allow] = (),
    offline: bool = False,
) -> SelfTestReports:
    """Loads the model of a package and runs the package's self-tests. **What is in the package is executed.**

    A failure of a test is in its report. The result is true if no test failed.

    Args:
        rtol, atol, equal_nan: Override what the package says: an output is close if
            ``|found - expected| <= atol + rtol * |expected|``.

    Raises:
        What :func:`load` raises.
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
    source: Union[Source, Package],
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
        Unsupported: an address is not allowed. Io: no address gives a file. Misuse: ``out`` exists.
    """
    with _opened(source, allow, offline) as package, listening(progress) as listener:
        return report(_holdall.fetch(package._native, out, bool(overwrite), listener), out)


def shrink(
    source: Union[Source, Package],
    out: Path,
    *,
    links: Optional[Mapping[str, Union[str, Sequence[str]]]] = None,
    base_url: Optional[str] = None,
    at_least: int = 64 << 10,
    save_files: Optional[Path] = None,
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
        NotFound: there is no such file. Misuse: no file is chosen, or one that ``MANIFEST`` does not list.
    """
    pairs, large = _declared.links(links), _declared.count(at_least, "at_least")
    template = _declared.optional(base_url, "base_url")
    with _opened(source, allow) as package, listening(progress) as listener:
        found = _holdall.shrink(
            package._native, out, pairs, template, large, save_files, bool(overwrite), listener
        )
        return report(found, os.fspath(out))
