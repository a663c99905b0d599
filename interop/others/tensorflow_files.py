"""Writes the checkpoints of TensorFlow, and the models of LiteRT, that tests read, with TensorFlow itself.

    pip install tensorflow-cpu && python interop/others/tensorflow_files.py        from the root of the repository
"""

from pathlib import Path

import numpy as np
import tensorflow as tf

FOLDER = Path("crates/holdall/tests/tensorflow")
CORPUS = Path("corpus/accept/tflite")
TYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 complex64 complex128 bool".split()

FOLDER.mkdir(parents=True, exist_ok=True)
CORPUS.mkdir(parents=True, exist_ok=True)


def noise(name, shape, seed):
    dtype = tf.as_dtype(name).as_numpy_dtype
    if name == "bool":
        return np.array([True, False] * 3).reshape(shape)
    size = np.dtype(dtype).itemsize
    bits = np.random.default_rng(seed).integers(0, 256, int(np.prod(shape)) * size, dtype=np.uint8)
    return bits.view(dtype).reshape(shape)


def saved(name, arrays):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = [tf.compat.v1.get_variable(n, initializer=tf.constant(a)) for n, a in arrays.items()]
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver(variables, write_version=2)
        saver.save(session, str(FOLDER / name), write_meta_graph=False, write_state=False)
    np.savez(FOLDER / f"{name}.npz", **{n: a for n, a in arrays.items() if a.dtype.name in np.sctypeDict})


saved("tf_types", {f"types/{name}": noise(name, (2, 3), seed) for seed, name in enumerate(TYPES)})

# Variables in slices: a grid of two by one, and of one by three.
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    rows = tf.compat.v1.get_variable(
        "rows", initializer=tf.constant(np.arange(700, dtype=np.float32).reshape(100, 7)),
        partitioner=tf.compat.v1.fixed_size_partitioner(2, axis=0),
    )
    columns = tf.compat.v1.get_variable(
        "columns", initializer=tf.constant(np.arange(18, dtype=np.int16).reshape(2, 9)),
        partitioner=tf.compat.v1.fixed_size_partitioner(3, axis=1),
    )
    session.run(tf.compat.v1.global_variables_initializer())
    saver = tf.compat.v1.train.Saver(write_version=2)
    saver.save(session, str(FOLDER / "tf_sliced"), write_meta_graph=False, write_state=False)

# TensorFlow 2, with its graph of objects.
model = tf.Module()
model.w = tf.Variable(tf.reshape(tf.range(6, dtype=tf.float32), (2, 3)))
tf.train.Checkpoint(model=model, step=tf.Variable(3)).write(str(FOLDER / "tf_objects"))

weights = tf.constant(np.random.default_rng(1).normal(size=(64, 32)).astype(np.float32))


class Dense(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32)])
    def __call__(self, x):
        return tf.nn.relu(tf.matmul(x, weights) + 1.0)


dense = Dense()
concrete = [dense.__call__.get_concrete_function()]
for name, optimise in [("float", []), ("dynamic", [tf.lite.Optimize.DEFAULT])]:
    converter = tf.lite.TFLiteConverter.from_concrete_functions(concrete, dense)
    converter.optimizations = optimise
    (CORPUS / f"tensorflow_{name}.tflite").write_bytes(converter.convert())
