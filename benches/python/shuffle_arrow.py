"""Contestants of `shuffle.py` that read Arrow's columns: Lance, Arrow IPC, Vortex."""

from shuffle_base import BATCH, Contestant, MapStyle, arrow_batches, arrow_tensors, columns_of_dicts, same


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
        options = {"batch_size": BATCH, "shuffle": True, "collate_fn": columns_of_dicts}
        if skip is not None:
            return self.stateful(dataset, workers, skip, **options)
        if workers:
            return data.get_safe_loader(dataset, num_workers=workers, persistent_workers=False, **options)
        return self.loader(dataset, 0, **options)


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


class Arrow(LanceTake):
    """An IPC file of one batch that pyarrow maps (of several, it puts them together for each call), of which `Table.take` has the records of a batch and `Table.slice` those in order; over HTTP
    the file is read into memory by pyarrow's S3 file system first."""

    context = None

    def write(self, path, size, count):
        import pyarrow as pa

        table = pa.Table.from_batches(list(arrow_batches(size, count))).combine_chunks()
        with pa.ipc.new_file(path / "records.arrow", table.schema) as out:
            out.write_table(table)

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
        where = "records.vortex" if at.remote else str(at.path / "records.vortex")
        rows = VortexRows(where, {"url": at.url} if at.remote else {})
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

        if not self.options:
            return vortex.open(self.where, memory_map=True)
        store = vortex.store.HTTPStore(self.options["url"], client_options={"allow_http": True})
        return vortex.open(self.where, store=store)

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
