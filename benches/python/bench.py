"""Measures the Python package beside its peers, on the same tensors and in one run.

    cargo xtask python --release
    python3 benches/python/bench.py [--rounds N] [--dir DIR] [--only CASE,…] [--torch PYTHON] [--write FILE]

Holdall is taken from the environment that the first command leaves in `target/python-package/venv`. The peers are
installed into environments of their own in the folder, where the files are made too: 9 GB, kept for the next run.
pandas, Polars and pyarrow are those beside Holdall; what is done in torch is done by one Python (`--torch`), that of
`cargo xtask ecosystem` for example, with our wheel as it is released.
Contestants of a case run one after the other, round after round, each in a process of its own that times itself
(`cases.py`); files are in the system's cache beforehand but where a case is cold, and what takes milliseconds is done
once before. Times are medians, a multiple (×) is the ratio of medians.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
NUMPY = "numpy==2.4.6"
PEERS = {
    "safetensors": ("safetensors==0.8.0",),
    "ztensor12": ("ztensor==1.2.3",),
    "ztensor21": ("ztensor==2.1.2",),
}
ENVIRONMENT = {
    "floor": "safetensors",
    "safetensors": "safetensors",
    "safetensors, torch": "torch",
    "ztensor 1.2.3": "ztensor12",
    "ztensor 1.2.3, zstd": "ztensor12",
    "ztensor 2.1.2": "ztensor21",
    "holdall, torch": "torch",
    "datasets, torch": "torch",
    "numpy, torch": "torch",
}
OURS = ["holdall", "holdall, safetensors"]
OTHERS = ["safetensors", "safetensors, torch", "ztensor 1.2.3", "ztensor 2.1.2"]

#: Case: what it is; whom it sets side by side; who may take at most how much of whose time (the least of them), or how many
#: seconds, where it is nobody's.
CASES = {
    "load llama": (
        "Every tensor into a NumPy array that owns its memory: shapes of a language model, float16, 1.01 GB; warm.",
        [*OURS, "floor", *OTHERS],
        [(ours, 1.2, ["floor"]) for ours in OURS],
    ),
    "load small": (
        "The same with 51,000 tensors of 10 KB.",
        [*OURS, "floor", *OTHERS],
        [(ours, 0.5, OTHERS) for ours in OURS] + [(ours, 1.2, ["floor"]) for ours in OURS],
    ),
    "load tiny": (
        "The same with 200,000 tensors of 64 bytes.",
        [*OURS, "floor", *OTHERS],
        [(ours, 0.5, OTHERS) for ours in OURS],
    ),
    "list small": ("The names of the 51,000.", [*OURS, *OTHERS], [(ours, 0.33, OTHERS) for ours in OURS]),
    "list tiny": ("The names of the 200,000.", [*OURS, *OTHERS], [(ours, 0.33, OTHERS) for ours in OURS]),
    "touch llama": (
        "Open, and read the first element of every tensor without a copy, where the package can.",
        [*OURS, *OTHERS],
        [(ours, 1.0, OTHERS) for ours in OURS],
    ),
    "one llama": (
        "Open, and one tensor of 34 MB into an array that owns its memory; warm.",
        [*OURS, *OTHERS],
        [(ours, 1.0, OTHERS) for ours in OURS],
    ),
    "one llama cold": (
        "The same, with nothing of the file in the system's cache.",
        [*OURS, *OTHERS],
        [(ours, 1.0, OTHERS) for ours in OURS],
    ),
    "rows llama": (
        "Open, and 16 rows of a tensor of 525 MB; warm.",
        [*OURS, *OTHERS],
        [(ours, 1.0, OTHERS) for ours in OURS],
    ),
    "rows llama cold": ("The same, cold.", [*OURS, *OTHERS], [(ours, 1.0, OTHERS) for ours in OURS]),
    "save llama": (
        "Every tensor into a file, not synced; ours with a crc32c of each, the others without, but for ztensor 2.1.2, "
        "which always has a digest.",
        ["holdall", "floor", "safetensors", "ztensor 1.2.3", "ztensor 2.1.2"],
        [("holdall", 1.0, ["safetensors", "ztensor 1.2.3", "ztensor 2.1.2"])],
    ),
    "save small": (
        "The 51,000 tensors of 10 KB into a safetensors file, not synced.",
        ["holdall, safetensors", "floor", "safetensors"],
        [("holdall, safetensors", 0.6, ["safetensors"])],
    ),
    "import": ("The package, where NumPy is imported already.", ["holdall"], [("holdall", 0.06, [])]),
    "pandas trades": (
        "A million records (numbers, times, an enum, a text) as a pandas frame; pyarrow has them in an Arrow IPC file.",
        ["holdall, records", "pyarrow"],
        [("holdall, records", 1 / 0.8, ["pyarrow"])],
    ),
    "polars trades": (
        "The same as a Polars frame.",
        ["holdall, records", "pyarrow"],
        [("holdall, records", 1 / 0.8, ["pyarrow"])],
    ),
    "parquet trades": (
        "The same into a Parquet file, which pyarrow writes for both.",
        ["holdall, records", "pyarrow"],
        [("holdall, records", 1 / 0.9, ["pyarrow"])],
    ),
    "build table": (
        "The table in memory, as pyarrow has it, into a file, not synced; pyarrow writes Parquet without compression.",
        ["holdall, records", "pyarrow"],
        [("holdall, records", 0.5, ["pyarrow"])],
    ),
    "arrow table": (
        "All of it as an Arrow table in memory; pyarrow reads its file into memory and maps nothing.",
        ["holdall, records", "pyarrow"],
        [("holdall, records", 1.0, ["pyarrow"])],
    ),
    "column table": (
        "Open, and the sum of one column of numbers; pyarrow maps its file.",
        ["holdall, records", "holdall, columns", "pyarrow", "floor of records"],
        [("holdall, records", 1.2, ["pyarrow"])],
    ),
    "text table": (
        "Open, and the sum of the lengths of the texts as an Arrow column; pyarrow maps its file.",
        ["holdall, records", "holdall, columns", "pyarrow", "floor of records"],
        [("holdall, records", 1.0, ["pyarrow"])],
    ),
    "group trades": (
        "Open, and the number of records for each value of the enum.",
        ["holdall, records", "pyarrow"],
        [("holdall, records", 1.5, ["pyarrow"])],
    ),
    "sort trades": (
        "Open, and the order of the records by a column of numbers.",
        ["holdall, records", "pyarrow"],
        [("holdall, records", 1.5, ["pyarrow"])],
    ),
    "pandas table": (
        "The same table as a pandas frame; pyarrow maps its file.",
        ["holdall, records", "pyarrow"],
        [("holdall, records", 1.0, ["pyarrow"])],
    ),
    "rows table": (
        "The table as a list of dicts in memory, into a file, not synced; pyarrow makes a table of them and writes Parquet.",
        ["holdall, records", "pyarrow"],
        [("holdall, records", 1.0, ["pyarrow"])],
    ),
    "group table": (
        "Open, and the number of rows for each value of the text with 4 values.",
        ["holdall, records", "pyarrow"],
        [("holdall, records", 1.5, ["pyarrow"])],
    ),
    "sort table": (
        "Open, and the order of the rows by a column of numbers.",
        ["holdall, records", "pyarrow"],
        [("holdall, records", 1.5, ["pyarrow"])],
    ),
    "batches samples": (
        "400 batches of 256 in random order, of a million records of 16 float32 and a label, as tensors of torch's.",
        ["holdall, torch", "datasets, torch", "numpy, torch"],
        [("holdall, torch", 1 / 3, ["datasets, torch"]), ("holdall, torch", 1 / 1.5, ["numpy, torch"])],
    ),
    "load llama zstd": (
        "Every tensor of a file that ztensor 1.2.3 compressed, level 3, into arrays.",
        ["holdall, zstd", "ztensor 1.2.3, zstd"],
        [("holdall, zstd", 0.25, ["ztensor 1.2.3, zstd"])],
    ),
}

#: The heading of the part of the page that `tables.py` writes.
TABLES = "## Tables"
#: The heading of the part that `shuffle.py` writes.
SHUFFLED = "## Shuffled batches"

#: What stands in the way of goals that are missed.
NOTES = {
    "load small": (
        "the floor reads the bytes and makes nothing of them. 51,000 names, arrays and their dict take 20 ms of one core by the "
        "cheapest ways that Python has (120 ns for an array, 80 for a name, 190 for its place in a dict), and the table of "
        "tensors 12 ms, both while the other core has nothing to do."
    ),
    "touch llama": (
        "a file is looked at before it is opened and again when its table was read (no pipe is waited for, no edit goes "
        "unnoticed), and the table is read rather than looked at in the map: 10 or 11 system calls, of which ztensor 1.2.3 makes 6."
    ),
    "rows llama": "as `touch llama`: opening is most of it, the rows themselves take a tenth of the time.",
    "save llama": "ours sums every byte by crc32c while it is written, the others do not.",
    "pandas trades": (
        "an Arrow file has the columns as pandas wants them and is mapped; records lie one after the other: 48 bytes of each are read "
        "and 37 written into fresh memory, and each text is looked up and checked. That is 23 ns of processor time a record, of which "
        "reading is 6, shared by the cores."
    ),
    "polars trades": "an Arrow file is mapped as it is; of records each member is gathered, each text is checked and has 16 bytes written for it, and Polars makes a category of the enum.",
    "column table": "the values of a column lie a record of 96 bytes apart: all cache lines of the records are fetched, 12 times the bytes of "
    "the column, as the floor does it; a loop in C over the mapped records took 7.3 ms of a processor for the sum in the run of 2026-11-29. A column that is read "
    "alone is better a tensor of its own: `as columns`.",
    "text table": "as `column table`: the entries of the texts are in the records. Each text is also checked to be UTF-8, where an Arrow file is "
    "mapped as it is and believed. A blob does not help: its entries of 16 bytes are followed one by one, and all its bytes are compared with their digest.",
    "pandas table": "as `column table`, for all columns: an Arrow file has them as pandas wants them. All bytes are also compared with "
    "their digest. To copy all columns into memory in use took a loop in C 15.5 ms of a processor in the run of 2026-11-29, on two threads.",
    "group table": "as `text table`.",
    "parquet trades": "columns are made of the records first, as for `pandas trades`; what is left is pyarrow's, the same for both.",
}


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("target/bench-python"))
    args.add_argument("--holdall", type=pathlib.Path, default=pathlib.Path("target/python-package/venv/bin/python"))
    args.add_argument("--torch", type=pathlib.Path, help="a Python with torch and safetensors")
    args.add_argument("--only", help="names of cases, with commas")
    args.add_argument("--write", type=pathlib.Path, help="where the page goes")
    args = args.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    pythons = {name: environment(args.dir / name, wanted) for name, wanted in PEERS.items()}
    pythons["holdall"] = args.holdall
    if args.torch:
        pythons["torch"] = args.torch

    def python(contestant):
        return pythons.get(ENVIRONMENT.get(contestant, "holdall"))

    print("making files", file=sys.stderr)
    only = args.only.split(",") if args.only else CASES
    wanted = {c for case in only for c in CASES[case][1]}
    wanted |= {"safetensors"} if wanted & {"floor", "holdall, safetensors"} else set()
    wanted |= {"ztensor 1.2.3, zstd"} if "holdall, zstd" in wanted else set()
    wanted |= {"holdall, records"} if "holdall, torch" in wanted else set()
    for contestant in ENVIRONMENT | dict.fromkeys(["holdall", "holdall, records", "pyarrow"]):
        if contestant in wanted and contestant != "floor" and python(contestant):
            work(python(contestant), contestant, "make", args.dir)

    results = {}
    for case in only:
        contestants = [c for c in CASES[case][1] if python(c)]
        if not contestants:
            continue
        runs = {c: [] for c in contestants}
        for turn in range(args.rounds + 1):
            for c in contestants:
                print(f"\r{case}: {c}, {turn}/{args.rounds}\033[K", end="", file=sys.stderr)
                # "load llama zstd" is the case "load llama" of contestants that are of zstd.
                run = json.loads(work(python(c), c, case.removesuffix(" zstd"), args.dir))
                if turn:
                    runs[c].append(run)
        results[case] = runs
    print("\r\033[K", end="", file=sys.stderr)
    page = report(results, args.rounds, versions(pythons))
    if args.write:
        # The sections of `shuffle.py` and `tables.py` have runs of their own, and stay.
        old = args.write.read_text() if args.write.exists() else ""
        args.write.write_text("\n".join([page.rstrip("\n"), *("\n" + part for _, part in own_sections(old))]) + "\n")
    else:
        print(page)


def own_sections(page):
    """The heading and the text of each section of the page that another script writes, in their order."""
    out, lines = [], page.splitlines()
    for line in lines:
        if line in (TABLES, SHUFFLED):
            out.append((line, []))
        elif out and line.startswith("## "):
            break
        if out:
            out[-1][1].append(line)
    return [(heading, "\n".join(text).rstrip("\n")) for heading, text in out]


def with_section(page, heading, text):
    """The page with this text in the place of the section with this heading, or at its end."""
    sections = own_sections(page)
    first = min((page.find("\n" + known) for known, _ in sections), default=-1)
    rest = page if first < 0 else page[:first]
    parts = {**dict(sections), heading: text.rstrip("\n")}
    return "\n\n".join([rest.rstrip("\n"), *parts.values()]) + "\n"


def environment(folder, packages):
    """An environment with these packages, made at the first call."""
    python, wanted = folder / "bin/python", "\n".join([NUMPY, *packages])
    done = folder / "installed.txt"
    if not done.exists() or done.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, NUMPY, *packages], check=True)
        done.write_text(wanted)
    return python


def work(python, contestant, case, folder):
    # As people run it: no library beyond the package starts threads of its own.
    command = [python, HERE / "cases.py", contestant, case, folder]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def part_of_tables(results, rounds, python):
    """The part of the page about tables: medians, and the fastest round of each side."""
    installed = versions({"holdall": python}, [("holdall", "pyarrow", "pandas", "numpy")])
    out = [
        TABLES,
        "Written by `benches/python/tables.py --write`. A million rows of ten columns: int64, int32, float64, float32, bool, two "
        "texts of about 12 characters, a text with 4 values, times, int16. Each side runs in a process of its own, round after "
        "round in turns. Ratios are those of the medians, of the fastest rounds, and of the time that all threads together took of "
        "a processor, which other programs disturb least; times are medians, with the fastest round in parentheses. The floor is NumPy on two threads: the column out of the records and no more. "
        "`as columns` is a file of the same table in which each column is a tensor of its own, and texts are a blob: `holdall.save(path, {\"price\": array, \"name\": holdall.Runs(texts, \"utf-8\"), …})`.",
        "",
        f"{rounds} rounds, {platform.system()} {platform.release()}, {len(os.sched_getaffinity(0))} cores, Python "
        f"{platform.python_version()}; {installed}.",
        "",
        "| case | | target | medians | fastest rounds | processor time | ours | pyarrow | floor | as columns | memory, ours | pyarrow |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case, runs in results.items():
        ours, peer = runs["holdall, records"], runs["pyarrow"]
        most = CASES[case][2][0][1]
        ratio, least = median(ours) / median(peer), fastest(ours) / fastest(peer)
        busy = [statistics.median(run["processor"] for run in side) for side in (ours, peer)]
        floor = runs.get("floor of records")
        times = [f"{shown(median(of))} ({shown(fastest(of))})" if of else "" for of in (ours, peer, floor)]
        columns = runs.get("holdall, columns")
        processor = columns and statistics.median(run["processor"] for run in columns) / busy[1]
        times.append(f"{shown(median(columns))} ({shown(fastest(columns))}): {processor:.2f} × the processor time" if columns else "")
        memory = [f"{statistics.median(run['memory'] for run in side) / 1e6:,.0f} MB" for side in (ours, peer)]
        columns = [case, CASES[case][0], f"≤ {most:.3g} ×", f"{ratio:.2f} ×", f"{least:.2f} ×", f"{busy[0] / busy[1]:.2f} ×", *times, *memory]
        out.append("| " + " | ".join(columns) + " |")
    notes = [f"- `{case}`: {NOTES[case]}" for case in results if case in NOTES]
    if notes:
        out += ["", "What stands in the way of those that are missed:", "", *notes]
    return "\n".join(out) + "\n"


def fastest(runs):
    return min(run["seconds"] for run in runs)


def versions(pythons, wanted=()):
    script = (
        "import importlib.metadata as m, sys; "
        "print(', '.join(f'{p} {m.version(p)}' for p in sys.argv[1:]))"
    )

    def of(name, *packages):
        return subprocess.run([pythons[name], "-c", script, *packages], check=True, stdout=subprocess.PIPE, text=True)

    if not wanted:
        wanted = [("holdall", "holdall", "numpy"), ("safetensors", "safetensors"), ("ztensor12", "ztensor")]
        wanted += [("ztensor21", "ztensor")] + [("torch", "torch")] * ("torch" in pythons)
    return ", ".join(of(*w).stdout.strip() for w in wanted)


def median(runs):
    return statistics.median(run["seconds"] for run in runs)


def report(results, rounds, installed):
    out = ["# Benchmarks of the Python package", "", "Written by `benches/python/bench.py --write`; do not edit.", ""]
    out += [line for line in __doc__.split("\n\n")[-1].split("\n") if line] + [""]
    out += [
        f"{rounds} rounds after a warm-up, {platform.system()} {platform.release()}, {len(os.sched_getaffinity(0))} "
        f"cores, Python {platform.python_version()}; {installed}.",
        "",
        "## Goals",
        "",
        "| case | ours | target | reached | |",
        "| --- | --- | --- | ---: | --- |",
    ]
    missed = set()
    for case, runs in results.items():
        for ours, most, of in CASES[case][2]:
            if of:
                fastest = min((c for c in of if c in runs), key=lambda c: median(runs[c]))
                reached = median(runs[ours]) / median(runs[fastest])
                target, found = f"time ≤ {most:.3g} × the fastest", f"{reached:.2f} × of {fastest}"
            else:
                reached = median(runs[ours])
                target, found = f"≤ {shown(most)}", shown(reached)
            met = "met" if reached <= most else "**missed**"
            if reached > most:
                missed.add(case)
            out.append(f"| {case} | {ours} | {target} | {found} | {met} |")
    notes = [f"- `{case}`: {note}" for case, note in NOTES.items() if case in missed]
    if notes:
        out += ["", "Why some goals are missed:", "", *notes]
    for case, runs in results.items():
        out += ["", f"## {case}", "", CASES[case][0], "", "| | median | min .. max | memory |", "| --- | ---: | ---: | ---: |"]
        for contestant, all in runs.items():
            seconds = [run["seconds"] for run in all]
            memory = statistics.median(run["memory"] for run in all)
            name = f"**{contestant}**" if contestant.startswith("holdall") else contestant
            spread = f"{shown(min(seconds))} .. {shown(max(seconds))}"
            out.append(f"| {name} | {shown(median(all))} | {spread} | {memory / 1e6:,.0f} MB |")
    return "\n".join(out) + "\n"


def shown(seconds):
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


if __name__ == "__main__":
    main()
