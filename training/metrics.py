"""Metrics with 95 % intervals."""

import numpy as np


def auc(scores, positive):
    scores, positive = np.asarray(scores, float), np.asarray(positive, bool)
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[inverse]
    n, m = positive.sum(), (~positive).sum()
    return (ranks[positive].sum() - n * (n + 1) / 2) / (n * m)


def accuracy(predicted, label):
    return float(np.mean(np.asarray(predicted) == np.asarray(label)))


def macro_recall(predicted, label):
    predicted, label = np.asarray(predicted), np.asarray(label)
    return float(np.mean([np.mean(predicted[label == c] == c) for c in np.unique(label)]))


def mcc(predicted, label):
    p, y = np.asarray(predicted, bool), np.asarray(label, bool)
    tp, tn, fp, fn = (float(np.sum(a & b)) for a, b in ((p, y), (~p, ~y), (p, ~y), (~p, y)))
    bottom = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    return (tp * tn - fp * fn) / bottom if bottom else 0.0


def calibration_error(probability, label, bins=15):
    """Expected calibration error of the top class; `probability` is (n, classes)."""
    probability, label = np.asarray(probability), np.asarray(label)
    top, hit = probability.max(1), probability.argmax(1) == label
    slot = np.minimum((top * bins).astype(int), bins - 1)
    return float(sum(abs(top[slot == b].mean() - hit[slot == b].mean()) * np.mean(slot == b) for b in np.unique(slot)))


def interval(metric, *arrays, draws=1000, seed=0):
    """The metric with its bootstrap 95 % interval over rows."""
    arrays = [np.asarray(a) for a in arrays]
    rng, n = np.random.default_rng(seed), len(arrays[0])
    values = []
    for _ in range(draws):
        pick = rng.integers(n, size=n)
        values.append(metric(*(a[pick] for a in arrays)))
    return metric(*arrays), *np.quantile(values, [0.025, 0.975])


def line(name, metric, *arrays, **options):
    value, low, high = interval(metric, *arrays, **options)
    return f"{name}: {value:.4f} [{low:.4f}, {high:.4f}] (n = {len(arrays[0])})"
