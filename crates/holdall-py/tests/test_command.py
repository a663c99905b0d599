"""The command of the package is the command."""

import pathlib
import subprocess
import sys

import numpy as np

import holdall


def run(*args, program=None):
    program = program or [sys.executable, "-m", "holdall"]
    return subprocess.run([*program, *map(str, args)], capture_output=True, text=True, timeout=120)


def test_inspect_convert_verify(zt, tmp_path, arrays):
    found = run("inspect", zt)
    assert found.returncode == 0 and "zTensor 1.2.0" in found.stdout and found.stderr == ""
    found = run("convert", zt, tmp_path / "b.safetensors")
    assert found.returncode == 0, found.stderr
    assert np.array_equal(holdall.load(tmp_path / "b.safetensors")["w"], arrays["w"])
    assert run("diff", zt, tmp_path / "b.safetensors").returncode == 0


def test_statuses(zt, tmp_path):
    assert run("inspect", tmp_path / "none").returncode == 3
    assert run("nonsense").returncode == 2
    data = bytearray(zt.read_bytes())
    with holdall.open(zt) as f:
        data[f["w"].location["data"][0]] ^= 1
    zt.write_bytes(data)
    found = run("verify", zt)
    assert found.returncode == 1 and "file/digest" in found.stdout + found.stderr
    assert run("--version").stdout.startswith(f"holdall {holdall.__version__}")


def test_the_script_is_installed(zt):
    script = pathlib.Path(sys.executable).with_name("holdall")
    if script.exists():
        assert run("ls", zt, program=[script]).returncode == 0
