"""Prints what the original reads in a package, as JSON, after a look at it with `zipfile`.

Arguments: the package, and names of inputs that are left alone.
"""

import asyncio
import json
import os
import sys
import zipfile

import cartonml
import numpy


async def values(by_name):
    out = {}
    for name, of in (by_name or {}).items():
        # The original's Python package panics where it would hand out texts and nested tensors.
        if name not in sys.argv[2:]:
            array = numpy.asarray(await of.get())
            out[name] = {"shape": list(array.shape), "data": array.tolist()}
    return out


async def main(path):
    with zipfile.ZipFile(path) as archive:
        broken = archive.testzip()
        names = archive.namelist()
    info = await cartonml.get_model_info(path)
    tests = [
        {"inputs": await values(test.inputs), "expected": await values(test.expected_out)}
        for test in info.self_tests or []
    ]
    print(json.dumps({
        "broken": broken,
        "names": names,
        "name": info.model_name,
        "description": info.model_description,
        "inputs": [spec.name for spec in info.inputs or []],
        "self_tests": tests,
        "misc": sorted(info.misc_files or {}),
        "runner": info.runner.runner_name,
    }))


asyncio.run(main(sys.argv[1]))
sys.stdout.flush()
# The original's threads do not survive the end of the interpreter.
os._exit(0)
