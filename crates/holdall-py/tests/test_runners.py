"""Runners that are programs: one made with ``holdall.runners``, the one for TorchScript, and folders that nothing
describes."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT

import holdall
from holdall import carton

XOR = ROOT / "examples/xor/model/model.onnx"

TRIPLING = """
from holdall.runners import Failure, serve

class Tripling:
    name = "tripling"

    def start(self):
        return {"version": "1.4.0"}

    def load(self, folder, options, declared):
        if "broken" in options:
            raise Failure("framework", "there is nothing to multiply by")
        return lambda inputs: {declared["outputs"][0]["name"]: 3 * inputs["x"]}

serve(Tripling())
"""


@pytest.fixture
def tripling(tmp_path):
    """A package, and the command of its runner."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/w").write_bytes(b"w")
    x = np.arange(4, dtype=np.int32)
    package = carton.pack(
        tmp_path / "model",
        runner="tripling",
        framework_version="^1.3",
        inputs=[("x", "int32", ("n",))],
        outputs=[("y", "int32", ("n",))],
        self_tests=[{"inputs": {"x": x}, "expected": {"y": 3 * x}}],
    )
    script = tmp_path / "tripling.py"
    script.write_text(TRIPLING)
    return package.path, [sys.executable, str(script)]


def test_a_runner_of_ones_own(tripling):
    package, command = tripling
    runners = {"tripling": command}
    assert carton.test(package, runners=runners)
    with carton.load(package, runners=runners) as model:
        assert model([1, 2])["y"].tolist() == [3, 6]
        big = np.arange(2_000_000, dtype=np.int32)
        assert np.array_equal(model(big)["y"], 3 * big)
    with pytest.raises(holdall.UnsupportedError) as e:
        carton.load(package)
    assert e.value.code == "run/no-runner"
    with pytest.raises(holdall.UnsupportedError) as e:
        carton.load(package, runners=runners, options={"broken": 1})
    assert e.value.code == "runner/framework"
    for wrong in ([command], {"tripling": "python3"}, {"tripling": []}, {1: command}):
        with pytest.raises(TypeError):
            carton.load(package, runners=wrong)


def test_the_check_of_runners_passes_it(tripling):
    package, command = tripling
    check = [sys.executable, "-m", "holdall", "runner", "check", "--package", package, "--", *command]
    ran = subprocess.run(check, capture_output=True, text=True, timeout=300)
    # It has no options, and warns of none.
    failed = [line for line in ran.stdout.splitlines() if line.startswith("failed")]
    assert failed == ["failed  warns of an unknown option"], ran


def test_the_users_file_names_runners(tripling, tmp_path, monkeypatch):
    package, command = tripling
    config = tmp_path / "config.toml"
    config.write_text(f"[runners.tripling]\ncommand = {command!r}\n")
    monkeypatch.setenv("HOLDALL_CONFIG", str(config))
    assert carton.test(package)
    config.write_text("runners = 3")
    with pytest.raises(holdall.UsageError) as e:
        carton.test(package)
    assert e.value.code == "run/config"


def test_a_folder_is_loaded_by_two_words(tmp_path):
    (tmp_path / "main.py").write_text("def load():\n    return lambda inputs: {'y': inputs['x'] + 1}\n")
    with carton.load(tmp_path, runner="python", framework_version=">=3.9") as model:
        assert model.run({"x": np.zeros(2)})["y"].tolist() == [1, 1]
    with carton.open(tmp_path, runner="python", framework_version="*", inputs=[("x", "float32", ("n",))]) as package:
        assert package.inputs[0].shape == ("n",) and package.runner.name == "python"
        with package.load() as model:
            assert model([1])["y"].tolist() == [2]
    with pytest.raises(holdall.MalformedError) as e:
        carton.load(tmp_path)
    assert e.value.code == "carton/missing-file"
    with pytest.raises(holdall.UsageError) as e:
        carton.load(tmp_path, runner="python")
    assert e.value.code == "package/runner"
    with pytest.raises(TypeError):
        carton.open(b"PK", runner="python")


def test_a_graph_says_the_rest(tmp_path):
    (tmp_path / "xor.onnx").write_bytes(XOR.read_bytes())
    x = np.array([[0, 1]], np.float32)
    assert carton.run(tmp_path, [x], runner="onnx")["label"].tolist() == [1]
    # With a time limit the engine has a process of its own.
    with carton.load(tmp_path, runner="onnx", timeout=60) as model:
        assert model(x)["label"].tolist() == [1]


def test_a_call_of_a_graph_is_ended(tmp_path):
    endless = ROOT / "crates/holdall-run/tests/onnx/endless.onnx"
    (tmp_path / "model.onnx").write_bytes(endless.read_bytes())
    with carton.load(tmp_path, runner="onnx", timeout=5) as model:
        with pytest.raises(holdall.MalformedError) as e:
            model(np.ones(1, np.float32))
    assert e.value.code == "runner/timeout"


def test_a_torchscript_model_runs_and_tests_itself(tmp_path):
    torch = pytest.importorskip("torch")

    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 3)

        def forward(self, x, scale: torch.Tensor):
            return self.layer(x) * scale, x.sum(dim=1)

    torch.manual_seed(0)
    model = Two().eval()
    (tmp_path / "two").mkdir()
    torch.jit.script(model).save(str(tmp_path / "two/model.pt"))
    x, scale = torch.arange(6.0).reshape(3, 2), torch.tensor(2.0)
    y, total = (t.detach().numpy() for t in model(x, scale))
    packed = carton.pack(
        tmp_path / "two",
        runner="torchscript",
        framework_version=">=1.12",
        inputs=[("x", "float32", ("n", 2)), carton.Spec("factor", "float32", (), None, "scale")],
        outputs=[("y", "float32", ("n", 3)), ("total", "float32", ("n",))],
        self_tests=[{"inputs": {"x": x.numpy(), "factor": scale.numpy()}, "expected": {"y": y, "total": total}}],
    )
    assert carton.test(packed.path)
    with carton.load(packed.path, options={"num_threads": 1, "speed": 2}) as loaded:
        assert len(loaded.warnings) == 1 and "speed" in loaded.warnings[0]
        assert np.allclose(loaded(x.numpy(), scale.numpy())["y"], y)
    command = [sys.executable, "-m", "holdall", "runner", "check", "--package", packed.path, "--"]
    command += [sys.executable, "-m", "holdall.runners.torchscript"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0 and "14 passed" in ran.stdout, ran
