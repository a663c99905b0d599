"""Writes the files of torch with sparse tensors of every layout, views whose signs are turned, complex numbers of 32 bits and pairs of floats of 4 bits,
and what torch reads of them beside.

    pip install torch numpy && python interop/others/torch_files.py        from the root of the repository
"""

import hashlib
import json
import warnings
from pathlib import Path

import torch

CORPUS = Path("corpus/accept/pytorch")
NAMES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.float4_e2m1fn_x2: "f4_e2m1", torch.complex32: "complex32", torch.complex64: "complex64", torch.complex128: "complex128",
}
warnings.filterwarnings("ignore")


def sha256(path_or_bytes):
    data = path_or_bytes.read_bytes() if isinstance(path_or_bytes, Path) else path_or_bytes
    return hashlib.sha256(data).hexdigest()


def elements(tensor):
    dense = tensor.to_dense() if tensor.layout != torch.strided else tensor
    dense = dense.resolve_conj().resolve_neg().contiguous().reshape(-1)
    return dense.view(torch.uint8).numpy().tobytes()


def saved(name, tensors):
    path = CORPUS / name
    torch.save(tensors, path)
    loaded = torch.load(path, weights_only=True)
    rows = []
    for key, tensor in loaded.items():
        shape = list(tensor.shape)
        if tensor.dtype == torch.float4_e2m1fn_x2:
            shape[-1] *= 2
        row = {"name": key, "dtype": NAMES[tensor.dtype], "shape": shape, "dense_sha256": sha256(elements(tensor))}
        rows.append(row)
    expect = {
        "file": name, "producer": f"torch {torch.__version__.partition('+')[0]}", "container": "pytorch", "verdict": "accept",
        "file_size": path.stat().st_size, "file_sha256": sha256(path), "tensors": rows,
    }
    Path(f"{path}.expect.json").write_text(json.dumps(expect, indent=1))


torch.manual_seed(7)
matrix = torch.randn(4, 6) * (torch.rand(4, 6) < 0.4)
blocks = torch.kron(torch.tensor([[1.0, 0, 2], [0, 3, 0]]), torch.arange(1.0, 7).reshape(2, 3))
# As many entries in each matrix of a batch.
batch = torch.stack([matrix, matrix.flip(0), matrix.flip(1)])
rows = torch.tensor([[1.0, 0, 2], [0, 3, 0]])
arrays = rows.unsqueeze(-1) * torch.arange(1.0, 5)
saved("torch_layouts.pt", {
    "csc": matrix.to_sparse_csc(),
    "bsr": blocks.to_sparse_bsr((2, 3)),
    "bsc": blocks.to_sparse_bsc((2, 3)),
    "csr.batch": batch.to_sparse_csr(),
    "csc.batch": batch.to_sparse_csc(),
    "bsr.batch": torch.stack([blocks, blocks]).reshape(2, 1, 4, 9).to_sparse_bsr((2, 3)),
    "bsc.batch": torch.stack([blocks, -blocks]).to_sparse_bsc((2, 3)),
    "csr.hybrid": arrays.to_sparse_csr(dense_dim=1),
    "csc.hybrid": arrays.double().to_sparse_csc(dense_dim=1),
    "bsr.hybrid": blocks.unsqueeze(-1).mul(torch.arange(1.0, 3)).to_sparse_bsr((2, 3), dense_dim=1),
    "coo.hybrid": arrays.half().to_sparse(1),
    "coo.hybrid2": arrays.to_sparse(2),
    "coo": matrix.to_sparse(),
    "coo.twice": torch.sparse_coo_tensor([[0, 0, 1]], torch.arange(12.0).reshape(3, 4), (2, 4)),
    "coo.empty": torch.sparse_coo_tensor(size=(3, 0, 2)),
    "csc.empty": torch.zeros(3, 2).to_sparse_csc(),
    "coo.int": torch.tensor([[0, 5, 0]]).to_sparse(),
    "csr.complex": matrix.to(torch.complex64).mul(1 + 2j).to_sparse_csr(),
})

plain = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
# Without zeros: of which sign those are, torch tells otherwise each time.
numbers = torch.complex(plain + 1, -plain - 2)
saved("torch_signs.pt", {
    "conj": numbers.conj(),
    "conj.t": numbers.transpose(0, 2).conj(),
    "conj.row": numbers[1].conj(),
    "neg": torch._neg_view(plain),
    "neg.imag": numbers.clone().conj().imag,
    "neg.conj": torch._neg_view(numbers.to(torch.complex128).conj()),
    "neg.half": torch._neg_view(plain.half()),
    "neg.bfloat16": torch._neg_view(plain.bfloat16()),
    "plain": numbers,
    "half": numbers.to(torch.complex32),
    "half.conj": numbers.to(torch.complex32).conj(),
    "one": torch.tensor(2 - 3j).conj(),
    "none": torch.empty(0, dtype=torch.complex64).conj(),
})

# Two in a byte, which torch counts as one element.
pairs = torch.arange(24, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
saved("torch_pairs.pt", {"one": pairs, "square": pairs.reshape(2, 3, 4), "row": pairs.reshape(4, 6)[1], "none": pairs[:0]})
