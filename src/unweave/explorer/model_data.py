"""Compute everything the explorer's page shows of one model."""

import hashlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unweave.core.noise import Noise
from unweave.evaluation.codes import variable_names
from unweave.evaluation.model import FittedModel
from unweave.explorer.contents import (
    Array,
    Drawn,
    File,
    ImageObservation,
    LabelledFactor,
    LatentGroup,
    LatentVariable,
    ModelData,
    ObservedRows,
    Rate,
    Thumbnails,
    Units,
    Values,
    VectorObservation,
    bundle,
)
from unweave.explorer.embedding import METHOD_NAMES, Method, embed, principal_components
from unweave.explorer.onnx_export import export_decoder, export_encoder
from unweave.explorer.pictures import colours_of, strip, thumbnail_sheets
from unweave.explorer.quantiles import prior_quantiles
from unweave.latents import prior_samples
from unweave.report.analysis import Analysis, Variable, analyse
from unweave.report.pictures import ColourMap, are_pixels, is_image
from unweave.report.traversals import image_colours
from unweave.report.vectors import vectors_of
from unweave.report.verdict import headline
from unweave.training.flat_settings import value_text
from unweave.training.grouping import data_identity
from unweave.training.run_text import data_name

_PRIOR_SAMPLES = 1_000
_POSTERIOR_SAMPLES = 2_000  # enough for contours; more would make pages larger
_RGB = ("red", "green", "blue", "opacity")


def model_bundle(
    model: FittedModel,
    name: str = "",
    *,
    rows: int = 10_000,
    thumbnails: int = 2_000,
    embedding: Method | None = None,
    seed: int = 0,
) -> bytes:
    """Return the bundle that the explorer opens for a model.

    The data of the model are needed. The same model gives the same bytes.

    Args:
        model: the trained model.
        name: what tells the model from others; by default its objective and seed.
        rows: observations of the data to encode, all if there are fewer.
        thumbnails: how many of them have a thumbnail, or their values.
        embedding: also place codes in a plane by UMAP or PaCMAP, extra packages.
        seed: of the choice of rows and of the embedding.
    """
    return bundle(model_data(model, rows, thumbnails, embedding, name, seed))


def model_data(
    model: FittedModel, rows: int, thumbnails: int, embedding: Method | None, name: str, seed: int
) -> ModelData:
    """Compute everything the page shows of a model; see `model_bundle`."""
    analysis = analyse(model, rows, scores={}, seed=seed)
    run, schema = model.run, model.schema
    start = analysis.starts()[0].row
    order = Noise(seed, 0, "explorer").permutation(len(analysis.table), "order").numpy()
    order = np.concatenate([[start], order[order != start]])
    colours = image_colours(analysis) if is_image(schema.shape) else None
    noise = Noise(seed, 0, "explorer", model.device)
    return ModelData(
        id=run.digest,
        name=name or f"{run.objective.kind}, seed {run.seed}",
        step=int(model.log[-1]["step"]) if model.log else run.steps,
        headline=headline(analysis)[1],
        data=_data_fingerprint(model),
        data_name=data_name(run.data),
        observation=_observation(analysis, colours),
        size=run.latent.size,
        noise=model.draw_noise(1)[0].tolist(),
        autoencodes=run.objective.autoencodes,
        variables=_variables(analysis),
        rate=_rate(analysis),
        factors=_factors(analysis),
        shares=analysis.shares.values.astype(np.float32),
        above_chance=analysis.shares.above_chance.tolist(),
        chance=analysis.shares.chance.tolist(),
        rows=_rows(analysis, order, thumbnails, colours, embedding, seed),
        prior=_coarse(prior_samples(model.prior(), _PRIOR_SAMPLES, noise).cpu()),
        start=0,
        encoder=File(export_encoder(model), planes=4),
        decoder=File(export_decoder(model), planes=4),
        drawn=_drawn(analysis, start, colours),
    )


def _data_fingerprint(model: FittedModel) -> str:
    """Return text that is equal for models on the same observations."""
    text = data_identity(model.data, model.source.record.fingerprint)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ---- observations


def _observation(
    analysis: Analysis, colours: ColourMap | None
) -> ImageObservation | VectorObservation:
    schema, scaling = analysis.model.schema, analysis.model.schema.scaling
    units = Units([1.0], [0.0], False)
    if scaling.measured:
        units = Units(scaling.width, scaling.offset, scaling.method == "percentile")
    if colours is not None:
        channels, height, width = schema.shape
        names = [f"channel {number}" for number in range(channels)]
        if colours.pixels and channels in (3, 4):
            names = list(_RGB[:channels])
        return ImageObservation(
            channels, height, width, colours_of(colours), units, names, are_pixels(schema)
        )
    positions, named = vectors_of(analysis).positions, schema.value_names
    return VectorObservation(
        length=schema.shape[0],
        names=named or [f"value {number}" for number in range(schema.shape[0])],
        positions=positions if named else None,
        curve=positions is not None,
        units=units,
        counts=scaling.method == "counts",
    )


# ---- latent variables and factors


def _variables(analysis: Analysis) -> list[LatentVariable]:
    latent = analysis.model.run.latent
    quantiles = prior_quantiles(latent, analysis.prior)
    names = variable_names(latent)
    active = {variable.number for variable in analysis.active}
    groups = _groups_around(analysis)

    def described(variable: Variable) -> LatentVariable:
        number, columns, discrete = variable.number, variable.columns, variable.discrete
        q, p = (masses.tolist() for masses in analysis.masses(variable)) if discrete else ([], [])
        return LatentVariable(
            number=number,
            name=names[number],
            columns=(columns.start, columns.stop),
            discrete=discrete,
            classes=len(p),
            kl=variable.kl,
            information=variable.information,
            active=number in active,
            quantiles=[] if discrete else _rounded(quantiles[columns]),
            prior_masses=p,
            masses=q,
            groups=groups[number],
            # The mean code of an unused variable may follow a factor too, far below its noise.
            factor=variable.factor if number in active else None,
            share=variable.share if number in active else 0.0,
            above_chance=number in active and variable.above_chance,
        )

    return [described(variable) for variable in analysis.variables]


def _rounded(quantiles: NDArray[np.float64]) -> list[list[float]]:
    """Return numbers with the digits of float32, which take less space as text."""
    return [[float(f"{number:.7g}") for number in column] for column in quantiles.tolist()]


def _groups_around(analysis: Analysis) -> list[list[str]]:
    """Return the names of the groups around every variable, outermost first, without the root."""
    nodes = analysis.model.run.latent.nodes
    around: list[list[str]] = []
    for node in nodes:
        parent = [] if node.parent is None else [*around[node.parent], nodes[node.parent].name]
        around.append([name for name in parent if name])
    return [groups for node, groups in zip(nodes, around, strict=True) if node.leaf]


def _rate(analysis: Analysis) -> Rate:
    summary = analysis.summary
    mismatch = {variable.number: variable.mismatch for variable in analysis.variables}
    return Rate(
        rate=analysis.rate,
        mutual_information=summary.mutual_information,
        total_correlation=summary.total_correlation,
        dimension_kl=[mismatch[number] for number in sorted(mismatch)],
        factorised=analysis.model.run.latent.factorised,
        groups=[LatentGroup(name, value) for name, value in summary.correlations.items()],
    )


def _factors(analysis: Analysis) -> list[LabelledFactor]:
    at_chance = {best.factor.name: best.at_chance for best in analysis.best_variables}
    return [
        _factor(analysis, factor.name, at_chance.get(factor.name, "no variable is active"))
        for _, factor in analysis.factors
    ]


def _factor(analysis: Analysis, name: str, at_chance: str) -> LabelledFactor:
    schema = analysis.model.dataset.schema
    column, continuous = schema.column(name), name in schema.continuous
    kind = schema.factor(column).kind
    labels = schema.factor_labels[column] or range(schema.factor_sizes[column])
    values = [] if continuous else [value_text(label) for label in labels]
    ordered = continuous or kind != "categorical"
    return LabelledFactor(name, values, ordered, continuous, at_chance)


# ---- rows of the data


def _rows(
    analysis: Analysis,
    order: NDArray[np.int64],
    thumbnails: int,
    colours: ColourMap | None,
    embedding: Method | None,
    seed: int,
) -> ObservedRows:
    table, model = analysis.table, analysis.model
    means = analysis.means[order].astype(np.float32)
    chosen = [table.factor_names.index(factor.name) for _, factor in analysis.factors]
    error = _errors(analysis)[order] if model.run.objective.autoencodes else None
    relaxed = torch.as_tensor(analysis.samples[order[:_POSTERIOR_SAMPLES]])
    observations = analysis.observations(order[:thumbnails].tolist())
    shown: Thumbnails | Values = Values(len(observations), observations.astype(np.float32))
    if colours is not None:
        shown = thumbnail_sheets(observations, colours)
    return ObservedRows(
        count=len(order),
        index=analysis.index[order].tolist(),
        names=[table.row_names[row] for row in order] if table.row_names else [],
        mean=means,
        sample=_coarse(model.run.latent.hard_samples(relaxed)),
        factors=table.factors[order][:, chosen].astype(np.float32),
        error=error,
        pca=principal_components(means),
        embedding=embed(means, embedding, seed) if embedding else None,
        embedding_name=METHOD_NAMES[embedding] if embedding else "",
        shown=shown,
    )


def _errors(analysis: Analysis) -> Array:
    """Return the mean squared error of every reconstruction, as the network sees values, (N,)."""
    model = analysis.model
    size = model.trained.chunk(model.schema.shape)
    errors = [
        _error(model, analysis.index[n : n + size], analysis.means[n : n + size])
        for n in range(0, len(analysis.index), size)
    ]
    with np.errstate(over="ignore"):  # the page leaves out what is not finite
        return np.concatenate(errors).astype(np.float32)


def _error(model: FittedModel, index: NDArray[Any], means: NDArray[Any]) -> NDArray[np.float64]:
    x = model.dataset.images(torch.as_tensor(index, device=model.device))
    codes = torch.as_tensor(means, device=model.device)
    decoded = model.trained.alone(0, lambda nets, z: nets.model.decode(z).mean, codes)
    squares: NDArray[np.float64] = (x - decoded).double().square().flatten(1).mean(1).cpu().numpy()
    return squares


def _coarse(samples: Tensor) -> Array:
    """Round samples to three digits, which halves their size and suffices for contours."""
    return samples.bfloat16().float().numpy()


def _drawn(analysis: Analysis, start: int, colours: ColourMap | None) -> list[Drawn]:
    """Traverse the active variables from the start."""
    drawn = []
    for variable in analysis.shown:
        decoded = analysis.traverse(start, variable)
        picture = decoded.astype(np.float32) if colours is None else strip(decoded, colours)
        drawn.append(Drawn(variable.number, picture))
    return drawn
