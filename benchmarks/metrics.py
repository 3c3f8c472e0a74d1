"""What metrics of a table cost, beside the plain formulation of the same protocol.

    python benchmarks/metrics.py [--rows 10000] [--only dci/locatello2019 ...] [--ours]

A table of rows with 5 factors of 3, 6, 40, 32 and 32 values, as dSprites has them, and 10 codes
that are bent and noisy mixtures of them. Each metric is timed once; so is its protocol written as
loops over scikit-learn and numpy, the way it is usually written. A metric is added by an entry in
`PLAIN`. With `--ours` the plain formulations, which take many minutes, are left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.metrics import mutual_info_score, roc_auc_score
from sklearn.svm import LinearSVC

from unweave.metrics import METRICS, Table

SIZES = (3, 6, 40, 32, 32)
Plain = Callable[[np.ndarray, np.ndarray], float]


def table(rows: int, dims: int = 10, seed: int = 0) -> Table:
    """Codes that mix a third of the factors each."""
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(size, size=rows) for size in SIZES], 1)
    v = (factors - factors.mean(0)) / factors.std(0)
    mix = rng.standard_normal((len(SIZES), dims)) * (rng.random((len(SIZES), dims)) < 0.35)
    codes = np.tanh(0.7 * v @ mix) + 0.15 * rng.standard_normal((rows, dims))
    return Table(codes, factors, scales=np.full(codes.shape, 0.15))


def halves(z: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
    """10,000 rows to train on and 5,000 to test on, or two thirds and the rest."""
    order = np.random.default_rng(0).permutation(len(z))
    cut = min(10_000, 2 * len(z) // 3)
    train, test = order[:cut], order[cut : cut + 5_000]
    return z[train], v[train], z[test], v[test]


def scaled(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standardised by the rows of training."""
    return (train - train.mean(0)) / train.std(0), (test - train.mean(0)) / train.std(0)


def entropic(matrix: np.ndarray) -> float:
    """Disentanglement of importances (D, K), row by row."""
    total = 0.0
    for row in matrix:
        if row.sum() > 0:
            p = row / row.sum()
            total += row.sum() * (1 + sum(x * np.log(x) for x in p if x > 0) / np.log(len(p)))
    return float(total / matrix.sum())


def gap(matrix: np.ndarray) -> float:
    """Mean over factors of the largest minus the second largest."""
    return float(np.mean([np.sort(column)[-1] - np.sort(column)[-2] for column in matrix.T]))


def dci_boosting(z: np.ndarray, v: np.ndarray) -> float:
    """Gradient boosting of scikit-learn."""
    train, y, test, truth = halves(z, v)
    columns = []
    for k in range(v.shape[1]):
        model = GradientBoostingClassifier(random_state=0).fit(train, y[:, k])
        model.score(test, truth[:, k])
        columns.append(model.feature_importances_)
    return entropic(np.array(columns).T)


def dci_regression(model: Callable[[], object], importances: str) -> Plain:
    """A regressor for each factor."""

    def plain(z: np.ndarray, v: np.ndarray) -> float:
        train, y, test, truth = halves(z, v)
        train, test = scaled(train, test)
        y, truth = scaled(y, truth)
        columns = []
        for k in range(v.shape[1]):
            fitted = model().fit(train, y[:, k])
            np.sqrt(((fitted.predict(test) - truth[:, k]) ** 2).mean())
            columns.append(np.abs(getattr(fitted, importances)))
        return entropic(np.array(columns).T)

    return plain


def sap_classifiers(z: np.ndarray, v: np.ndarray) -> float:
    """A support vector machine for each code and factor."""
    train, y, test, truth = halves(z, v)
    matrix = np.zeros((z.shape[1], v.shape[1]))
    for j in range(z.shape[1]):
        for k in range(v.shape[1]):
            machine = LinearSVC(C=0.01, class_weight="balanced").fit(train[:, [j]], y[:, k])
            matrix[j, k] = machine.score(test[:, [j]], truth[:, k])
    return gap(matrix)


def sap_correlation(z: np.ndarray, v: np.ndarray) -> float:
    """The covariance matrix of each pair."""
    matrix = np.zeros((z.shape[1], v.shape[1]))
    for j in range(z.shape[1]):
        for k in range(v.shape[1]):
            c = np.cov(z[:, j], v[:, k])
            matrix[j, k] = c[0, 1] ** 2 / (c[0, 0] * c[1, 1])
    return gap(matrix)


def explicitness(z: np.ndarray, v: np.ndarray) -> float:
    """Logistic regression and one ROC curve for each value."""
    train, y, test, truth = halves(z, v)
    train, test = scaled(train, test)
    areas = []
    for k in range(v.shape[1]):
        p = LogisticRegression(max_iter=1000).fit(train, y[:, k]).predict_proba(test)
        every = [roc_auc_score(truth[:, k] == c, p[:, c]) for c in range(p.shape[1])]
        areas.append(np.mean(every))
    return float(np.mean(areas))


def downstream(z: np.ndarray, v: np.ndarray) -> float:
    """Logistic regression and gradient boosting at each number of labels."""
    train, y, test, truth = halves(z, v)
    found = []
    for n in (10, 100, 1_000, 10_000):
        if n > len(train):
            continue
        for k in range(v.shape[1]):
            if len(set(y[:n, k])) > 1:
                a, b = scaled(train[:n], test)
                found.append(
                    LogisticRegression(max_iter=1000).fit(a, y[:n, k]).score(b, truth[:, k])
                )
                model = GradientBoostingClassifier(random_state=0).fit(train[:n], y[:n, k])
                found.append(model.score(test, truth[:, k]))
    return float(np.mean(found))


def sharing(v: np.ndarray) -> list[dict[int, np.ndarray]]:
    """The rows of each value of each factor."""
    return [{c: np.flatnonzero(column == c) for c in np.unique(column)} for column in v.T]


def beta_vae(pairs: int, train: int, test: int, steps: int) -> Plain:
    """One example after the other, and a linear classifier of them."""

    def plain(z: np.ndarray, v: np.ndarray) -> float:
        rng, rows = np.random.default_rng(0), sharing(v)
        x, y = [], []
        for _ in range(train + test):
            k = rng.integers(v.shape[1])
            one = rng.integers(len(z), size=pairs)
            two = np.array([rng.choice(rows[k][c]) for c in v[one, k]])
            x.append(np.abs(z[one] - z[two]).mean(0))
            y.append(k)
        x, y = np.array(x), np.array(y)
        if not steps:
            return (
                LogisticRegression(max_iter=1000)
                .fit(x[:train], y[:train])
                .score(x[train:], y[train:])
            )
        ones = np.column_stack([x, np.ones(len(x))])
        w = np.zeros((ones.shape[1], v.shape[1]))
        h = np.full(w.shape, 0.1)
        for step in range(steps):
            batch = np.arange(10 * step, 10 * step + 10) % train
            p = np.exp(ones[batch] @ w)
            p /= p.sum(1, keepdims=True)
            g = ones[batch].T @ (p - np.eye(v.shape[1])[y[batch]]) / 10
            h += g**2
            w -= 0.01 * g / np.sqrt(h)
        return float(((ones[train:] @ w).argmax(1) == y[train:]).mean())

    return plain


def factor_vae(batch: int, train: int, test: int) -> Plain:
    """One vote after the other."""

    def plain(z: np.ndarray, v: np.ndarray) -> float:
        rng, rows, overall = np.random.default_rng(0), sharing(v), z.var(0, ddof=1)
        tallies = []
        for votes in (train, test):
            tally = np.zeros((z.shape[1], v.shape[1]), int)
            for _ in range(votes):
                k = rng.integers(v.shape[1])
                same = rows[k][v[rng.integers(len(z)), k]]
                drawn = z[same[rng.integers(len(same), size=batch)]]
                tally[(drawn.var(0, ddof=1) / overall).argmin(), k] += 1
            tallies.append(tally)
        scored = tallies[1] if test else tallies[0]
        told = tallies[0].argmax(1)
        return float(sum(scored[j, told[j]] for j in range(len(told))) / scored.sum())

    return plain


def irs(z: np.ndarray, v: np.ndarray) -> float:
    """The deviations within each value of each factor."""
    most = np.abs(z - z.mean(0)).max(0)
    r = np.zeros((z.shape[1], v.shape[1]))
    for k in range(v.shape[1]):
        strays = []
        for c in np.unique(v[:, k]):
            inside = z[v[:, k] == c]
            strays.append(np.percentile(np.abs(inside - inside.mean(0)), 99, axis=0))
        r[:, k] = 1 - np.mean(strays, 0) / most
    return float(np.average(r.max(1), weights=most))


def mig(z: np.ndarray, v: np.ndarray) -> float:
    """Histograms and scikit-learn's mutual information."""
    matrix = np.zeros((z.shape[1], v.shape[1]))
    for j in range(z.shape[1]):
        bins = np.digitize(z[:, j], np.histogram(z[:, j], 20)[1][:-1])
        for k in range(v.shape[1]):
            information = mutual_info_score(bins, v[:, k])
            matrix[j, k] = information / mutual_info_score(v[:, k], v[:, k])
    return gap(matrix)


PLAIN: Mapping[str, Plain] = {
    "beta_vae_score/kim2018": beta_vae(200, 10_000, 800, 10_000),
    "beta_vae_score/locatello2019": beta_vae(64, 10_000, 5_000, 0),
    "dci/locatello2019": dci_boosting,
    "dci/esmaeili2019": dci_regression(lambda: RandomForestRegressor(10), "feature_importances_"),
    "dci/eastwood2018": dci_regression(lambda: Lasso(alpha=0.02), "coef_"),
    "downstream/locatello2019": downstream,
    "explicitness/locatello2019": explicitness,
    "factor_vae_score/kim2018": factor_vae(100, 800, 0),
    "factor_vae_score/locatello2019": factor_vae(64, 10_000, 5_000),
    "factor_vae_score/mathieu2019": factor_vae(1000, 20_000, 0),
    "irs/locatello2019": irs,
    "mig/locatello2019": mig,
    "sap/locatello2019": sap_classifiers,
    "sap/kumar2018": sap_correlation,
}


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """What a function gives, as a number, and how long it takes."""
    start = time.perf_counter()
    value = float(work())
    return value, time.perf_counter() - start


def main() -> None:
    """Time the metrics and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=list(PLAIN))
    parser.add_argument("--ours", action="store_true", help="leave the plain formulations out")
    options = parser.parse_args()
    data = table(options.rows)
    z, v = np.asarray(data.codes), np.asarray(data.factors)
    METRICS["mig/locatello2019"](table(100))  # what is loaded first is loaded by now
    total = np.zeros(2)
    print(f"{'metric':32}{'value':>9}{'seconds':>10}{'plain':>9}{'seconds':>10}{'ratio':>8}")
    for key in options.only:
        value, ours = seconds(lambda key=key: METRICS[key](data))
        line = f"{key:32}{value:9.3f}{ours:10.2f}"
        total[0] += ours
        if not options.ours:
            value, plain = seconds(lambda key=key: PLAIN[key](z, v))
            total[1] += plain
            line += f"{value:9.3f}{plain:10.2f}{plain / ours:8.1f}"
        print(line, flush=True)
    ratio = "" if options.ours else f"{'':9}{total[1]:10.2f}{total[1] / total[0]:8.1f}"
    print(f"{'together':32}{'':9}{total[0]:10.2f}{ratio}")


if __name__ == "__main__":
    main()
