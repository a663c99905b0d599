"""Models loaded from packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable

from . import _declared, _holdall
from ._carton_arrays import Value, native, value
from ._carton_types import Runner, SelfTestReport, SelfTestReports, Spec

if TYPE_CHECKING:
    from ._package import Package

#: A callback for each line that a model prints, and whether it was printed on standard error.
Log = Callable[[str, bool], object]
#: Options for a runner.
Options = Mapping[str, Any]


#: Environment variables for a model's process: a mapping of names to values, or the names of variables to pass on.
Env = Mapping[str, str] | Iterable[str]


def variables(env: Env | None) -> list[tuple[str, str | None]]:
    """Returns the environment variables for a model's process; a value of ``None`` means that of this process."""
    wrong = TypeError("env is a mapping of names to texts, or the names of variables of one's own")
    if env is None:
        return []
    if isinstance(env, (str, bytes)) or not isinstance(env, Iterable):
        raise wrong
    pairs: list[tuple[str, str | None]] = list(env.items()) if isinstance(env, Mapping) else [(n, None) for n in env]
    for name, value in pairs:
        if not isinstance(name, str) or not (isinstance(value, str) or value is None and not isinstance(env, Mapping)):
            raise wrong
    return pairs


#: Commands of runners by name: a program and its arguments.
Runners = Mapping[str, Sequence[str]]


def commands(runners: Runners | None) -> list[tuple[str, list[str]]]:
    """Checks commands of runners."""
    wrong = TypeError("runners is a mapping of names to commands: lists of texts, the first of them a program")
    if runners is None:
        return []
    if not isinstance(runners, Mapping):
        raise wrong
    for name, command in runners.items():
        if not isinstance(name, str) or not isinstance(command, (list, tuple)) or not command:
            raise wrong
        if not all(isinstance(part, str) for part in command):
            raise wrong
    return [(name, list(command)) for name, command in runners.items()]


def to_stderr(line: str, is_error: bool) -> None:
    """Prints a line of a model to standard error."""
    print(line, file=sys.stderr)


def load(
    package: Package,
    options: Options | None,
    python: str | os.PathLike[str] | None,
    env: Env | None,
    timeout: float | None,
    log: Log | None,
    runners: Runners | None,
) -> Model:
    """Loads the model of a package."""
    if log is not None and not callable(log):
        raise TypeError("log must be a function with two arguments: a line, and whether it was printed on standard error")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float, type(None))):
        raise TypeError("timeout must be a number of seconds")
    if python is None:
        python = os.environ.get("HOLDALL_PYTHON") or sys.executable or None
    interpreter = os.fsdecode(python) if python else "python3"
    loaded = package._native.load(
        {
            "options": _declared.options(options) or {},
            "python": python,
            "environment": variables(env),
            "timeout": None if timeout is None else float(timeout),
            "log": log or to_stderr,
            "own_runners": [("torchscript", [interpreter, "-m", "holdall.runners.torchscript"])],
            "runners": commands(runners),
            "program": [sys.executable, "-m", "holdall"] if sys.executable else [],
        }
    )
    return Model(loaded, package.source, package.name, package.runner, package.inputs, package.outputs)


class Model:
    """A loaded model: :func:`holdall.carton.load`, :meth:`Package.load`. A context manager.

    ::

        with holdall.carton.load("iris.carton") as model:
            outputs = model(x)                      # inputs in the declared order,
            outputs = model(x=x)                    # by name,
            outputs = model.run({"x": x})           # or by name in a mapping

    Outputs are writable NumPy arrays by name. Strings are arrays of ``str`` objects, nested tensors are lists of
    arrays. Threads may share a model; calls run one after the other, without the GIL. Ctrl-C ends a call, and unloads
    the model. A model belongs to the process that loaded it: a forked process must load it again (``run/closed``).
    """

    __slots__ = ("_native", "source", "name", "runner", "inputs", "outputs", "__weakref__")

    #: The path or address of the package.
    source: str
    #: The model's name, if it has one.
    name: str | None
    #: The runner.
    runner: Runner
    #: The declared inputs, in their order.
    inputs: tuple[Spec, ...]
    #: The declared outputs, in their order.
    outputs: tuple[Spec, ...]

    def __init__(
        self,
        native: _holdall.Model,
        source: str,
        name: str | None,
        runner: Runner,
        inputs: tuple[Spec, ...],
        outputs: tuple[Spec, ...],
    ) -> None:
        self._native = native
        self.source, self.name, self.runner = source, name, runner
        self.inputs, self.outputs = inputs, outputs

    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Value]:
        """Runs the model once. If the model streams, returns its last outputs; :meth:`stream` gives all of them.

        Args:
            inputs: Arrays by name; or a list of arrays in the order of the declared inputs. Arrays must have the
                declared type and shape. Python numbers, and lists of them or of NumPy scalars, take the declared
                type. Strings are given as ``str``, lists of ``str``, or arrays. A list of arrays as one input is a
                nested tensor.

        Raises:
            UsageError: the inputs are not the declared ones: ``signature/input-missing``,
                ``signature/input-type`` and so on.
            MalformedError: the model failed (``runner/failed``), took too long (``runner/timeout``), or its outputs are
                not the declared ones. UnsupportedError: the runner cannot do it.
        """
        found = self._native.run(*self._given(inputs))
        return {name: value(v, writable=True) for name, v in found.items()}

    def stream(self, inputs: Mapping[str, Any] | Sequence[Any]) -> Iterator[dict[str, Value]]:
        """Runs the model once and yields each set of outputs; only one set if the model does not stream.

        ::

            for outputs in model.stream({"prompt": "hello"}):
                print(outputs["text"])

        Leaving the loop early ends the call: a model that does not finish within two seconds is terminated, and must
        be loaded again. The time limit applies to each set of outputs. While a stream is open, calls by other threads
        wait, and a call by the same thread is an error.

        Args:
            inputs: As for :meth:`run`.

        Raises:
            UsageError: as for :meth:`run`; ``python/streaming`` while outputs of an earlier call are being taken.
            MalformedError, UnsupportedError: as for :meth:`run`.
        """
        return _outputs(self._native.stream(*self._given(inputs)))

    def _given(self, inputs: Mapping[str, Any] | Sequence[Any]) -> tuple[list[str] | None, list[Any]]:
        """Returns the names of the inputs (``None`` for a list) and their values."""
        types = {spec.name: spec.dtype for spec in self.inputs}
        if isinstance(inputs, Mapping):
            return [_name(name) for name in inputs], [
                native(v, f"input {name!r}", types.get(name)) for name, v in inputs.items()
            ]
        if isinstance(inputs, (list, tuple)):
            declared = [spec.dtype for spec in self.inputs] + [None] * len(inputs)
            return None, [native(v, f"input {at}", dtype) for at, (v, dtype) in enumerate(zip(inputs, declared))]
        raise TypeError("inputs must be a mapping of names to arrays, or a list of arrays in the declared order")

    def __call__(self, *inputs: Any, **named: Any) -> dict[str, Value]:
        """Runs the model once: arrays in the declared order, or by name, or one mapping of names to arrays. See
        :meth:`run`."""
        if len(inputs) == 1 and not named and isinstance(inputs[0], Mapping):
            return self.run(inputs[0])
        if named and inputs:
            declared = [spec.name for spec in self.inputs]
            if len(inputs) > len(declared):
                return self.run(inputs)  # Raises: there are too many.
            first = dict(zip(declared, inputs))
            twice = sorted(set(first) & set(named))
            if twice:
                raise TypeError(f"input {twice[0]!r} is given in the declared order and by name")
            return self.run({**first, **named})
        return self.run(named if named else list(inputs))

    def test(
        self,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool | None = None,
    ) -> SelfTestReports:
        """Runs the package's self-tests: see :func:`holdall.carton.test`."""
        rtol, atol = (
            None if x is None else _declared.tolerance(x, what) for x, what in ((rtol, "rtol"), (atol, "atol"))
        )
        found = self._native.test(rtol, atol, equal_nan)
        return SelfTestReports(self.source, [SelfTestReport._of(test) for test in found])

    @property
    def warnings(self) -> list[str]:
        """Warnings, such as options that the runner does not know."""
        return self._native.warnings()

    def close(self) -> None:
        """Unloads the model and ends its process, if it has one. Waits for a running call; a stream is ended."""
        self._native.close()

    @property
    def closed(self) -> bool:
        """Whether the model is closed."""
        return self._native.closed

    def __enter__(self) -> Model:
        self._native.warnings()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(spec.name for spec in specs) for specs in (self.inputs, self.outputs))
        name = self.name if self.name is not None else self.source
        return f"<holdall.carton.Model {name!r}, {self.runner.name}: ({inputs}) -> ({outputs})>"

    def __reduce__(self) -> Any:
        raise TypeError("a loaded model cannot be pickled; pickle the path of its package")


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"names of inputs are texts, not {type(name).__name__}")
    return name


def _outputs(answers: _holdall.Answers) -> Iterator[dict[str, Value]]:
    """Yields the sets of outputs of a call."""
    try:
        while (found := answers.next()) is not None:
            yield {name: value(v, writable=True) for name, v in found.items()}
    finally:
        answers.close()
