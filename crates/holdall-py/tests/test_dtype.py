"""Element types that equal NumPy's and torch's, and tensors of one element as numbers."""

import json
import pickle

import numpy as np
import pytest

import holdall


def test_a_type_equals_those_of_numpy(zt):
    with holdall.open(zt) as f:
        dtype = f["w"].dtype
        assert isinstance(dtype, holdall.DType) and isinstance(dtype, str) and repr(dtype) == "'float32'"
        same = ("float32", np.float32, np.dtype("f4"), np.dtype("<f4"), f["w"].numpy().dtype, f["w"].dtype)
        for other in same:
            assert dtype == other and other == dtype and not dtype != other and not other != dtype, other
        for other in ("float64", np.float64, np.dtype(">f4"), np.int32, float, object, None, 4, holdall, list):
            assert dtype != other and not dtype == other and other != dtype, other
        assert f["ids"].dtype == np.int64 and f["mask"].dtype == np.bool_ and f["mask"].dtype == bool
        assert f["c"].dtype == np.complex64 and f["half"].dtype in (np.float16, np.float32)
        # It is found by its name, in sets and dicts.
        assert hash(dtype) == hash("float32") and {"float32": 1}[dtype] == 1 and {dtype: 1}["float32"] == 1
        assert json.dumps({"dtype": dtype}) == '{"dtype": "float32"}' and f"{dtype}" == "float32"
        again = pickle.loads(pickle.dumps(dtype))
        assert type(again) is holdall.DType and again == np.float32
        c = f["w"].components["data"]
        assert c.dtype == np.float32 and c.storage == np.float32


def test_types_that_numpy_lacks(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ("bfloat16", "float8_e4m3fn", "float4_e2m1fn"):
        dtype = holdall.DType(name)
        assert dtype == getattr(ml_dtypes, name) and dtype == np.dtype(getattr(ml_dtypes, name)) and dtype != np.float32
    assert holdall.DType("none") != np.float32 and holdall.DType("q7_x") != np.dtype("f4")


def test_types_of_torch():
    torch = pytest.importorskip("torch")
    assert holdall.DType("bfloat16") == torch.bfloat16 and torch.float32 == holdall.DType("float32")
    assert holdall.DType("float32") != torch.float64


def test_one_element_is_a_number(tmp_path):
    holdall.save(tmp_path / "a.zt", {"s": np.array(3, np.int8), "zero": np.zeros((1, 1)), "half": np.array([2.5]), "many": np.arange(3)})
    with holdall.open(tmp_path / "a.zt") as f:
        assert bool(f["s"]) and not f["zero"] and float(f["half"]) == 2.5 and int(f["half"]) == 2 and int(f["s"]) == 3
        assert np.array(f["many"], dtype=np.float32).tolist() == [0, 1, 2] and complex(f["half"]) == 2.5
        for call in (bool, float, int):
            with pytest.raises((ValueError, TypeError)) as e:
                call(f["many"])
            assert "[3]" in str(e.value)
        with pytest.raises(ValueError, match="is not None"):
            if f["many"]:
                pass
