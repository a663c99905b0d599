"""Writes the accepted files of Flax in the corpus, with Flax itself.

    pip install flax==0.12.8 && python interop/others/flax_files.py        from the root of the repository
"""

import json
from pathlib import Path

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from flax import serialization

FOLDER = Path("corpus/accept/flax")
TYPES = (
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 complex64 complex128 "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
).split()


def noise(name, shape, seed):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    bits = np.random.default_rng(seed).integers(0, 256, int(np.prod(shape)) * dtype.itemsize, dtype=np.uint8)
    return bits.view(dtype).reshape(shape)


def write(name, tree):
    (FOLDER / f"{name}.msgpack").write_bytes(serialization.msgpack_serialize(tree, in_place=True))


FOLDER.mkdir(parents=True, exist_ok=True)
types = {name: noise(name, (2, 3), seed) for seed, name in enumerate(TYPES)}
types["bool"] = np.array([[True, False, True]])
write("flax_types", {"types": types, "empty": np.zeros((0, 4), np.float32), "scalar": np.float32(1.5)})

state = {
    "params": {"dense": {"kernel": jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3), "bias": jnp.ones(3)}},
    "step": 3,
    "opt_state": {"0": {"count": np.int32(7)}, "1": [np.zeros(2, np.float32), "sgd", None]},
    "rate": 0.25,
    "z": complex(1, -2),
    "note": "räksmörgås",
    "raw": b"\x00\x01",
    "big": 2**63,
    "is_done": False,
    7: np.arange(3, dtype=np.int16),
}
write("flax_state", state)

# An array of more than this many bytes is written in chunks: of 1 GiB, were it not for small files.
serialization.MAX_CHUNK_SIZE = 16
write("flax_chunked", {"params": {"w": np.arange(15, dtype=np.float32).reshape(3, 5), "b": np.ones(2, np.float32)}})
