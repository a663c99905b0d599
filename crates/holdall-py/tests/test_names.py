"""The names that people see: no built-in is hidden, ``dir()`` lists exactly the public names, keys complete."""

import ast
import builtins
import importlib
import importlib.util
import inspect
import pathlib
import pkgutil
import subprocess
import sys

import numpy as np
import pytest

import holdall

PACKAGE = pathlib.Path(holdall.__file__).parent
#: Public modules, each with the package that it cannot be imported without.
MODULES = {
    "aio": None, "carton": None, "daft": "daft", "delta": None, "errors": None, "gpu": None, "jobs": None, "numpy": None, "ray": "ray",
    "recipes": None, "runners": None, "safetensors": None, "safetensors.flax": "flax", "safetensors.mlx": "mlx", "safetensors.numpy": None,
    "safetensors.paddle": "paddle", "safetensors.tensorflow": "tensorflow", "safetensors.torch": "torch", "schema": None,
    "torch": None,
}  # fmt: skip
#: Those that can be imported here.
PRESENT = [name for name, needs in MODULES.items() if needs is None or importlib.util.find_spec(needs)]


def test_every_public_module_is_looked_at():
    found = {
        m.name.removeprefix("holdall.")
        for m in pkgutil.walk_packages([str(PACKAGE)], "holdall.", onerror=lambda name: None)
        if not any(part.startswith("_") for part in m.name.split("."))
    }
    # A runner is a program, not a module of names.
    assert found - {"runners.torchscript"} | set(MODULES) == set(MODULES)
    assert {m for m in MODULES if "." not in m} <= found


def public(name):
    module = holdall if name == "" else importlib.import_module(f"holdall.{name}")
    return module, [n for n in dir(module) if not n.startswith("_")]


@pytest.mark.parametrize("name", ["", *PRESENT])
def test_no_built_in_is_hidden(name):
    module, _ = public(name)
    assert not set(module.__all__) & set(dir(builtins))
    assert module.__all__ == sorted(set(module.__all__))
    space = {}
    if name != "torch":  # Its classes are torch's.
        exec(f"from {module.__name__} import *", space)
        assert set(space) - {"__builtins__"} == set(module.__all__)


@pytest.mark.parametrize("name", ["", *PRESENT])
def test_dir_shows_what_is_public(name):
    module, names = public(name)
    submodules = {m.rpartition(".")[2] for m in MODULES if m.rpartition(".")[0] == name}
    assert set(names) - submodules - {"open"} == {n for n in module.__all__ if not n.startswith("_")} - submodules
    for n in names:
        if name == "torch":
            continue
        value = getattr(module, n)
        if inspect.ismodule(value):
            assert n in submodules and value.__name__.startswith("holdall."), n
        elif inspect.isclass(value) or inspect.isfunction(value):
            assert value.__module__.startswith("holdall"), f"{n} is of {value.__module__}"


def test_dir_shows_the_modules():
    for name, needs in MODULES.items():
        if "." not in name:
            is_there = needs is None or importlib.util.find_spec(needs) is not None
            assert (name in dir(holdall)) == is_there == hasattr(holdall, name), name
    implementation = {"os", "sys", "np", "Any", "annotations", "importlib", "TYPE_CHECKING", "Path", "Optional", "json"}
    for name in ["", *PRESENT]:
        assert not implementation & set(dir(public(name)[0])), name


def test_modules_are_imported_when_they_are_asked_for():
    code = """
import sys, holdall
assert "holdall.carton" not in sys.modules and "asyncio" not in sys.modules
for name in ("carton", "delta", "schema", "aio", "jobs", "numpy", "torch"):
    assert getattr(holdall, name).__name__ == f"holdall.{name}"
assert "torch" not in sys.modules
try:
    holdall.nothing
except AttributeError as e:
    assert "nothing" in str(e)
else:
    raise SystemExit("an attribute that is not there")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_what_is_defined_in_a_public_module_is_in_all():
    for name in ["", *PRESENT]:
        module, _ = public(name)
        tree = ast.parse(pathlib.Path(module.__file__).read_text())
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        defined = {n.name for n in tree.body if isinstance(n, kinds) and not n.name.startswith("_")}
        assert defined - {"open"} <= set(module.__all__), name


def test_annotations_say_none_with_a_bar():
    old = {"Optional", "Union", "List", "Dict", "Tuple", "Set"}
    files = [f for f in PACKAGE.rglob("*.py*") if f.suffix in (".py", ".pyi")]
    assert len(files) > 40
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            arguments = {
                ast.Name: lambda n: n.id, ast.Attribute: lambda n: n.attr, ast.alias: lambda n: n.name
            }.get(type(node), lambda n: None)(node)  # fmt: skip
            assert arguments not in old, f"{file.name}: {arguments}"
            # Of an annotation in quotes the parser sees the text alone.
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not node.value.startswith(("Optional[", "Union[")), f"{file.name}: {node.value}"


@pytest.fixture
def file(tmp_path):
    holdall.save(tmp_path / "a.zt", {"enc.weight": np.ones(3), "enc.bias": np.ones(3), "dec.weight": np.ones(3)})
    with holdall.open(tmp_path / "a.zt") as f:
        yield f


def test_keys_of_a_file_complete(file):
    assert file._ipython_key_completions_() == list(file) and len(file) == 3
    file.close()
    assert file._ipython_key_completions_() == []


def test_keys_of_a_package_complete(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"x")
    x = np.ones(2, np.float32)
    tests = [holdall.carton.SelfTest(inputs={"x": x})]
    path = tmp_path / "a.carton"
    holdall.carton.pack(tmp_path / "model.bin", path, runner="noop", framework_version="1", self_tests=tests)
    with holdall.carton.open(path) as package:
        assert package.values._ipython_key_completions_() == list(package.values) != []
        assert package.files._ipython_key_completions_() == list(package.files) != []
        values = package.values
    assert values._ipython_key_completions_() == []


def test_keys_complete_in_ipython(file):
    completer = pytest.importorskip("IPython.core.completer")
    ipython = completer.IPCompleter(namespace={"f": file, "holdall": holdall}, use_jedi=False)
    with completer.provisionalcompleter():
        found = {c.text for c in ipython.completions('f["enc.', 7)}
        assert {text.removeprefix("enc.").strip('"]') for text in found} == {"weight", "bias"}, found
        found = {c.text.removeprefix("holdall").removeprefix(".") for c in ipython.completions("holdall.ca", 10)}
        assert "carton" in found, found
