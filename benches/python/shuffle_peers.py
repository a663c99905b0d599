"""The contestants of `shuffle.py`: each a process that keeps its imports, and runs what it is told line by line.

    python3 shuffle_peers.py CONTESTANT

A line is JSON, as `answer` takes it; so is each answer. Every contestant has records of `x`, so many float32, and `label`, the
record's number, which is also the first element of `x`. Which calls it uses, and why those, is said in its class.
"""

import contextlib
import gc
import itertools
import json
import os
import pathlib
import shutil
import sys
import time

BATCH = 256
SEED = 7
#: Records that are made at a time.
PIECE = 16384


def width(size):
    """The number of float32 of a record of so many bytes."""
    return (size - 8) // 4


def pieces(size, count):
    """Yields `x` and `label` of all records: numbers that no codec makes much smaller."""
    import numpy as np

    for start in range(0, count, PIECE):
        n = min(PIECE, count - start)
        x = np.random.default_rng(start).random((n, width(size)), np.float32)
        label = np.arange(start, start + n, dtype=np.int64)
        x[:, 0] = label
        yield x, label


def arrow_batches(size, count):
    import pyarrow as pa

    for x, label in pieces(size, count):
        column = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), x.shape[1])
        yield pa.record_batch({"x": column, "label": pa.array(label)})


def arrow_tensors(table):
    """An Arrow table or batch as tensors, with one copy of each column at most."""
    import torch

    def tensor(column):
        if hasattr(column, "combine_chunks"):
            column = column.combine_chunks()
        wide = column.type.list_size if hasattr(column.type, "list_size") else 0
        numbers = column.flatten() if wide else column
        array = numbers.to_numpy(zero_copy_only=False)
        array = array if array.flags.writeable else array.copy()
        return torch.from_numpy(array).reshape(-1, wide) if wide else torch.from_numpy(array)

    return {name: tensor(table.column(name)) for name in ("x", "label")}


class MapStyle:
    """A map-style dataset of whose records those of a batch are read together: `__getitems__`, which torch calls if there is one.
    What is open is opened in each worker."""

    def __init__(self, where, options=None):
        self.where, self.options, self.open = where, options or {}, None

    def __getstate__(self):
        return {**self.__dict__, "open": None}

    def opened(self):
        if self.open is None:
            self.open = self.make()
        return self.open

    def __getitems__(self, numbers):
        return self.read(self.opened(), numbers)


def same(batch):
    return batch


class Contestant:
    #: What `workers` other than 0 start with.
    context = None

    def write(self, path, size, count):
        raise NotImplementedError

    def batches(self, at, shuffle, workers, skip=0):
        """Yields batches as dicts of tensors; from number `skip` on, if the contestant can go on there, as its documentation says."""
        raise NotImplementedError

    def close(self):
        pass

    def resumed(self, at, workers, batches, more):
        """The labels of batches `batches` to `batches + more`, read by a loader that is made anew from a saved state."""
        return labels(itertools.islice(self.batches(at, True, workers, batches), more))

    def loader(self, dataset, workers, **options):
        from torch.utils.data import DataLoader

        if workers and self.context:
            options["multiprocessing_context"] = self.context
        return DataLoader(dataset, num_workers=workers, **options)

    def stateful(self, dataset, workers, skip, **options):
        """torchdata's loader, which saves and loads states of torch's own sampler: for datasets that have no state. Both halves
        of the check of `resumed` are read by it, since its order is its own."""
        import torch
        from torchdata.stateful_dataloader import StatefulDataLoader

        if workers and self.context:
            options["multiprocessing_context"] = self.context

        def make():
            generator = torch.Generator()
            generator.manual_seed(SEED)
            return StatefulDataLoader(dataset, num_workers=workers, generator=generator, **options)

        loader = make()
        if skip:
            before = iter(loader)
            for _ in itertools.islice(before, skip):
                pass
            state = loader.state_dict()
            del before
            loader = make()
            loader.load_state_dict(state)
        return loader


class Holdall(Contestant):
    """`holdall.torch.IterableDataset`, for a `DataLoader` without automatic batches; over HTTP with a folder for blocks of the
    file (`cache=`). It goes on after `skip`."""

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
        return self.loader(data, workers, batch_size=None)


class Lance(Contestant):
    """As its guide for training has it: `SafeLanceDataset` and `get_safe_loader`, which starts workers by spawn; records in order
    by `LanceDataset`, whose batches are tensors."""

    context = "spawn"

    def write(self, path, size, count):
        import lance

        first = next(arrow_batches(size, 1))
        lance.write_dataset(arrow_batches(size, count), path / "records.lance", schema=first.schema)

    def where(self, at):
        if not at.remote:
            return str(at.path / "records.lance"), {}
        options = {"aws_endpoint": at.endpoint, "allow_http": "true", "aws_region": "us-east-1"}
        options |= {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        return f"s3://bucket/{at.key}/records.lance", {"storage_options": options}

    def batches(self, at, shuffle, workers, skip=0):
        import lance
        import lance.torch.data as data

        where, options = self.where(at)
        if not shuffle:
            dataset = data.LanceDataset(lance.dataset(where, **options), batch_size=BATCH, batch_readahead=8)
            return self.loader(dataset, workers, batch_size=None)
        dataset = data.SafeLanceDataset(where, dataset_options=options)
        if skip is not None:
            return self.stateful(dataset, workers, skip, batch_size=BATCH, shuffle=True)
        if workers:
            return data.get_safe_loader(dataset, BATCH, workers, shuffle=True, persistent_workers=False)
        return self.loader(dataset, 0, batch_size=BATCH, shuffle=True)


class LanceTake(Lance):
    """`dataset.take`, whose Arrow table becomes tensors without Python objects: faster than what the guide has."""

    def write(self, path, size, count):
        pass

    def batches(self, at, shuffle, workers, skip=0):
        if not shuffle:
            return super().batches(at, shuffle, workers, skip)
        return self.mapped(LanceRows(*self.where(at)), workers, skip)

    def mapped(self, dataset, workers, skip):
        options = {"batch_size": BATCH, "shuffle": True, "collate_fn": same}
        if skip is not None:
            return self.stateful(dataset, workers, skip, **options)
        return self.loader(dataset, workers, **options)


class LanceRows(MapStyle):
    def make(self):
        import lance

        return lance.dataset(self.where, **self.options)

    def __len__(self):
        return self.opened().count_rows()

    def read(self, dataset, numbers):
        return arrow_tensors(dataset.take(numbers))


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

        def make():
            if at.remote:
                options = {"endpoint_url": at.endpoint, "region_name": "us-east-1"}
                options |= {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
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


class Arrow(LanceTake):
    """An IPC file that pyarrow maps, of which `Table.take` has the records of a batch and `Table.slice` those in order; over HTTP
    the file is read into memory by pyarrow's S3 file system first."""

    context = None

    def write(self, path, size, count):
        import pyarrow as pa

        first = next(arrow_batches(size, 1))
        with pa.ipc.new_file(path / "records.arrow", first.schema) as out:
            for batch in arrow_batches(size, count):
                out.write(batch)

    def batches(self, at, shuffle, workers, skip=0):
        where = f"bucket/{at.key}/records.arrow" if at.remote else str(at.path / "records.arrow")
        rows = ArrowRows(where, {"endpoint": at.endpoint} if at.remote else {})
        if shuffle:
            return self.mapped(rows, workers, skip)
        rows.is_run = True
        return self.loader(rows, workers, batch_size=BATCH, collate_fn=same)


class ArrowRows(MapStyle):
    is_run = False

    def make(self):
        import pyarrow as pa

        if not self.options:
            return pa.ipc.open_file(pa.memory_map(self.where)).read_all()
        from pyarrow import fs

        endpoint = self.options["endpoint"].removeprefix("http://")
        store = fs.S3FileSystem(
            access_key="any", secret_key="any", region="us-east-1", endpoint_override=endpoint, scheme="http"
        )
        return pa.ipc.open_file(store.open_input_file(self.where)).read_all()

    def __len__(self):
        return self.opened().num_rows

    def read(self, table, numbers):
        if self.is_run:
            return arrow_tensors(table.slice(numbers[0], len(numbers)))
        return arrow_tensors(table.take(numbers))


class Vortex(LanceTake):
    """`VortexFile.to_arrow(indices=…)`, which takes sorted numbers, so the batch is put into its order afterwards; a mapped file
    (`memory_map=True`), or an address that its own store reads. Workers are spawned, as its threads do not survive a fork."""

    context = "spawn"

    def write(self, path, size, count):
        import pyarrow as pa
        import vortex

        table = pa.Table.from_batches(list(arrow_batches(size, count)))
        vortex.io.write(table, str(path / "records.vortex"))

    def batches(self, at, shuffle, workers, skip=0):
        where = f"{at.url}/records.vortex" if at.remote else str(at.path / "records.vortex")
        rows = VortexRows(where, {} if at.remote else {"memory_map": True})
        if shuffle:
            return self.mapped(rows, workers, skip)
        if workers:
            rows.is_run = True
            return self.loader(rows, workers, batch_size=BATCH, collate_fn=same)
        return map(arrow_tensors, rows.make().to_arrow(batch_size=BATCH))


class VortexRows(MapStyle):
    is_run = False

    def make(self):
        import vortex

        return vortex.open(self.where, **self.options)

    def __len__(self):
        return len(self.opened())

    def read(self, file, numbers):
        import numpy as np
        import pyarrow as pa
        import vortex

        if self.is_run:
            scan = file.to_repeated_scan()
            run = scan.execute(row_range=(numbers[0], numbers[-1] + 1)).read_all().to_arrow_table()
            return arrow_tensors(run)
        numbers = np.asarray(numbers, np.uint64)
        order = np.argsort(numbers)
        found = file.to_arrow(indices=vortex.array(pa.array(numbers[order]))).read_all()
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return {name: tensor[back] for name, tensor in arrow_tensors(found).items()}


CONTESTANTS = {
    "holdall": Holdall,
    "lance": Lance,
    "lance, take": LanceTake,
    "litdata": LitData,
    "mds": Mds,
    "datasets": Datasets,
    "arrow": Arrow,
    "vortex": Vortex,
}
#: The packages of which versions are shown, and the folder of whose files a contestant reads.
PACKAGES = {
    "holdall": "holdall",
    "lance": "pylance",
    "litdata": "litdata",
    "mds": "mosaicml-streaming",
    "datasets": "datasets",
    "arrow": "pyarrow",
    "vortex": "vortex-data",
}


class Place:
    """Where a dataset is: a folder, and the same at addresses if it is read over HTTP."""

    def __init__(self, path, cache, endpoint, key):
        self.path, self.cache, self.endpoint, self.key = pathlib.Path(path), cache, endpoint, key
        self.remote = endpoint is not None
        self.url = f"{endpoint}/-/files/{key}"


def labels(batches):
    return [number for batch in batches for number in batch["label"].tolist()]


def timed(contestant, at, setting, workers, most, cap, size):
    """Seconds from opening to the last of the batches, and to the first; how many there were."""
    import torch

    start = time.perf_counter()
    # `None`: without a loader that keeps states.
    loader = contestant.batches(at, setting != "epoch", workers, None)
    done = first = at_first = rows = 0
    for batch in loader:
        x, label = batch["x"], batch["label"]
        rows += len(label)
        done += 1
        now = time.perf_counter()
        if done == 1:
            at_first, first = now, (x, label)
        if done == most or now - at_first > cap:
            break
    seconds = time.perf_counter() - start
    for x, label in (first, (x, label)):
        x, label = torch.as_tensor(x), torch.as_tensor(label)
        assert x.shape == (len(label), width(size)) and x.dtype == torch.float32, (x.shape, x.dtype)
        assert torch.equal(x[:, 0].long(), label), "an x of another record"
    return {"seconds": seconds, "first": at_first - start, "batches": done, "rows": rows}


def check_resume(contestant, at, workers, batches=6, more=4):
    """Whether a loader that goes on after some batches has the order of one that was not interrupted."""
    whole = labels(itertools.islice(contestant.batches(at, True, workers), batches + more))
    gc.collect()
    return contestant.resumed(at, workers, batches, more) == whole[batches * BATCH :]


def answer(contestant, do, path, size, count=0, setting="", workers=0, most=0, cap=0.0, cache=None, endpoint=None, key=""):
    if do == "write":
        contestant.write(pathlib.Path(path), size, count)
        return {}
    if cache:
        shutil.rmtree(cache, ignore_errors=True)
        os.makedirs(cache)
    at = Place(path, cache, endpoint, key)
    try:
        if do == "resume":
            return {"resumes": check_resume(contestant, at, workers)}
        return timed(contestant, at, setting, workers, most, cap, size)
    finally:
        gc.collect()
        if cache:
            shutil.rmtree(cache, ignore_errors=True)


def main(name):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    contestant = CONTESTANTS[name]()
    for line in sys.stdin:
        try:
            with contextlib.redirect_stdout(sys.stderr):
                found = answer(contestant, **json.loads(line))
        except Exception as e:
            import traceback

            traceback.print_exc()
            found = {"failed": f"{type(e).__name__}: {e}"[:300]}
        print(json.dumps(found), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
