"""The runner ``torchscript``: runs models that ``torch.jit`` saved, with the installed torch.

    python3 -m holdall.runners.torchscript

The model is ``model.pt``, or the only ``.pt`` file in ``model``. Its method ``forward`` is called with the inputs as
arguments of the same name (``internal_name``, or else the name), with a dict of all inputs if it has a single
argument of that type, or in the declared order. It returns a dict, a tensor, or a tuple or list of tensors in the
order of the declared outputs.

Options: ``num_threads``, ``num_interop_threads``, ``device`` (default: ``cpu``).
"""

from __future__ import annotations

import importlib
import os
import re
import traceback
import warnings
from typing import Any, Callable

from . import Failure, serve

_THREADS = {"num_threads": "set_num_threads", "num_interop_threads": "set_num_interop_threads"}


class TorchScript:
    """The runner for models of ``torch.jit``."""

    name = "torchscript"

    def __init__(self) -> None:
        self.torch: Any = None

    def start(self) -> dict[str, Any]:
        """Returns the version of torch."""
        try:
            self.torch = importlib.import_module("torch")
        except BaseException as e:
            raise Failure("framework", f"`import torch` fails: {e}")
        found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", str(self.torch.__version__))
        version = ".".join(part or "0" for part in found.groups()) if found else "0.0.0"
        return {"version": version, "compat_versions": [1]}

    def load(self, folder: str, options: dict[str, Any], declared: dict[str, Any]) -> tuple[Callable[[Any], Any], list[str]]:
        """Returns the function that runs the model in ``folder``, and a list of warnings."""
        odd = []
        for name, value in options.items():
            if name in _THREADS:
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise Failure("run/option", f"`{name}` is a whole number from 1 on")
                getattr(self.torch, _THREADS[name])(value)
            elif name != "device":
                known = ", ".join([*_THREADS, "device"])
                odd.append(f"the runner `torchscript` has no option `{name}`, which is ignored; its options are {known}")
        device = options.get("device", "cpu")
        if not isinstance(device, str):
            raise Failure("run/option", "`device` is a text, as `cpu`")
        try:
            # Users need no warning that this model format is deprecated.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = self.torch.jit.load(_file(folder), map_location=device)
                model.eval()
        except Failure:
            raise
        except BaseException as e:
            traceback.print_exc()
            raise Failure("load", f"torch cannot load the model: {e}")
        arguments = list(model.forward.schema.arguments)[1:]
        call = _Call(self.torch, model, device, arguments, declared.get("inputs") or [], declared.get("outputs") or [])
        return call, odd


class _Call:
    """A loaded model, called with arrays by name."""

    def __init__(
        self,
        torch: Any,
        model: Any,
        device: str,
        arguments: list[Any],
        inputs: list[dict[str, Any]],
        outputs: list[dict[str, Any]],
    ) -> None:
        self.torch, self.model, self.device = torch, model, device
        self.arguments = [argument.name for argument in arguments]
        self.takes_dict = len(arguments) == 1 and str(arguments[0].type).startswith("Dict[")
        self.inputs = {str(spec["name"]): str(spec.get("internal_name") or spec["name"]) for spec in inputs}
        self.outputs = {str(spec.get("internal_name") or spec["name"]): str(spec["name"]) for spec in outputs}

    def __call__(self, given: dict[str, Any]) -> dict[str, Any]:
        values = {self.inputs.get(name, name): self.tensor(value) for name, value in given.items()}
        with self.torch.no_grad():
            if self.takes_dict:
                found = self.model(values)
            elif set(values) <= set(self.arguments):
                found = self.model(**values)
            else:
                wanted = list(self.inputs.values()) or list(values)
                found = self.model(*[values.pop(name) for name in wanted if name in values], **values)
        return self.named(found)

    def tensor(self, value: Any) -> Any:
        """Converts an array for torch: strings to lists of ``str``, a nested value to a list of tensors."""
        if isinstance(value, list):
            return [self.tensor(part) for part in value]
        if value.dtype.kind in "UO":
            return value.tolist()
        array = value if value.flags.writeable else value.copy()
        return self.torch.from_numpy(array).to(self.device)

    def named(self, found: Any) -> dict[str, Any]:
        """Returns the outputs of the model by name."""
        if isinstance(found, dict):
            return {self.outputs.get(name, str(name)): self.array(value) for name, value in found.items()}
        every = list(found) if isinstance(found, (tuple, list)) else [found]
        names = list(self.outputs.values())
        if not names:
            names = ["output"] if len(every) == 1 else [f"output_{at}" for at in range(len(every))]
        if len(names) != len(every):
            raise ValueError(f"the model gave {len(every)} outputs, {len(names)} are declared")
        return {name: self.array(value) for name, value in zip(names, every)}

    def array(self, value: Any) -> Any:
        """Converts a tensor for NumPy; lists of tensors to lists of arrays."""
        if isinstance(value, self.torch.Tensor):
            return value.detach().cpu().numpy()
        if isinstance(value, (list, tuple)) and value and all(isinstance(v, self.torch.Tensor) for v in value):
            return [self.array(part) for part in value]
        return value


def _file(folder: str) -> str:
    usual = os.path.join(folder, "model.pt")
    if os.path.isfile(usual):
        return usual
    found = [name for name in os.listdir(folder) if name.endswith(".pt")]
    if len(found) != 1:
        what = f"there are {len(found)} `.pt` files in `model`, and none of them is `model.pt`"
        raise Failure("load", what if found else "there is no `.pt` file in `model`")
    return os.path.join(folder, found[0])


def main() -> None:
    """Runs the runner until the other side closes the wire."""
    serve(TorchScript())


if __name__ == "__main__":
    main()
