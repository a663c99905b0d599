"""Conversion between NumPy arrays and arrays of frameworks other than torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["FRAMEWORKS", "of_array", "arrays"]

#: The names of frameworks, by all their aliases.
FRAMEWORKS = {
    "np": "numpy",
    "numpy": "numpy",
    "pt": "torch",
    "torch": "torch",
    "pytorch": "torch",
    "tf": "tensorflow",
    "tensorflow": "tensorflow",
    "jax": "flax",
    "flax": "flax",
    "mlx": "mlx",
    "paddle": "paddle",
}


def of_array(a: Any, framework: str, device: Any = "cpu") -> Any:
    """Converts a NumPy array that has no other users to an array of a framework."""
    if framework == "numpy":
        return a
    if framework == "flax":
        import jax.numpy

        return jax.numpy.array(a)
    if framework == "tensorflow":
        import tensorflow

        return tensorflow.convert_to_tensor(a)
    if framework == "mlx":
        import mlx.core

        if a.dtype.name == "bfloat16":  # mlx has the type, and no way for it to come from NumPy.
            return mlx.core.array(a.view("uint16")).view(mlx.core.bfloat16)
        return mlx.core.array(a)
    import paddle

    place = str(device).replace("cuda", "gpu")
    name = a.dtype.name
    if name == "bfloat16" or name.startswith("float8"):
        raw = paddle.to_tensor(a.reshape(-1).view("uint8"), place=place)
        return raw.view(getattr(paddle, name)).reshape(a.shape)
    return paddle.to_tensor(a, place=place)


def arrays(tensors: Mapping[str, Any], framework: str) -> dict[str, Any]:
    """Converts arrays of a framework for writing."""
    return {name: _array(x, framework) for name, x in tensors.items()}


def _array(x: Any, framework: str) -> Any:
    import numpy as np

    if framework == "mlx" and str(x.dtype) == "mlx.core.bfloat16":
        import ml_dtypes
        import mlx.core

        return np.asarray(x.view(mlx.core.uint16)).view(ml_dtypes.bfloat16)
    if framework == "tensorflow":
        return np.asarray(x.numpy())
    return np.asarray(x)
