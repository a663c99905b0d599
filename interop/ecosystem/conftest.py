"""Libraries that use safetensors, with Holdall in its place."""

import json
import os
import pathlib
import struct
import subprocess
import sys

import pytest

import holdall.safetensors

holdall.safetensors.install()


def raw(path):
    """What a safetensors file has, read by hand: of each name its type, shape and bytes."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    start = 8 + length
    at = {name: [start + n for n in its["data_offsets"]] for name, its in header.items()}
    return {name: (its["dtype"], its["shape"], data[slice(*at[name])]) for name, its in header.items()}


def published(script, *args):
    """Runs a script with the published package, in a process where nothing was put in its place."""
    done = subprocess.run([sys.executable, "-c", script, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def minilm():
    """The folder of a real model: 90 MB of safetensors."""
    path = os.environ.get("HOLDALL_MODEL")
    if path is None:
        pytest.skip("the model was not fetched")
    return pathlib.Path(path).parent
