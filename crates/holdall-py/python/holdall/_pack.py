"""Making packages."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Optional, Union

from . import _holdall
from ._carton_arrays import native
from ._carton_types import PackReport, SelfTest, Spec
from ._model import Options
from ._progress import Progress, listening
from ._reports import Warning
from .errors import Misuse

__all__ = ["pack", "report"]

#: A path of the file system.
Path = Union[str, "os.PathLike[str]"]
#: What :func:`pack` takes for a self-test: its fields as a dict will do.
Test = Union[SelfTest, Mapping[str, Any]]


def pack(
    model: Path,
    out: Optional[Path] = None,
    *,
    name: Optional[str] = None,
    short_description: Optional[str] = None,
    description: Optional[str] = None,
    license: Optional[str] = None,
    repository: Optional[str] = None,
    homepage: Optional[str] = None,
    runner: Optional[str] = None,
    framework_version: Optional[str] = None,
    options: Optional[Options] = None,
    platforms: Optional[Iterable[str]] = None,
    inputs: Optional[Iterable[Union[Spec, tuple[Any, ...]]]] = None,
    outputs: Optional[Iterable[Union[Spec, tuple[Any, ...]]]] = None,
    self_tests: Optional[Iterable[Test]] = None,
    tensors: Optional[Mapping[str, Any]] = None,
    misc: Iterable[Path] = (),
    from_toml: Optional[Path] = None,
    compress: Optional[Literal["zstd", "deflate"]] = None,
    follow_links: bool = False,
    overwrite: bool = True,
    progress: Progress = None,
) -> PackReport:
    """Makes a package of a model. The same files give the same package, byte for byte.

    ::

        holdall.carton.pack(
            "xor.onnx", "xor.carton", name="xor",
            self_tests=[{"inputs": {"x": x}, "expected": {"p": p}}],
        )

    Args:
        model: A model's file: what an ``.onnx`` file says of its runner, inputs and outputs is taken from it. Or a
            folder: with ``carton.toml`` and ``model/``, with ``model/`` alone, or with the model's files.
        out: The package to write; unless said, ``model`` with the extension ``.carton``.
        name: Name of the model. This and what follows takes the place of what the model or ``carton.toml`` says.
        short_description: One line about it.
        description: More about it, in Markdown.
        license: An SPDX expression.
        repository, homepage: Addresses.
        runner: What runs it: ``"onnx"``, ``"python"``, ``"noop"``, …
        framework_version: The versions that will do, as Cargo writes requirements: ``">=3.10"``, ``"=1.12.1"``.
        options: For the runner: numbers, texts, bools. They are added to those that are there.
        platforms: Target triples it runs on, such as ``"x86_64-unknown-linux-gnu"``; all where there are none.
        inputs, outputs: Declared ones: :class:`Spec`, or tuples such as ``("x", "float32", ("n", 2))``.
        self_tests: :class:`SelfTest`, or dicts of its fields: ``inputs`` and ``expected`` by name, each an array,
            or as a text the name of one of ``tensors``.
        tensors: Further arrays by name, for self-tests and examples to refer to. Where there are arrays here or in
            ``self_tests``, they take the place of all in a folder's ``tensor_data``.
        misc: Files that examples show, as ``@misc/NAME``.
        from_toml: A ``carton.toml`` that describes the package.
        compress: Whether files are compressed, where that is shorter. Else they are stored as they are, each at a
            place from which it can be mapped.
        follow_links: Whether symbolic links out of the folder are followed.
        overwrite: Whether a package that is there is replaced.
        progress: ``True`` for a bar, or a function of the bytes done and all bytes.

    Raises:
        Misuse: the parts do not fit together (``package/part``), or nothing says what runs the model.
        Malformed: what ``carton.toml`` or the model's file has wrong.
    """
    arrays: dict[str, Any] = {}
    for tensor, array in _mapping(tensors or {}, "tensors").items():
        arrays[_text(tensor, "the name of a tensor")] = native(array, f"tensor {tensor!r}")
    tests = None
    if self_tests is not None:
        if isinstance(self_tests, (Mapping, SelfTest, str)):
            raise TypeError("self_tests is a list of self-tests")
        tests = [_tested(test, at, arrays) for at, test in enumerate(self_tests)]
    source = os.fspath(model)
    if not isinstance(source, str):
        raise TypeError(f"model is a path as text, not {type(source).__name__}")
    target = _beside(source) if out is None else os.fspath(out)
    said = {
        "name": name,
        "short_description": short_description,
        "description": description,
        "license": license,
        "repository": repository,
        "homepage": homepage,
        "runner": runner,
        "framework_version": framework_version,
        "options": None if options is None else dict(options),
        "platforms": _texts(platforms, "platforms"),
        "inputs": None if inputs is None else [tuple(Spec(*spec)) for spec in inputs],
        "outputs": None if outputs is None else [tuple(Spec(*spec)) for spec in outputs],
        "self_tests": tests,
        "from_toml": from_toml,
    }
    shown = [(pathlib.Path(path).name, path) for path in misc]
    with listening(progress) as listener:
        found = _holdall.pack(
            source,
            target,
            said,
            list(arrays.items()),
            shown,
            compress,
            bool(follow_links),
            bool(overwrite),
            listener,
        )
    return report(found, target)


def report(found: dict[str, Any], target: Path) -> PackReport:
    """What the native half reports of a package that it wrote."""
    warnings = [Warning(**w) for w in found.pop("warnings")]
    undeclared = found.pop("undeclared", None)
    if undeclared is not None:
        name, why = undeclared
        message = f"it cannot be declared in a package: {why}; no inputs and outputs are declared"
        warnings.insert(0, Warning("python/undeclared", message, name, None, 1))
    return PackReport(os.fsdecode(target), warnings=warnings, **found)


def _tested(of: Test, at: int, arrays: dict[str, Any]) -> tuple[Any, ...]:
    """A self-test for the native half; its arrays are added to ``arrays``."""
    test = of if isinstance(of, SelfTest) else SelfTest(**_mapping(of, "a self-test"))
    sides: list[Optional[list[tuple[str, str]]]] = []
    for side, values in (("inputs", test.inputs), ("expected", test.expected)):
        if values is None:
            sides.append(None)
            continue
        named = []
        for name, value in _mapping(values, side).items():
            tensor = value
            if not isinstance(value, str):
                tensor = f"self_test_{at}.{side}.{_text(name, 'the name of an input')}"
                if tensor in arrays:
                    raise Misuse(f"there is a tensor {tensor!r} already", code="python/option", kind="misuse")
                arrays[tensor] = native(value, f"{side} {name!r} of self-test {at}")
            named.append((_text(name, "the name of an input"), tensor))
        sides.append(named)
    return test.name, test.description, *sides, (float(test.rtol), float(test.atol), bool(test.equal_nan))


def _beside(source: str) -> str:
    """The package's path where none is said: the model's with another extension."""
    path = pathlib.Path(source)
    if path.is_dir():
        # `weights.v2` is a name there, not one with an extension.
        path = path.resolve()
        return str(path.with_name(path.name + ".carton"))
    return str(path.with_suffix(".carton"))


def _mapping(of: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(of, Mapping):
        raise TypeError(f"{what} is a mapping of names, not {type(of).__name__}")
    return of


def _text(of: object, what: str) -> str:
    if not isinstance(of, str):
        raise TypeError(f"{what} is a text, not {type(of).__name__}")
    return of


def _texts(of: Optional[Iterable[str]], what: str) -> Optional[list[str]]:
    if isinstance(of, (str, bytes)):
        raise TypeError(f"{what} is a list of texts, not one text")
    return None if of is None else list(of)
