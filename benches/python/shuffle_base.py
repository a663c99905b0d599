"""What the contestants of `shuffle.py` share: the records, and how torch's loaders are made."""

import itertools

BATCH = 256
SEED = 7
#: Records that are made at a time.
PIECE = 16384


def width(size):
    """The number of float32 values in a record of this many bytes."""
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


def labels(batches):
    return [number for batch in batches for number in batch["label"].tolist()]


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


def columns_of_dicts(records):
    import torch

    return {name: torch.tensor([record[name] for record in records]) for name in ("x", "label")}


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
