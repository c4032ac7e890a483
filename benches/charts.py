"""Draws the pictures of docs/charts from docs/performance.csv and docs/performance-peers.csv: charts.py FOLDER

performance.csv has what `make bench` measured on one machine. performance-peers.csv has runs with the real other modules, in
the same columns.
"""
import csv
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
# The same file from the same values, with text as text.
matplotlib.rcParams.update({"svg.hashsalt": "everbloom", "svg.fonttype": "none", "font.family": "sans-serif",
                            "axes.grid": True, "grid.alpha": 0.3, "axes.spines.top": False,
                            "axes.spines.right": False, "legend.frameon": False})
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: E402

COLOURS = {"everbloom": "#1f6feb", "reserved": "#7aa7e9", "redisbloom": "#d1495b", "valkey-bloom": "#edae49"}
BATCH = "BF.MEXISTS of 100, absent"


def rows_of(file):
    with open(file, newline="") as text:
        rows = list(csv.DictReader(text))
    for row in rows:
        row["items"], row["value"] = int(row["items"]), float(row["value"])
    # The pictures do not compare versions.
    return [row for row in rows if not row["module"].endswith(" before")]


def kind(row):
    """Returns the colour and the label of a row: the module whose format a filter has, and whether it is reserved."""
    module = row["module"].lower()
    names = [name for name in ("redisbloom", "valkey-bloom") if name in module or name in row["filter"]]
    name = names[0] if names else "reserved" if row["filter"] == "reserved" else "everbloom"
    return COLOURS[name], row["module"] if row["filter"] == "unreserved" else f"{row['module']}, {row['filter']}"


def lines(axes, rows, style="-"):
    """Draws a line over the number of items for each module and filter."""
    for key in dict.fromkeys((row["module"], row["filter"]) for row in rows):
        points = sorted((row for row in rows if (row["module"], row["filter"]) == key), key=lambda row: row["items"])
        colour, label = kind(points[0])
        dashed = style.replace("-", "--") if points[0]["filter"] == "reserved" else style
        axes.plot([row["items"] for row in points], [row["value"] for row in points], dashed, color=colour, label=label)


def over_items(axes, title, ylabel, columns=2):
    axes.set(title=title, xlabel="items", ylabel=ylabel, xscale="log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}".replace(",", " ")))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns)


def save(figure, folder, name):
    figure.tight_layout()
    figure.savefig(folder / name, metadata={"Date": None})
    plt.close(figure)


def lookup(own, peers, folder):
    """Time in batches, of the run that has all modules."""
    rows = [row for row in own + peers if row["case"] == BATCH and row["measure"] == "ns per item"
            and row["filter"] in ("unreserved", "reserved") and 1000 <= row["items"] <= 10_000_000]
    runs = list(dict.fromkeys(row["date"] for row in rows if row["filter"] == "unreserved"))
    modules_of = lambda run: {row["module"] for row in rows if row["date"] == run}  # noqa: E731
    run = max(runs, key=lambda run: len(modules_of(run)))
    here = [row for row in rows if row["date"] == run]
    unreserved = {row["items"] for row in here if row["filter"] == "unreserved"}
    figure, axes = plt.subplots(figsize=(8, 5))
    lines(axes, [row for row in here if row["items"] in unreserved], "o-")
    axes.set_yscale("log")
    axes.set_yticks([20, 50, 100, 200, 500, 1000, 2000])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    servers = ", ".join(dict.fromkeys(row["server"] for row in here))
    over_items(axes, f"Lookups of absent items in batches of 100 ({servers}, {run})", "ns per item")
    save(figure, folder, "lookup.svg")


def memory(own, peers, folder):
    """Bits per item of filters that grow and of reserved ones; points are the real other modules."""
    cases = ("growth", "BF.INFO SIZE")
    is_wanted = lambda row: row["case"] in cases and row["measure"] == "bits per item"  # noqa: E731
    shown = ("unreserved", "reserved", "redisbloom unreserved", "valkey-bloom unreserved")
    figure, axes = plt.subplots(figsize=(8, 5.2))
    lines(axes, [row for row in own if is_wanted(row) and row["case"] == "growth" and row["filter"] in shown])
    lines(axes, [row for row in peers if is_wanted(row) and row["filter"] == "unreserved"
                 and not row["module"].startswith("everbloom")], "o")
    axes.set_xlim(left=1000)
    axes.set_ylim(0, 70)
    over_items(axes, "Memory at an error rate of 1 %", "bits per item")
    save(figure, folder, "memory.svg")


def error_rate(own, folder):
    figure, axes = plt.subplots(figsize=(8, 5))
    rows = [row for row in own if row["case"] == "growth" and row["measure"] == "error rate"]
    for row in rows:
        row["value"] *= 100
    lines(axes, rows)
    axes.axhline(1, color="grey", linestyle="--", label="promised")
    axes.set_ylim(bottom=0)
    over_items(axes, "False positives of filters that grow", "% of absent items")
    save(figure, folder, "error-rate.svg")


def window(own, folder):
    """Memory of a window of two hours over a day, under the items that it has."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(8, 5.5), sharex=True)
    rows = [row for row in own if row["case"].startswith("window, hour")]
    hours = lambda row: float(row["case"].split()[-1])  # noqa: E731
    of = lambda name, measure: [row for row in rows if (row["filter"], row["measure"]) == (name, measure)]  # noqa: E731
    live, used = of("window", "items"), of("window", "bytes")
    above.fill_between([hours(row) for row in live], [row["value"] / 1e6 for row in live], color=COLOURS["reserved"])
    above.set(title="A sliding window of two hours over a day", ylabel="million live items")
    below.plot([hours(row) for row in used], [row["value"] / 1e6 for row in used], color=COLOURS["everbloom"],
               label="sliding-window filter")
    for row in of("eight rotating filters", "bytes"):
        below.axhline(row["value"] / 1e6, color="grey", linestyle="--", label="eight rotating filters")
    for row in of("keys with an expiry", "bytes per item"):
        below.plot([hours(point) for point in live], [row["value"] * point["value"] / 1e6 for point in live], ":",
                   color="grey", label="a key with an expiry per item")
    below.set(xlabel="hour", ylabel="MB", yscale="log", xticks=range(0, 25, 4))
    below.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    above.set_ylim(bottom=0)
    below.legend()
    save(figure, folder, "window.svg")


def main(docs):
    own, peers = (rows_of(docs / name) for name in ("performance.csv", "performance-peers.csv"))
    folder = docs / "charts"
    folder.mkdir(exist_ok=True)
    lookup(own, peers, folder)
    memory(own, peers, folder)
    error_rate(own, folder)
    window(own, folder)


main(Path(sys.argv[1]))
