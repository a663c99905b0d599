"""Contestants of the cases about records: a million trades (numbers, times, an enum, a text of a few letters), a million
samples of 16 float32 and a label, and a table of a million rows and ten columns. See `cases.py`.

    cargo xtask python --release
    python3 benches/python/tables.py [--rounds N] [--dir DIR] [--only CASE,…] [--write FILE]

measures only the cases of the table, round after round and side by side, each in a process of its own, prints them, and
replaces the part of the page about them.
"""

import pathlib

import numpy as np

COUNT = 1_000_000
SIDES = ["buy", "sell"]
#: Batches of `BATCH` records in random order.
BATCHES, BATCH = 400, 256


def trades():
    rng = np.random.default_rng(3)
    return {
        "id": np.arange(COUNT, dtype=np.uint64),
        "at": np.datetime64("2026-01-01", "ns") + rng.integers(0, 10**15, COUNT).astype("m8[ns]"),
        "price": rng.random(COUNT),
        "count": rng.integers(0, 1000, COUNT).astype(np.int32),
        "is_open": rng.random(COUNT) < 0.5,
        "side": rng.integers(0, 2, COUNT).astype(np.uint8),
        "name": [f"name{n}" for n in rng.integers(0, 50_000, COUNT).tolist()],
    }


def samples():
    rng = np.random.default_rng(4)
    out = np.zeros(COUNT, [("x", "<f4", 16), ("label", "<i4")])
    out["x"], out["label"] = rng.random((COUNT, 16), np.float32), rng.integers(0, 10, COUNT)
    return out


def table():
    import pyarrow as pa

    rng = np.random.default_rng(5)
    sides = ["alpha", "beta", "gamma", "delta"]
    return pa.table(
        {
            "id": np.arange(COUNT, dtype=np.int64),
            "count": rng.integers(0, 1000, COUNT).astype(np.int32),
            "price": rng.random(COUNT),
            "score": rng.random(COUNT).astype(np.float32),
            "is_open": rng.random(COUNT) < 0.5,
            "name": [f"name{n:08}" for n in rng.integers(0, 10**8, COUNT).tolist()],
            "city": ["city-" + "abcdefghijklmno"[: 3 + n] for n in rng.integers(0, 13, COUNT).tolist()],
            "side": [sides[n] for n in rng.integers(0, 4, COUNT).tolist()],
            "at": (np.datetime64("2026-01-01", "us") + rng.integers(0, 10**12, COUNT).astype("m8[us]")).astype("M8[ns]"),
            "level": rng.integers(-1000, 1000, COUNT).astype(np.int16),
        }
    )


class Table:
    """A package, and how its users do each thing with records."""

    suffix = ""
    makes = ("trades",)

    def __init__(self, folder):
        self.folder = folder

    def path(self, what):
        return str(self.folder / f"{what}{self.suffix}")

    def make(self):
        for what in self.makes:
            path = pathlib.Path(self.path(what))
            if not path.exists():
                part = path.with_name("part-" + path.name)
                self.write_all(what, str(part))
                part.rename(path)

    def write_all(self, what, path):
        getattr(self, f"write_{what}")(path)

    def pandas(self, what):
        return lambda: self.to_pandas(self.path(what))

    def polars(self, what):
        return lambda: self.to_polars(self.path(what))

    def parquet(self, what):
        out = str(self.folder / f"saved{self.suffix}.parquet")
        return lambda: self.to_parquet(self.path(what), out)


    def given(self, what):
        """The table in memory, as pyarrow has it."""
        return PyArrow(self.folder).copied(PyArrow(self.folder).path(what))

    def rows(self, what):
        rows = self.given(what).to_pylist()
        for row in rows:
            # pyarrow's times of nanoseconds are those of pandas.
            row["at"] = row["at"].to_pydatetime()
        out = str(self.folder / f"built{self.suffix}")
        return lambda: self.write_rows(rows, out)

    def build(self, what):
        table = self.given(what)
        out = str(self.folder / f"built{self.suffix}")
        return lambda: self.write_table(table, out)

    def arrow(self, what):
        return lambda: self.copied(self.path(what))

    def column(self, what):
        return lambda: self.sum_of(self.path(what), "price")

    def text(self, what):
        return lambda: self.text_len(self.path(what), "name")

    def group(self, what):
        return lambda: self.counts(self.path(what), "side")

    def sort(self, what):
        return lambda: self.order(self.path(what), "price")


class Holdall(Table):
    suffix = ".records.zt"
    makes = ("trades", "samples", "table")

    def write_all(self, what, path):
        if what == "table":
            return self.write_table(self.given(what), path)
        return super().write_all(what, path)

    def records(self, file):
        """The only dataset of a file."""
        return file[next(iter(file))].records()

    def write_rows(self, rows, out):
        import holdall

        holdall.build(out, rows, sync=False, overwrite=True)

    def write_trades(self, path):
        import holdall

        kinds = ["Uint64", "Timestamp", "Float64", "Int32", "Boolean", "Enum", "String"]
        columns = trades()
        columns["side"] = [SIDES[at] for at in columns["side"]]
        properties = {name: {f"TypeDef:{kind}": True} for name, kind in zip(columns, kinds)}
        properties["side"]["enum"] = SIDES
        kind = {"TypeDef:Struct": list(columns), "required": list(columns), "properties": properties}
        holdall.save(path, {"trades": holdall.Dataset(columns, kind)}, format="ztensor")

    def write_samples(self, path):
        import holdall

        holdall.save(path, {"samples": samples()}, format="ztensor")

    def to_pandas(self, path):
        import holdall

        with holdall.open(path) as f:
            return self.records(f).to_pandas()

    def write_table(self, table, out):
        import holdall

        holdall.build(out, table, sync=False, overwrite=True)

    def copied(self, path):
        import holdall
        import pyarrow as pa

        with holdall.open(path) as f:
            return pa.table(self.records(f))

    def sum_of(self, path, name):
        import holdall

        with holdall.open(path) as f:
            return self.records(f).column(name).sum()

    def text_len(self, path, name):
        import holdall
        import pyarrow as pa
        import pyarrow.compute as pc

        with holdall.open(path) as f:
            return pc.sum(pc.binary_length(pa.table(self.records(f).arrow(name))[name]))

    def counts(self, path, name):
        import holdall

        with holdall.open(path) as f:
            return self.records(f).groups(name)

    def order(self, path, name):
        import holdall

        with holdall.open(path) as f:
            return self.records(f).sort(name)

    def to_polars(self, path):
        import holdall

        with holdall.open(path) as f:
            return self.records(f).to_polars()

    def to_parquet(self, path, out):
        import holdall

        with holdall.open(path) as f:
            self.records(f).arrow().to_parquet(out, overwrite=True)


class HoldallColumns(Table):
    """The same table with a tensor for each column, and a blob for the texts: for columns that are read alone."""

    suffix = ".columns.zt"
    makes = ("table",)

    def write_table(self, table, path):
        import holdall

        columns = {}
        for name in table.column_names:
            is_text = str(table[name].type) == "string"
            columns[name] = holdall.Runs(table[name].to_pylist(), "utf-8") if is_text else table[name].to_numpy()
        holdall.save(path, columns, format="ztensor")

    def write_all(self, what, path):
        self.write_table(self.given(what), path)

    def sum_of(self, path, name):
        import holdall

        with holdall.open(path) as f:
            return f[name].numpy().sum()

    def text_len(self, path, name):
        import holdall
        import pyarrow as pa
        import pyarrow.compute as pc

        with holdall.open(path) as f:
            return pc.sum(pc.binary_length(pa.table(f[name].blob())[name]))


class PyArrow(Table):
    """The same table in an Arrow IPC file, which is mapped."""

    suffix = ".arrow"
    makes = ("trades", "table")

    def write_all(self, what, path):
        if what == "table":
            return self.write_ipc(table(), path)
        return super().write_all(what, path)

    def write_trades(self, path):
        import pyarrow as pa

        columns = trades()
        columns["side"] = pa.DictionaryArray.from_arrays(columns["side"], SIDES)
        self.write_ipc(pa.table(columns), path)

    def write_ipc(self, table, path):
        import pyarrow as pa

        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table, max_chunksize=1 << 16)

    def write_rows(self, rows, out):
        import pyarrow as pa

        self.write_table(pa.Table.from_pylist(rows), out)

    def table(self, path):
        import pyarrow as pa

        return pa.ipc.open_file(pa.memory_map(path)).read_all()

    def write_table(self, table, out):
        """As Parquet, without compression."""
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, out, compression="none")

    def copied(self, path):
        """Read into memory, not mapped."""
        import pyarrow as pa

        return pa.ipc.open_file(pa.py_buffer(pathlib.Path(path).read_bytes())).read_all()

    def sum_of(self, path, name):
        import pyarrow.compute as pc

        return pc.sum(self.table(path)[name])

    def text_len(self, path, name):
        import pyarrow.compute as pc

        return pc.sum(pc.binary_length(self.table(path)[name]))

    def counts(self, path, name):
        return self.table(path).group_by(name).aggregate([([], "count_all")])

    def order(self, path, name):
        import pyarrow.compute as pc

        return pc.sort_indices(self.table(path)[name])

    def to_pandas(self, path):
        return self.table(path).to_pandas()

    def to_polars(self, path):
        import polars

        return polars.from_arrow(self.table(path))

    def to_parquet(self, path, out):
        import pyarrow.parquet

        pyarrow.parquet.write_table(self.table(path), out)


class Floor(Holdall):
    """The least that must be done with records that lie one after the other: NumPy copies every eighth byte of them, or
    the lengths of their texts, on two threads, and looks at every byte of the texts."""

    def make(self):
        pass

    def copy(self, records, offset):
        import threading

        rows = records.numpy()
        values = np.ndarray(len(rows), "<f8", rows, offset, (rows.itemsize,))
        out = np.empty(len(rows))
        half = len(rows) // 2
        other = threading.Thread(target=np.copyto, args=(out[half:], values[half:]))
        other.start()
        np.copyto(out[:half], values[:half])
        other.join()
        return out

    def offset(self, records, name):
        return next(row.offset for row in records.members if row.path == name)

    def sum_of(self, path, name):
        import holdall

        with holdall.open(path) as f:
            records = self.records(f)
            return self.copy(records, self.offset(records, name)).sum()

    def text_len(self, path, name):
        import holdall

        with holdall.open(path) as f:
            records = self.records(f)
            lens = self.copy(records, self.offset(records, name) + 8).view("<u8")
            total = int(lens.sum())
            heap = np.frombuffer(records.tensor.components["blob_data"].bytes(), np.uint8)
            return total, heap[:total].max()


class HoldallTorch(Holdall):
    def make(self):
        pass

    def batches(self, what):
        import itertools

        import holdall.torch
        from torch.utils.data import DataLoader

        def run():
            data = holdall.torch.IterableDataset(self.path(what), batch=BATCH, shuffle=7)
            return [batch["x"].sum() for batch in itertools.islice(DataLoader(data, batch_size=None), BATCHES)]

        return run


class Datasets(Table):
    """Hugging Face's `datasets`, which maps Arrow files."""

    suffix = ".datasets"
    makes = ("samples",)

    def write_samples(self, path):
        import datasets
        import pyarrow as pa

        a = samples()
        x = pa.FixedSizeListArray.from_arrays(pa.array(a["x"].reshape(-1)), 16)
        datasets.Dataset(pa.table({"x": x, "label": a["label"]})).save_to_disk(path)

    def batches(self, what):
        import datasets
        from torch.utils.data import DataLoader

        def run():
            data = datasets.load_from_disk(self.path(what)).with_format("torch")
            return _some(DataLoader(data, batch_size=BATCH, shuffle=True))

        return run


class Mapped(Table):
    """A mapped structured array of NumPy's, of which torch puts records together."""

    suffix = ".npy"
    makes = ("samples",)

    def write_samples(self, path):
        with open(path, "wb") as file:
            np.save(file, samples())

    def batches(self, what):
        from torch.utils.data import DataLoader, Dataset

        class Records(Dataset):
            def __init__(self, path):
                self.all = np.load(path, mmap_mode="r")

            def __len__(self):
                return len(self.all)

            def __getitem__(self, at):
                record = self.all[at]
                return {"x": np.array(record["x"]), "label": int(record["label"])}

        return lambda: _some(DataLoader(Records(self.path(what)), batch_size=BATCH, shuffle=True))


def _some(loader):
    import itertools

    return [batch["x"].sum() for batch in itertools.islice(loader, BATCHES)]


CONTESTANTS = {
    "holdall, records": Holdall,
    "holdall, columns": HoldallColumns,
    "pyarrow": PyArrow,
    "floor of records": Floor,
    "holdall, torch": HoldallTorch,
    "datasets, torch": Datasets,
    "numpy, torch": Mapped,
}


def main():
    import argparse
    import sys

    import bench

    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--rounds", type=int, default=9)
    args.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("target/bench-python"))
    args.add_argument("--holdall", type=pathlib.Path, default=pathlib.Path("target/python-package/venv/bin/python"))
    args.add_argument("--only", help="names of cases, with commas")
    args.add_argument("--write", type=pathlib.Path, help="the page of which a part is replaced")
    args = args.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    cases = args.only.split(",") if args.only else [case for case in bench.CASES if case.endswith(" table")]
    for side in ("pyarrow", "holdall, records", "holdall, columns"):
        bench.work(args.holdall, side, "make", args.dir)
    results = {}
    for case in cases:
        sides = bench.CASES[case][1]
        runs = {side: [] for side in sides}
        for turn in range(args.rounds):
            # None is always the first.
            for side in sides if turn % 2 else reversed(sides):
                print(f"\r{case}: {side}, {turn}/{args.rounds}\033[K", end="", file=sys.stderr)
                runs[side].append(bench.json.loads(bench.work(args.holdall, side, case, args.dir)))
        results[case] = runs
    print("\r\033[K", end="", file=sys.stderr)
    part = bench.part_of_tables(results, args.rounds, args.holdall)
    if args.write:
        args.write.write_text(bench.with_section(args.write.read_text(), bench.TABLES, part))
    print(part)


if __name__ == "__main__":
    main()
