"""Runs side by side: their latents are matched, and they follow the sliders of the first one."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr

from browser.chromium import eventually, explorer

LEAST = 0.3  # |correlation| of a match


@pytest.fixture(scope="module")
def both(browser, page_path, models):
    """The page with both runs open, at the tab of all runs."""
    with explorer(browser) as shown:
        shown.open(page_path)
        shown.change(open=[model.run.digest for model in models], tab="runs")
        shown.page.locator(".other canvas").wait_for()
        yield shown


def codes(shown, run):
    """Return the index in the data and the code of every row that the page has of a run."""
    script = """run => {
        const { data, means } = window.unweave.models.value.get(run);
        return [data.rows.index, Array.from(means)];
    }"""
    index, means = shown.page.evaluate(script, run)
    return dict(zip(index, np.reshape(means, (len(index), -1)), strict=True))


def expected_matches(first, other):
    """Return {latent: (latent of the other, correlation)}, by SciPy."""
    rows = sorted(first.keys() & other.keys())
    a, b = (np.array([each[row] for row in rows]) for each in (first, other))
    table = spearmanr(a, b).statistic[: a.shape[1], a.shape[1] :]
    weights = np.where(np.abs(table) < LEAST, 0, np.abs(table))
    pairs = zip(*linear_sum_assignment(weights, maximize=True), strict=True)
    return {i: (j, table[i, j]) for i, j in pairs if weights[i, j] > 0}


def matches(shown, models):
    return expected_matches(*(codes(shown, model.run.digest) for model in models))


def test_latents_are_matched_one_to_one(both, models):
    expected = {
        f"z{i}": [f"z{j}", f"{rho:+.2f}".replace("-", "−")]
        for i, (j, rho) in matches(both, models).items()
    }
    assert expected

    def check():
        rows = both.page.get_by_role("region", name="matched latent").locator("tbody tr").all()
        cells = [[text.strip() for text in row.locator("th, td").all_inner_texts()] for row in rows]
        assert {name: found.split() for name, found in cells if found != "–"} == expected

    eventually(check)


def test_linked_sliders_move_matched_latents_by_as_many_scores(both, models):
    first, other = (codes(both, model.run.digest) for model in models)
    found = matches(both, models)
    rows = list(first)
    # A row whose codes leave room for the move within the sliders' range.
    place = next(n for n, row in enumerate(rows) if np.abs([first[row], other[row]]).max() < 1.5)
    start, own = first[rows[place]].copy(), other[rows[place]].copy()
    latent, (matched, rho) = next(iter(found.items()))
    both.change(row=int(rows[place]), z=None)
    shows_beside(both, models[1], own)
    start[latent] += 1
    both.change(z=start.tolist())
    own[matched] += np.sign(rho)  # scores of a standard normal prior are its values
    shows_beside(both, models[1], own)


def shows_beside(shown, model, code):
    image = model.decode(code[None].astype(np.float32))[0]
    expected = 255 * np.clip(np.broadcast_to(image, (3, *image.shape[1:])), 0, 1)

    def check():
        assert np.abs(shown.pixels(".other canvas") - expected.transpose(1, 2, 0)).max() <= 2

    eventually(check)


def test_the_filter_finds_runs_and_a_mistake_is_explained(both):
    field = both.page.get_by_label("Filter runs")
    status = both.page.locator("#filter-result")
    field.fill("seed=1")
    status.get_by_text("1 of 2 runs").wait_for()
    field.fill("sed=1")
    status.get_by_text("No setting or score is called “sed”").wait_for()
    field.fill("")
    status.get_by_text("2 of 2 runs").wait_for()
