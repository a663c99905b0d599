"""Writes the checkpoint in `ranks`, with torch 2.15: four processes, over gloo on loopback. The argument is the folder."""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def run(rank, world, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533")
    dist.init_process_group("gloo", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    full = torch.arange(35, dtype=torch.float32).reshape(5, 7)
    few = torch.tensor([1, 2, 3], dtype=torch.int64)
    state = {
        "rows": distribute_tensor(full, mesh, [Shard(0), Replicate()]),
        "cols": distribute_tensor(full.to(torch.bfloat16), mesh, [Replicate(), Shard(1)]),
        "both": distribute_tensor(full.to(torch.float64), mesh, [Shard(0), Shard(1)]),
        "few": distribute_tensor(few, mesh, [Shard(0), Shard(0)]),
        "same": distribute_tensor(full, mesh, [Replicate(), Replicate()]),
        "plain": full.to(torch.float16),
        "tp": distribute_tensor(full.t().contiguous(), mesh["b"], [Shard(0)]),
        "none": torch.zeros(0, 4),
        "one": torch.tensor(2.5),
        "step": 12,
        "opt": {"lr": 0.5, "names": ["x", "y"]},
    }
    dcp.save(state, checkpoint_id=out)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, args=(4, sys.argv[1]), nprocs=4)
