"""Contestants of `shuffle.py` that are loaders themselves: LitData, MosaicML Streaming, Hugging Face's datasets; and Holdall."""

import gc
import itertools
import os

from shuffle_base import BATCH, SEED, Contestant, arrow_batches, pieces, width


class Holdall(Contestant):
    """`holdall.torch.IterableDataset` and `holdall.torch.DataLoader`, whose workers are threads; over HTTP with a folder for
    blocks of the file (`cache=`). It goes on after `skip`."""

    def write(self, path, size, count):
        import holdall
        import numpy as np

        # One array, since a structured array is written as records without a loop over them.
        all = np.empty(count, [("x", "<f4", (width(size),)), ("label", "<i8")])
        start = 0
        for x, label in pieces(size, count):
            part = all[start : start + len(label)]
            part["x"], part["label"] = x, label
            start += len(label)
        holdall.save(path / "records.zt", {"samples": all}, format="ztensor")

    def batches(self, at, shuffle, workers, skip=0):
        import holdall.torch

        if at.remote:
            source = holdall.open(f"{at.url}/records.zt", cache=at.cache, allow=["http", "private-hosts"])
        else:
            source = str(at.path / "records.zt")
        data = holdall.torch.IterableDataset(source, batch=BATCH, shuffle=SEED if shuffle else None)
        if skip:
            data.skip(skip)
        return self.ahead(data, workers)

    def ahead(self, data, workers):
        import holdall.torch

        return holdall.torch.DataLoader(data, num_workers=workers)


class HoldallProcesses(Holdall):
    """The same dataset in torch's `DataLoader`, whose workers are processes."""

    def write(self, path, size, count):
        pass

    def ahead(self, data, workers):
        return self.loader(data, workers, batch_size=None)


class Floor(Contestant):
    """The least that torch's `DataLoader` takes: a dataset that has no records to read, and yields the same tensors again
    and again."""

    def write(self, path, size, count):
        (path / "size").write_text(str(size))

    def batches(self, at, shuffle, workers, skip=0):
        import torch

        size = int((at.path / "size").read_text())
        label = torch.arange(BATCH)
        x = torch.zeros(BATCH, width(size))
        x[:, 0] = label

        class Same(torch.utils.data.IterableDataset):
            def __iter__(self):
                while True:
                    yield {"x": x, "label": label}

        return self.loader(Same(), workers, batch_size=None)


class LitData(Contestant):
    """`StreamingDataset(shuffle=True)` and `StreamingDataLoader`: chunks of 64 MB are shuffled, and records within one. States are
    those of the loader."""

    def write(self, path, size, count):
        from litdata.streaming import Cache

        # What `optimize` uses in each of its processes.
        cache = Cache(str(path / "chunks"), chunk_bytes="64MB")
        number = 0
        for x, label in pieces(size, count):
            for row, one in zip(x, label.tolist()):
                cache[number] = {"x": row.copy(), "label": one}
                number += 1
        cache.done()
        cache.merge()

    def batches(self, at, shuffle, workers, skip=0):
        from litdata import StreamingDataLoader, StreamingDataset
        from litdata.streaming import downloader

        def make():
            if at.remote:
                options = {"endpoint_url": at.endpoint, "region_name": "us-east-1"}
                options |= {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
                # Its other client takes addresses without TLS only if this is set.
                downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
                data = StreamingDataset(
                    f"s3://bucket/{at.key}/chunks", at.cache, shuffle=shuffle, seed=SEED, storage_options=options
                )
            else:
                data = StreamingDataset(str(at.path / "chunks"), shuffle=shuffle, seed=SEED)
            return StreamingDataLoader(data, batch_size=BATCH, num_workers=workers)

        loader = make()
        if skip:
            for _ in itertools.islice(loader, skip):
                state = loader.state_dict()
            loader = make()
            loader.load_state_dict(state)
        return loader


class Mds(Contestant):
    """`StreamingDataset(shuffle=True, batch_size=…)` with its usual algorithm (`py1e`: blocks of shards are shuffled, and records
    among neighbours) and `StreamingDataLoader`, which has the state."""

    def write(self, path, size, count):
        from streaming import MDSWriter

        columns = {"x": f"ndarray:float32:{width(size)}", "label": "int"}
        with MDSWriter(out=str(path / "shards"), columns=columns) as out:
            for x, label in pieces(size, count):
                for row, one in zip(x, label.tolist()):
                    out.write({"x": row, "label": one})

    def batches(self, at, shuffle, workers, skip=0):
        from streaming import StreamingDataLoader, StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        def make():
            clean_stale_shared_memory()
            options = {"local": str(at.path / "shards")}
            if at.remote:
                os.environ |= {"S3_ENDPOINT_URL": at.endpoint, "AWS_DEFAULT_REGION": "us-east-1"}
                os.environ |= {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
                options = {"local": at.cache, "remote": f"s3://bucket/{at.key}/shards"}
            data = StreamingDataset(**options, shuffle=shuffle, shuffle_seed=SEED, batch_size=BATCH)
            return StreamingDataLoader(data, batch_size=BATCH, num_workers=workers)

        loader = make()
        if skip:
            for _ in itertools.islice(loader, skip):
                pass
            state = loader.state_dict()
            del loader
            gc.collect()
            loader = make()
            loader.load_state_dict(state)
        return loader


class Datasets(Contestant):
    """`load_from_disk(…).with_format("torch")`, whose batches are read by lists of numbers from a `BatchSampler` with
    `batch_size=None`, as its page about PyTorch says for speed; over HTTP `load_dataset(streaming=True)`, a stream of batches that
    are shuffled in a buffer, as its page about streaming has it."""

    def write(self, path, size, count):
        import datasets
        import pyarrow as pa

        table = pa.Table.from_batches(list(arrow_batches(size, count)))
        datasets.Dataset(table).save_to_disk(str(path / "dataset"))

    def batches(self, at, shuffle, workers, skip=0):
        import datasets
        from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

        if at.remote:
            files = [f"{at.url}/dataset/{p.name}" for p in sorted((at.path / "dataset").glob("*.arrow"))]
            data = datasets.load_dataset("arrow", data_files=files, streaming=True, split="train", cache_dir=at.cache)
            if shuffle:
                data = data.shuffle(seed=SEED, buffer_size=10_000)
            return self.loader(data.with_format("torch"), workers, batch_size=BATCH)
        data = datasets.load_from_disk(str(at.path / "dataset")).with_format("torch")
        if skip is not None:
            return self.stateful(data, workers, skip, batch_size=BATCH, shuffle=True)
        sampler = BatchSampler((RandomSampler if shuffle else SequentialSampler)(data), BATCH, drop_last=False)
        return self.loader(data, workers, sampler=sampler, batch_size=None)
