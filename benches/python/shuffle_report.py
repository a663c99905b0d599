"""The section of the page about `shuffle.py`."""

import statistics

SETTINGS = {
    "warm": "shuffled, warm",
    "cold": "shuffled, cold",
    "http": "shuffled, over HTTP",
    "epoch": "in order, warm",
}
#: How many times as fast as the fastest of the others Holdall should be.
GOALS = {"warm": 1.0, "cold": 1.0, "http": 1.0, "epoch": 0.9}


#: How an epoch that is resumed goes on.
RESUMED = {True: 'exactly', None: 'fails', False: 'in another order'}


#: Contestants that are not compared with: Holdall itself, and the floor.
OWN = ("holdall", "floor")


def rates(runs):
    return [run["rows"] / run["seconds"] for run in runs or [] if "rows" in run]


def best(of, key):
    found = rates(of.get(key))
    return statistics.median(found) if found else None


def section(heading, doc, about, results, counts, args):
    paragraphs = doc.split("\n\n")
    out = [heading, "", "Written by `benches/python/shuffle.py --write`.", "", *paragraphs[-1].strip().split("\n"), "", about, ""]
    out += ["Thousands of records per second, the median of the rounds and (of the best round); `0` and `2` are workers.", ""]
    out += goals(results)
    for size, of in results.items():
        count = 20_000 if args.quick else counts[int(size)]
        out += ["", f"### {count:,} records of {int(size):,} B", ""]
        keys = [(s, n) for s in SETTINGS for n in (0, 2) if any(f"{s} {n}" in runs for runs in of.values())]
        out += ["| | " + " | ".join(f"{SETTINGS[s]}, {n}" for s, n in keys) + " | goes on |"]
        out += ["| --- |" + " ---: |" * len(keys) + " --- |"]
        for name, runs in of.items():
            cells = [cell(runs.get(f"{s} {n}")) for s, n in keys]
            out.append(f"| {'**holdall**' if name == 'holdall' else name} | " + " | ".join(cells) + f" | {resumes(runs)} |")
        out += remarks(of)
    return "\n".join(out) + "\n"


def cell(runs):
    if runs is None:
        return ""
    found = rates(runs)
    return f"{shown(statistics.median(found))} ({shown(max(found))})" if found else "fails"


def shown(rate):
    return f"{rate / 1e3:,.0f}" if rate >= 1e4 else f"{rate / 1e3:,.1f}"


def resumes(runs):
    found = {n: runs[f"resume {n}"][0].get("resumes") for n in (0, 2) if f"resume {n}" in runs}
    if not found or set(found.values()) == {True}:
        return "exactly" if found else ""
    return ", ".join(f"{n}: {RESUMED[ok]}" for n, ok in found.items())


def remarks(of):
    out = []
    warm = [name for name, runs in of.items() if any(run.get("resident", 0) > 0.01 for n in (0, 2) for run in runs.get(f"cold {n}", []))]
    if warm:
        out += ["", f"Not cold, as more than 1 % of the pages stayed in the system's cache: {', '.join(warm)}."]
    sent = []
    for name, runs in of.items():
        http = [run for run in runs.get("http 0", []) if "rows" in run]
        if http:
            run = http[-1]
            each = run["sent"] / run["rows"]
            sent.append(f"{name} {run['requests']:,} for {run['rows']:,} records ({run['sent'] / 1e6:,.0f} MB, {each:,.0f} B each)")
    if sent:
        out += ["", "Requests over HTTP without workers: " + "; ".join(sent) + "."]
    return out


def goals(results):
    out = ["| size | setting | target | reached | |", "| ---: | --- | --- | ---: | --- |"]
    for size, of in results.items():
        ours = of.get("holdall")
        if not ours:
            continue
        for setting, least in GOALS.items():
            # The better of none and two workers, for each.
            found = {name: max(filter(None, [best(runs, f"{setting} {n}") for n in (0, 2)]), default=None) for name, runs in of.items()}
            found = {name: rate for name, rate in found.items() if rate}
            others = {name: rate for name, rate in found.items() if not name.startswith(OWN)}
            if "holdall" not in found or not others:
                continue
            fastest = max(others, key=others.get)
            reached = found["holdall"] / others[fastest]
            target = "ahead of every other" if least == 1.0 else f"≥ {least} × the fastest other"
            out.append(f"| {size} B | {SETTINGS[setting]} | {target} | {reached:.2f} × of {fastest} | {met(reached >= least)} |")
        for setting in SETTINGS:
            none, two = best(ours, f"{setting} 0"), best(ours, f"{setting} 2")
            if none and two:
                target = "two workers not slower than none"
                out.append(f"| {size} B | {SETTINGS[setting]} | {target} | {two / none:.2f} × | {met(two >= none)} |")
            processes, floor = best(of.get("holdall, processes", {}), f"{setting} 2"), best(of.get("floor", {}), f"{setting} 2")
            if processes and floor and setting in ("warm", "epoch"):
                target = "two processes at torch's floor"
                out.append(f"| {size} B | {SETTINGS[setting]} | {target} | {processes / floor:.2f} × | {met(processes >= 0.9 * floor)} |")
    return out


def met(is_met):
    return "met" if is_met else "**missed**"
