"""Networks in the browser compute what PyTorch does, and the page shows it."""

import numpy as np
import pytest

from browser.networks_of_papers import NETWORKS, ROWS


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_decodes_and_encodes_as_in_python(networks_shown, network_models, name):
    model = network_models[name]
    networks_shown.open_run(model.run.digest)
    z = np.random.default_rng(1).normal(size=(3, model.run.latent.size)).astype(np.float32)
    expected = model.decode(z)
    assert expected.std(0).max() > 1e-2  # the code matters
    assert np.abs(networks_shown.decode(z) - expected.reshape(3, -1)).max() <= 1e-4
    networks_shown.change(z=z[0].tolist())
    networks_shown.shows(expected[0])
    x = model.observations(range(ROWS))
    assert np.allclose(networks_shown.encode(x), model.encode(x), rtol=1e-5, atol=1e-4)


def test_buttons_of_a_tree_set_its_discrete_blocks(networks_shown, network_models):
    model = network_models["esmaeili2019-table-3"]
    networks_shown.open_run(model.run.digest)
    page = networks_shown.page
    if not networks_shown.view["unused"]:
        networks_shown.change(unused=True)
    shape = page.get_by_role("radiogroup").filter(has=page.get_by_role("radio", name="2"))
    shape.get_by_role("radio", name="2").click()
    code = networks_shown.code
    assert 1.0 in code  # one of three
    networks_shown.shows(model.decode(code[None])[0])
