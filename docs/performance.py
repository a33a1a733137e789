"""Draws docs/performance/performance.png from the JSON files that the benchmarks wrote beside it.

python docs/performance.py
"""

import json
from pathlib import Path

from jaxband.plots import COLOURS, png, pyplot

FOLDER = Path(__file__).parent / "performance"
SHOWN = ("1RGP-UCB", "1RGP-TS", "4RGP-UCB, exhaustive", "4RGP-TS, subset", "UCB-Z", "oracle")


def main() -> None:
    plt = pyplot()
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12.0, 3.4), layout="constrained")
    rounds(left)
    against_c(middle)
    compile_time(right)
    (FOLDER / "performance.png").write_bytes(png(figure))


def rows(name: str) -> list[dict]:
    return json.loads((FOLDER / f"{name}.json").read_text())["rows"]


def rounds(axes) -> None:
    for colour, policy in zip(COLOURS, SHOWN, strict=False):
        row = next(row for row in rows("rounds_per_second") if row["policy"] == policy)
        costs = {int(name[2:]): cost for name, cost in row.items() if name.startswith("K=") and cost}
        axes.plot(list(costs), list(costs.values()), marker="o", color=colour, label=policy)
    axes.set(xscale="log", yscale="log", xlabel="arms", ylabel="µs per round and core", title="A round of a simulation")
    axes.set_xticks([3, 10, 30, 100], ["3", "10", "30", "100"])
    axes.set_ylim(0.004, 30)
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize="x-small", loc="lower right", ncols=2)


def against_c(axes) -> None:
    for i, row in enumerate(rows("against_c")):
        costs = [row["C, µs per round and core"], row["jaxband, µs per round and core"]]
        axes.bar([i - 0.2, i + 0.2], costs, width=0.38, color=[COLOURS[2], COLOURS[0]])
        axes.text(i + 0.2, costs[1], f"{row['ratio']:.2f} ×", ha="center", va="bottom", fontsize="small")
    axes.set_xticks(range(2), [row["policy"] for row in rows("against_c")])
    axes.set(ylabel="µs per round and core", title="C (green) and jaxband (blue), K = 10")


def compile_time(axes) -> None:
    shown = rows("compile_time")
    places = range(len(shown))
    axes.barh([p + 0.2 for p in places], [r["empty cache, s"] for r in shown], height=0.38, color=COLOURS[1])
    axes.barh([p - 0.2 for p in places], [r["filled cache, s"] for r in shown], height=0.38, color=COLOURS[5])
    axes.set_yticks(list(places), [r["policy"] for r in shown], fontsize="small")
    axes.set(xlabel="seconds", title="Compiling: empty and filled cache")


if __name__ == "__main__":
    main()
