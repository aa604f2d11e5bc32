"""Draw the loss curves of a log.jsonl as SVG.

    python plot_logs.py ../runs/denoiser/log.jsonl logs/denoiser.svg
"""

import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "pocket"
from matplotlib import pyplot as plt

HELD_OUT = ("nelbo", "nelbo_average", "dev_loss", "dev_macro_recall")


def main(source, target):
    rows = [json.loads(line) for line in open(source)]
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    for key in ("loss",) + HELD_OUT:
        points = [(row["minutes"], row[key]) for row in rows if key in row]
        if points:
            axis.plot(*zip(*points), label=key.replace("_", " "), marker="." if key in HELD_OUT else None, linewidth=1)
    if any("nelbo" in row for row in rows):
        axis.set_ylim(1.5, 4)
        axis.axhline(1.9, color="grey", linestyle=":", linewidth=0.8)
    axis.set_xlabel("minutes of training")
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
