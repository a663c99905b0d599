"""Creating packages."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from . import _declared, _holdall
from ._carton_arrays import native
from ._carton_types import Example, PackReport, SelfTest, Spec
from ._declared import mapping, optional, text, texts
from ._model import Options
from ._progress import Progress, listening
from ._reports import made
from .errors import FormatWarning, UsageError

__all__ = ["pack", "report"]

#: A path in the file system.
Path = str | os.PathLike[str]
#: A self-test for :func:`pack`; its fields may be given as a dict.
Test = SelfTest | Mapping[str, Any]
#: An example for :func:`pack`; its fields may be given as a dict.
ExampleInput = Example | Mapping[str, Any]
#: Prefixes of references to tensors and to files.
TENSOR, MISC = "@tensor_data/", "@misc/"


def pack(
    model: Path,
    out: Path | None = None,
    *,
    name: str | None = None,
    short_description: str | None = None,
    description: str | None = None,
    license: str | None = None,
    repository: str | None = None,
    homepage: str | None = None,
    runner: str | None = None,
    framework_version: str | None = None,
    options: Options | None = None,
    platforms: Iterable[str] | None = None,
    inputs: Iterable[Spec | tuple[Any, ...]] | None = None,
    outputs: Iterable[Spec | tuple[Any, ...]] | None = None,
    self_tests: Iterable[Test] | None = None,
    examples: Iterable[ExampleInput] | None = None,
    tensors: Mapping[str, Any] | None = None,
    misc: Iterable[Path] = (),
    from_toml: Path | None = None,
    compress: Literal["zstd", "deflate"] | None = None,
    follow_links: bool = False,
    all_files: bool = False,
    overwrite: bool = False,
    progress: Progress = None,
) -> PackReport:
    """Creates a package of a model. The same files give the same package, byte for byte.

    ::

        holdall.carton.pack(
            "xor.onnx", "xor.carton", name="xor",
            self_tests=[{"inputs": {"x": x}, "expected": {"p": p}}],
        )

    Args:
        model: The file of a model (for an ``.onnx`` file the runner, inputs and outputs are taken from it), or a
            folder: with ``carton.toml`` and ``model/``, with ``model/`` alone, or with the model's files.
        out: The package to write; by default ``model`` with the extension ``.carton``.
        name: Name of the model. This and the following arguments override the model's file and ``carton.toml``.
        short_description: A description in one line.
        description: A longer description, in Markdown.
        license: An SPDX expression.
        repository, homepage: Addresses.
        runner: The runner of the model: ``"onnx"``, ``"python"``, ``"noop"``, …
        framework_version: The accepted versions of the framework, as Cargo writes requirements: ``">=3.10"``,
            ``"=1.12.1"``.
        options: Options of the runner: numbers, strings, bools, dates and times, and lists and dicts of them. They
            are added to existing ones.
        platforms: Target triples of supported platforms, such as ``"x86_64-unknown-linux-gnu"``; by default all.
        inputs, outputs: Declared inputs and outputs: :class:`Spec`, tuples such as ``("x", "float32", ("n", 2))``, or
            dicts of its fields. Element types may be NumPy's: ``np.float32``, ``x.dtype``. In shapes ``None`` is any
            size, and as a whole any shape.
        self_tests: :class:`SelfTest`, or dicts of its fields: ``inputs`` and ``expected`` by name, each an array, or
            the name of one of ``tensors``.
        examples: :class:`Example`, or dicts of its fields: ``inputs`` and ``outputs`` by name, each an array, a
            ``pathlib.Path`` of a picture or another file to show, or a string: the name of one of ``tensors``, or a
            reference as in an open package.
        tensors: Further arrays by name, which self-tests and examples can refer to. If there are any arrays here, in
            ``self_tests`` or in ``examples``, they replace everything in a folder's ``tensor_data``.
        misc: Further files for examples and the description, which refer to them as ``@misc/NAME``.
        from_toml: A ``carton.toml`` that describes the package.
        compress: Whether files are compressed if that makes them smaller. Otherwise they are stored uncompressed and
            aligned, so that they can be mapped.
        follow_links: Whether symbolic links that point outside of the folder are followed.
        all_files: Whether to include files of a folder that are left out by default: ``.env``, ``.git``, ``.venv``,
            caches, and those that its ``.holdallignore`` names.
        overwrite: Whether an existing package is replaced.
        progress: ``True`` for a bar, or a function that is called with the bytes done and the total.

    Raises:
        UsageError: the parts do not fit together (``package/part``), the runner is unknown (``package/runner``), or a
            declaration is not possible in a package.
        TypeError: an argument has a wrong type. UnicodeEncodeError: a string is not valid Unicode.
        MalformedError: ``carton.toml`` or the model's file is not valid.
    """
    arrays: dict[str, Any] = {}
    for tensor, array in mapping(tensors or {}, "tensors").items():
        arrays[text(tensor, "the name of a tensor")] = native(array, f"tensor {tensor!r}")
    tests = None
    if self_tests is not None:
        if isinstance(self_tests, (Mapping, SelfTest, str)):
            raise TypeError("self_tests must be a list of self-tests")
        tests = [_tested(test, at, arrays) for at, test in enumerate(self_tests)]
    files = {pathlib.Path(path).name: path for path in misc}
    shown = None
    if examples is not None:
        if isinstance(examples, (Mapping, Example, str)):
            raise TypeError("examples must be a list of examples")
        shown = [_example_of(example, at, arrays, files) for at, example in enumerate(examples)]
    source = os.fspath(model)
    if not isinstance(source, str):
        raise TypeError(f"model must be a path as text, not {type(source).__name__}")
    declared = [_declared.specs(of, side) for of, side in ((inputs, "input"), (outputs, "output"))]
    fields = {
        "name": optional(name, "name"),
        "short_description": optional(short_description, "short_description"),
        "description": optional(description, "description"),
        "license": optional(license, "license"),
        "repository": optional(repository, "repository"),
        "homepage": optional(homepage, "homepage"),
        "runner": optional(runner, "runner"),
        "framework_version": optional(framework_version, "framework_version"),
        "options": _declared.options(options),
        "platforms": texts(platforms, "platforms"),
        "inputs": declared[0],
        "outputs": declared[1],
        "self_tests": tests,
        "examples": shown,
        "from_toml": from_toml,
    }
    with listening(progress) as listener:
        target, found = _holdall.pack(
            source,
            out,
            fields,
            list(arrays.items()),
            list(files.items()),
            compress,
            bool(follow_links),
            bool(all_files),
            bool(overwrite),
            listener,
        )
    packed = report(found, target)
    packed.warnings[:0] = _declared.lone_symbols(*declared)
    return packed


def report(found: dict[str, Any], target: Path) -> PackReport:
    """Converts the native half's report about a written package."""
    warnings = [FormatWarning(**w) for w in found["warnings"]]
    undeclared = found.get("undeclared")
    if undeclared is not None:
        name, why = undeclared
        message = f"it cannot be declared in a package: {why}; no inputs and outputs are declared"
        warnings.insert(0, FormatWarning("python/undeclared", message, name, None, 1))
    return made(PackReport, found, path=os.fsdecode(target), nbytes=found["len"], warnings=warnings)


def _tested(of: Test, at: int, arrays: dict[str, Any]) -> tuple[Any, ...]:
    """Converts a self-test for the native half; its arrays are added to ``arrays``."""
    test = of if isinstance(of, SelfTest) else SelfTest(**mapping(of, "a self-test"))
    sides: list[list[tuple[str, str]] | None] = []
    for side, values in (("inputs", test.inputs), ("expected", test.expected)):
        if values is None:
            sides.append(None)
            continue
        named = []
        for name, value in mapping(values, side).items():
            tensor = value
            if not isinstance(value, str):
                tensor = f"self_test_{at}.{side}.{text(name, 'the name of an input')}"
                _add(arrays, tensor, native(value, f"{side} {name!r} of self-test {at}"))
            named.append((text(name, "the name of an input"), tensor))
        sides.append(named)
    name, description = (optional(getattr(test, of), f"{of} of self-test {at}") for of in ("name", "description"))
    rtol, atol = (_declared.tolerance(getattr(test, of), f"{of} of self-test {at}") for of in ("rtol", "atol"))
    return name, description, *sides, (rtol, atol, bool(test.equal_nan))


def _example_of(of: ExampleInput, at: int, arrays: dict[str, Any], files: dict[str, Path]) -> tuple[Any, ...]:
    """Converts an example for the native half; its arrays and files are added to ``arrays`` and ``files``."""
    example = of if isinstance(of, Example) else Example(**mapping(of, "an example"))
    sides: list[list[tuple[str, bool, str]]] = []
    for side, values in (("inputs", example.inputs), ("outputs", example.outputs)):
        named = []
        for key, value in mapping(values, side).items():
            name = text(key, "the name of an input")
            if isinstance(value, os.PathLike):
                file = pathlib.Path(value).name
                if os.fspath(files.setdefault(file, value)) != os.fspath(value):
                    raise UsageError(f"two files would be misc/{file}", code="python/option", kind="misuse")
                named.append((name, True, file))
            elif isinstance(value, str):
                is_file = value.startswith(MISC)
                named.append((name, is_file, value.removeprefix(MISC if is_file else TENSOR)))
            else:
                tensor = f"example_{at}.{side}.{name}"
                _add(arrays, tensor, native(value, f"{side} {name!r} of example {at}"))
                named.append((name, False, tensor))
        sides.append(named)
    labels = (optional(getattr(example, of), f"{of} of example {at}") for of in ("name", "description"))
    return *labels, *sides


def _add(arrays: dict[str, Any], name: str, array: Any) -> None:
    if name in arrays:
        raise UsageError(f"there is a tensor {name!r} already", code="python/option", kind="misuse")
    arrays[name] = array
