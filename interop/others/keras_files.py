"""Writes the weights of Keras in several files, and the same in one, that tests read.

    pip install keras torch h5py && KERAS_BACKEND=torch python interop/others/keras_files.py        from the root of the repository
"""

from pathlib import Path

import keras

FOLDER = Path("crates/holdall/tests/keras")
FOLDER.mkdir(parents=True, exist_ok=True)

keras.utils.set_random_seed(3)
model = keras.Sequential([
    keras.layers.Input((8,)),
    keras.layers.Dense(32, name="first"),
    keras.layers.BatchNormalization(name="norm"),
    keras.layers.Dense(16, name="second"),
    keras.layers.Dense(300, name="last"),
])
model.save_weights(FOLDER / "whole.weights.h5")
# So small that groups go on in the file behind the one that the index names.
model.save_weights(FOLDER / "parts.weights.json", max_shard_size=20000 / 1024**3)
