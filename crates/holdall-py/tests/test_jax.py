"""jax itself, where it is installed: its arrays to files, and tensors of files as its arrays."""

import numpy as np
import pytest

import holdall

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

NAMES = "float32 float16 bfloat16 int32 int8 uint32 uint8 bool complex64 float8_e4m3fn float8_e5m2"


def arrays():
    out = {name: jnp.asarray(np.arange(12).reshape(3, 4) % 2, dtype=name) for name in NAMES.split()}
    return {**out, "one": jnp.float32(2.5), "none": jnp.zeros((0, 3)), "turned": jnp.arange(12.0).reshape(3, 4).T}


@pytest.mark.parametrize("extension", ["zt", "mt", "safetensors"])
def test_there_and_back(tmp_path, extension):
    path = tmp_path / f"a.{extension}"
    holdall.save(path, arrays())
    with holdall.open(path) as f:
        loaded = f.load()
        for name, x in arrays().items():
            assert f[name].dtype == str(x.dtype)
            made = (jnp.asarray(f[name]), jnp.from_dlpack(f[name]), jnp.asarray(f[name].numpy()), loaded[name])
            for y in made:
                assert y.dtype == x.dtype and y.shape == x.shape, name
                assert np.asarray(y).tobytes() == np.ascontiguousarray(x).tobytes(), name


def test_arrays_outlive_the_file(tmp_path):
    path = tmp_path / "a.zt"
    holdall.save(path, {"w": jnp.arange(1024.0)})
    with holdall.open(path) as f:
        made = [jnp.from_dlpack(f["w"]), jnp.asarray(f["w"])]
    path.unlink()
    for x in made:
        assert np.array_equal(x, np.arange(1024.0))
    assert float(jax.jit(lambda x: (x * 2).sum())(made[0])) == 1023 * 1024


def test_what_files_do_not_have(tmp_path):
    with pytest.raises(holdall.UnsupportedError) as e:
        holdall.save(tmp_path / "a.zt", {"w": jnp.ones(4, dtype="int4")})
    assert e.value.code == "python/dtype" and not (tmp_path / "a.zt").exists()
