"""The protocols of metrics written as loops over scikit-learn and numpy, the usual way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import Lasso, LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss, mutual_info_score, roc_auc_score
from sklearn.model_selection import KFold
from sklearn.svm import LinearSVC

DEPTHS = (1, 2, 3, 4, 8, 10, 12, 14, 16, 18, 20, 32)
Plain = Callable[[np.ndarray, np.ndarray], float]


class Part(NamedTuple):
    """A part of a plain formulation, and what share of the whole it is."""

    plain: Plain
    share: float
    rest: Plain | None = None  # what is not a part, and is run in whole


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


def dci_boosting(rounds: int) -> Plain:
    """Gradient boosting of scikit-learn, some of its 100 rounds."""
    return lambda z, v: entropic(boosted(z, v, rounds)[0])


def boosted(z: np.ndarray, v: np.ndarray, rounds: int) -> tuple[np.ndarray, float]:
    """Importances (D, K) and mean accuracy of scikit-learn's gradient boosting."""
    train, y, test, truth = halves(z, v)
    columns, right = [], []
    for k in range(v.shape[1]):
        model = GradientBoostingClassifier(n_estimators=rounds, random_state=0)
        right.append(model.fit(train, y[:, k]).score(test, truth[:, k]))
        columns.append(model.feature_importances_)
    return np.array(columns).T, float(np.mean(right))


def dci_es(trees: int) -> Plain:
    """A forest for each factor and depth, with some of its 100 trees."""

    def plain(z: np.ndarray, v: np.ndarray) -> float:
        train, y, test, truth = halves(z, v)
        told = np.zeros((len(DEPTHS), v.shape[1]))
        weights = np.zeros((len(DEPTHS), z.shape[1], v.shape[1]))
        for t, depth in enumerate(DEPTHS):
            for k in range(v.shape[1]):
                forest = RandomForestClassifier(trees, max_depth=depth, max_features=None)
                told[t, k] = forest.fit(train, y[:, k]).score(test, truth[:, k])
                weights[t, :, k] = forest.feature_importances_
        return entropic(weights[told.mean(1).argmax()])

    return plain


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


def explicitness_of_each(z: np.ndarray, v: np.ndarray) -> float:
    """A logistic regression and one ROC curve for each value."""
    train, y, test, truth = halves(z, v)
    train, test = scaled(train, test)
    areas = []
    for k in range(v.shape[1]):
        every = []
        for c in np.unique(y[:, k]):
            model = LogisticRegression(solver="liblinear").fit(train, y[:, k] == c)
            every.append(roc_auc_score(truth[:, k] == c, model.decision_function(test)))
        areas.append(np.mean(every))
    return float(np.mean(areas))


def downstream(model: Callable[[], object]) -> Plain:
    """A classifier of each factor at each number of labels."""

    def plain(z: np.ndarray, v: np.ndarray) -> float:
        train, y, test, truth = halves(z, v)
        found = []
        for n in (10, 100, 1_000, 10_000):
            if n > len(train):
                continue
            for k in range(v.shape[1]):
                if len(set(y[:n, k])) > 1:
                    found.append(model().fit(train[:n], y[:n, k]).score(test, truth[:, k]))
        return float(np.mean(found))

    return plain


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
            batch = np.arange(10 * step, 10 * step + 10)
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


def irs_of_means(z: np.ndarray, v: np.ndarray) -> float:
    """The deviations of the mean codes of all combinations, within each value of each factor."""
    cells: dict[tuple[int, ...], list[np.ndarray]] = {}
    for code, cell in zip(z, v, strict=True):
        cells.setdefault(tuple(cell), []).append(code)
    means = np.array([np.mean(each, 0) for each in cells.values()])
    counts = np.array([len(each) for each in cells.values()])
    of = np.array(list(cells))
    most = np.abs(means - np.average(means, 0, counts)).max(0)
    r = np.zeros((z.shape[1], v.shape[1]))
    for k in range(v.shape[1]):
        strays = np.zeros(z.shape[1])
        for c in np.unique(v[:, k]):
            mine = of[:, k] == c
            away = np.abs(means[mine] - np.average(means[mine], 0, counts[mine]))
            strays += away.max(0) * counts[mine].sum() / counts.sum()
        r[:, k] = 1 - strays / most
    return float(np.average(r.max(1), weights=most))


def binned(z: np.ndarray) -> list[np.ndarray]:
    """Each code in 20 bins."""
    return [np.digitize(code, np.histogram(code, 20)[1][:-1]) for code in z.T]


def information(z: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scikit-learn's mutual information (D, K) of histograms, and the entropies (K,)."""
    matrix = np.array([[mutual_info_score(code, f) for f in v.T] for code in binned(z)])
    return matrix, np.array([mutual_info_score(f, f) for f in v.T])


def mig(z: np.ndarray, v: np.ndarray) -> float:
    """The gap between codes."""
    matrix, entropies = information(z, v)
    return gap(matrix / entropies)


def mig_of_mixtures(samples: int) -> Plain:
    """Densities of the mixtures at some of 10,000 samples, a hundred at a time."""

    def plain(z: np.ndarray, v: np.ndarray) -> float:
        rng, matrix = np.random.default_rng(0), np.zeros((z.shape[1], v.shape[1]))
        every = rng.integers(len(z), size=samples)
        for j in range(z.shape[1]):
            for rows in np.array_split(every, samples // 100):
                drawn = rng.normal(z[rows, j], 0.15)
                densities = norm.pdf(drawn[:, None], z[:, j], 0.15)
                for k in range(v.shape[1]):
                    same = v[rows, k][:, None] == v[:, k]
                    given = (densities * same).sum(1) / same.sum(1)
                    matrix[j, k] += np.log(given / densities.mean(1)).sum() / samples
        return gap(matrix / [mutual_info_score(f, f) for f in v.T])

    return plain


def mig_sup(z: np.ndarray, v: np.ndarray) -> float:
    """The gap between factors."""
    matrix, entropies = information(z, v)
    return gap((matrix / entropies).T)


def jemmig(z: np.ndarray, v: np.ndarray) -> float:
    """The gap, and the joint entropy of the best code with its factor."""
    (matrix, entropies), codes, total = information(z, v), binned(z), 0.0
    for k in range(v.shape[1]):
        second, best = np.argsort(matrix[:, k])[-2:]
        own = mutual_info_score(codes[best], codes[best])
        joint = own + entropies[k] - matrix[best, k]
        rest = joint - matrix[best, k] + matrix[second, k]
        total += 1 - rest / (entropies[k] + np.log(20))
    return total / v.shape[1]


def dcimig(z: np.ndarray, v: np.ndarray) -> float:
    """The largest gap of the codes that count for each factor."""
    matrix, entropies = information(z, v)
    best = np.zeros(v.shape[1])
    for row in matrix:
        k = row.argmax()
        best[k] = max(best[k], np.sort(row)[-1] - np.sort(row)[-2])
    return float(best.sum() / entropies.sum())


def modularity(z: np.ndarray, v: np.ndarray) -> float:
    """What codes know of other factors than their own."""
    squared = information(z, v)[0] ** 2
    each = [1 - (row.sum() - row.max()) / (row.max() * (len(row) - 1)) for row in squared]
    return float(np.mean(each))


def mcc(z: np.ndarray, v: np.ndarray) -> float:
    """A correlation for each pair, and the best matching."""
    pairs = [[abs(np.corrcoef(code, f)[0, 1]) for f in v.T] for code in z.T]
    matrix = np.array(pairs)
    return float(matrix[linear_sum_assignment(matrix, maximize=True)].sum() / v.shape[1])


def info_mec(quantiles: tuple[float, float], share: float) -> Plain:
    """Scikit-learn's nearest neighbours and logistic regression."""

    def plain(z: np.ndarray, v: np.ndarray) -> float:
        low, high = np.quantile(z, quantiles, axis=0)
        x = (z - z.mean(0)) / z.std(0)
        told = np.zeros((z.shape[1], v.shape[1]))
        for k in range(v.shape[1]):
            told[:, k] = mutual_info_classif(x, v[:, k], n_neighbors=10, random_state=0)
            told[:, k] /= mutual_info_score(v[:, k], v[:, k])
            model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=100)
            log_loss(v[:, k], model.fit(x, v[:, k]).predict_proba(x))
        told = told[high - low > share * (high - low).max()]
        one = 1 / v.shape[1]
        return float(np.mean((told.max(1) / told.sum(1) - one) / (1 - one)))

    return plain


PLAIN: Mapping[str, Plain | Part] = {
    "factor_vae_score/kim2018": factor_vae(100, 800, 0),
    "factor_vae_score/locatello2019": factor_vae(64, 10_000, 5_000),
    "factor_vae_score/mathieu2019": factor_vae(1000, 20_000, 0),
    "beta_vae_score/higgins2017": Part(beta_vae(200, 10_000, 80, 1_000), 0.1),
    "beta_vae_score/kim2018": Part(beta_vae(200, 10_000, 80, 1_000), 0.1),
    "beta_vae_score/locatello2019": beta_vae(64, 10_000, 5_000, 0),
    "mig/locatello2019": mig,
    "mig/chen2018": Part(mig_of_mixtures(1000), 0.1),
    "mig_sup/li2020": mig_sup,
    "jemmig/do2020": jemmig,
    "dcimig/sepliarskaia2019": dcimig,
    "modularity/locatello2019": modularity,
    "modularity/ridgeway2018": modularity,
    "info_mec/hsu2023": info_mec((0.0, 1.0), 1 / 8),
    "info_mec/hsu2024": info_mec((0.25, 0.75), 1 / 10),
    "mcc/hyvarinen2016": mcc,
    "irs/suter2019": irs_of_means,
    "irs/locatello2019": irs,
    "dci/locatello2019": Part(dci_boosting(5), 0.05),
    "dci/esmaeili2019": dci_regression(lambda: RandomForestRegressor(10), "feature_importances_"),
    "dci/eastwood2018": dci_regression(lambda: Lasso(alpha=0.02), "coef_"),
    "dci_es/eastwood2023": Part(dci_es(5), 0.05),
    "sap/locatello2019": sap_classifiers,
    "sap/kumar2018": sap_correlation,
    "explicitness/locatello2019": explicitness,
    "explicitness/ridgeway2018": explicitness_of_each,
    "downstream/locatello2019": Part(
        downstream(lambda: GradientBoostingClassifier(n_estimators=5, random_state=0)),
        0.05,
        downstream(lambda: LogisticRegressionCV(Cs=10, cv=KFold(5))),
    ),
}
