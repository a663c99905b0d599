"""The pages about Python: their snippets run, one after the other, page by page."""

import re
import shutil

import numpy as np
import pytest
from conftest import ROOT

PAGES = ["README.md", "docs/python.md", "docs/python-migration.md", "crates/holdall-py/README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_snippets_run(page, tmp_path, monkeypatch):
    import holdall

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    holdall.save(
        "model.safetensors",
        {"embed.weight": rng.standard_normal((100, 16), dtype=np.float32), "head.bias": np.zeros(4, np.float32)},
        attributes={"format": "pt"},
    )
    shutil.copytree(ROOT / "corpus/recipes/llama3-bpe", "tiny-llama")
    text = (ROOT / page).read_text()
    snippets = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert snippets
    names = {}
    for snippet in snippets:
        for extra in ("torch", "jax", "scipy", "tqdm", "ml_dtypes", "safetensors", "pyarrow", "daft", "jsonschema"):
            if re.search(rf"\b(import {extra}|from {extra}|holdall\.{extra}|needs {extra})\b", snippet):
                try:
                    __import__(extra)
                except ImportError:
                    break
        else:
            exec(compile(snippet, f"{page}: {snippet.splitlines()[0]}", "exec"), names)
