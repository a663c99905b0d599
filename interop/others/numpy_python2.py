# -*- coding: utf-8 -*-
"""Writes a pickle of NumPy's arrays as Python 2 does by default: of protocol 0.

    pip install numpy==1.16.6 && python2.7 interop/others/numpy_python2.py    from the root of the repository

`numpy_files.py` says beside it what is in it.
"""

import collections
import pickle

import numpy as np

values = collections.OrderedDict([
    ("w", np.arange(6, dtype="<f4").reshape(2, 3)),
    (u"gr\xf6\xdfe", np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3))),
    ("odd", np.array([np.nan, -0.0, 1e-300])),
    ("raw", np.array(["ab", "it's \"c\"\n\\"])),
    ("nested", {"list": [1, np.arange(3)], "none": None, "yes": True, "long": 5 << 200, "real": -2.5}),
    ("text", "it's \"x\"\n\\"),
    ("bytes", "\xff\x00"),
    ("name", u"a\nb\\u0041\u4e2d\U0001f600"),
    ("scalar", np.float32(1.5)),
    ("set", set([1])),
])
with open("corpus/accept/pytorch/numpy_python2-p0.pkl", "wb") as file:
    pickle.dump(values, file)
