"""A trained model: encode, decode, sample, traverse."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from unweave.aggregate import Summary, summarise
from unweave.core.hints import check_choice, count_noun
from unweave.core.memory import main_memory
from unweave.core.noise import Noise
from unweave.data import (
    Data,
    Dataset,
    DataSpec,
    NewObservations,
    Schema,
    as_numpy,
    from_array,
    read_like,
)
from unweave.data.dataset import load_dataset
from unweave.data.files.new_observations import arrange_like, as_array_like
from unweave.data.sources import from_path
from unweave.data.splits import split_of
from unweave.evaluation.notebook import model_html
from unweave.evaluation.source import DataSource, check_not_a_name, is_bound_array, open_like
from unweave.evaluation.stacked import StackedModels, stack_one
from unweave.latents import Distribution, with_hard_samples
from unweave.metrics import Table
from unweave.objectives import Nets, importance_bound
from unweave.training import Outcome
from unweave.training.final_terms import final_terms
from unweave.training.model_file import write_model
from unweave.training.run_files import RunFiles

Array = NDArray[np.float32]
# An array, the path of a file or folder, or a dataset, such as `FittedModel.open` returns.
Observations = ArrayLike | Tensor | str | Path | Dataset
Codes = Literal["mean", "prior-cdf"]

# Numbers decoded at once if there are many codes for each observation.
_KEYS = 5  # of a dict that was given as data, which a message names
_NUMBERS = {"cpu": 2**22, "cuda": 2**27}
TINY = float(np.finfo(np.float32).tiny)  # replaces a standard deviation that underflowed


class FittedModel:
    """A trained run: encode, decode, sample, traverse, and a table for the metrics.

    Methods take observations and codes as arrays or tensors and return float32 arrays; decoded
    observations are float64 if they lie too far from 0 for float32. Observations are in the units
    of the training data, as `schema.scaling` says; values of 8-bit images are in [0, 1]. `encode`
    and similar methods also take a path. z has D dimensions, which form V latent variables: the K
    dimensions of a categorical variable are one variable.

    Only methods that evaluate the model on its data need the data, which are loaded when `dataset`
    is first used. `split` names the split of the data, as in `load`. A model can be saved to one
    file, copied and pickled, always without the data.
    """

    def __init__(
        self,
        outcome: Outcome,
        data: Dataset | DataSource,
        folder: Path | None = None,
        trained: StackedModels | None = None,
    ) -> None:
        self.run, self.log, self.folder = outcome.run, outcome.log, folder
        self.measures = outcome.measures
        if not isinstance(data, DataSource):
            data = DataSource(outcome.run.data, outcome.run.data, None, data.device, data)
        self.source = data
        if trained is None:
            weights = outcome.weights
            assert weights is not None
            trained = stack_one(outcome.run.build(self.schema.shape), weights, data.device)
        self.trained = trained

    @property
    def schema(self) -> Schema:
        """The description of the data that the model was trained on: shape, scaling, names."""
        return self.source.schema

    @property
    def device(self) -> torch.device:
        """The device of the model and its data."""
        return self.source.device

    @property
    def data(self) -> Data:
        """The spec of the data that the model is evaluated on."""
        return self.source.data

    @property
    def dataset(self) -> Dataset:
        """The data that the model is evaluated on, loaded at first use."""
        return self.source.dataset

    @property
    def split(self) -> str:
        """The split of the data that the model is evaluated on."""
        return split_of(self.data)

    @property
    def step(self) -> int:
        """The step that the weights are of."""
        return int(self.log[-1]["step"]) if self.log else 0

    @property
    def progress(self) -> str:
        """How far a run that is not finished got, as in "stopped at step 4,640 of 8,000", or ""."""
        if not self.step or self.step >= self.run.steps:
            return ""
        status = RunFiles(self.folder).status if self.folder else "stopped"
        did = {"running": "was still training at", "failed": "failed after"}
        return f"{did.get(status, 'stopped at')} step {self.step:,} of {self.run.steps:,}"

    def save(self, path: str | Path) -> None:
        """Write the model to one file that `load` reads: settings, weights and log, not the data.

        The file is an uncompressed zip archive of the files of a run folder, without any pickle.
        """
        weights = {name: value[0] for name, value in self.trained.weights.items()}
        outcome = Outcome(self.run, weights, self.log, None, self.measures)
        write_model(Path(path), outcome, self.source.record)

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the data, with weights on the CPU, to be pickled."""
        return {**self.__dict__, "trained": self.trained.to(torch.device("cpu"))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled model to the device it was on, or to the CPU if there is none."""
        self.__dict__.update(state)
        if self.device.type == "cuda" and not torch.cuda.is_available():
            self.source = self.source.to(torch.device("cpu"))
        self.trained = self.trained.to(self.device)

    def __repr__(self) -> str:
        terms = ", ".join(f"{name} {value:.2f}" for name, value in final_terms(self.log).items())
        kind, steps = self.run.objective.kind, count_noun(self.step, "step")
        return f"FittedModel({kind}, seed {self.run.seed}, {steps}: {terms})"

    def _repr_html_(self) -> str:
        return str(model_html(self))

    # ---- codes and observations

    def encode(self, x: Observations) -> Array:
        """Return the means of q(z|x), (N, D), which `decode` takes.

        x is an array of observations, or the path of a file or folder of them. Channels may be
        first or last; if the shape is ambiguous, they are where they were in the training data. The
        columns of a table, such as a DataFrame, are found by name if those of the training data
        have names.
        """
        return self._map(lambda nets, part: nets.model.encode(part).mean, self._observations(x))

    def codes(self, x: Observations) -> Array:
        """Return one number per latent variable, (N, V): the mean of q(z_v|x), or the mode."""
        latent = self.run.latent
        return self._map(
            lambda nets, part: latent.codes(nets.model.encode(part)), self._observations(x)
        )

    def posterior(self, x: Observations) -> tuple[Array, Array]:
        """Return means and standard deviations of q(z|x), (N, D) each."""
        both = self._map(
            lambda nets, part: _moments(nets.model.encode(part)), self._observations(x)
        )
        return both[..., 0], both[..., 1]

    def decode(self, z: ArrayLike | Tensor, noise: ArrayLike | Tensor | None = None) -> Array:
        """Return expected observations E[x|z], (N, *shape), in the units of the data.

        The generator of an InfoGAN also takes noise, E[x|z, e]: `noise` is (E,) for all codes, or
        (N, E). By default all codes share `draw_noise(1)`, so images differ only by their codes. To
        see the effect of the noise, repeat a code: `decode(np.repeat(z[:1], 9, 0),
        model.draw_noise(9))`, [Kim2018] fig. 26.
        """
        codes = torch.as_tensor(as_numpy(z), dtype=torch.float32)
        size = self.run.latent.size
        if codes.dim() != 2 or codes.shape[1] != size:
            raise ValueError(f"expected codes of shape (N, {size}), got {tuple(codes.shape)}")
        e = torch.as_tensor(self.draw_noise(1)[0] if noise is None else as_numpy(noise)).float()
        count, columns = len(codes), self.trained.nets.model.noise
        if e.shape not in ((columns,), (count, columns)):
            wanted = f"({columns},) or ({count}, {columns})"
            raise ValueError(
                f"expected noise of shape {wanted}, got {tuple(e.shape)}; use draw_noise"
            )
        both = torch.cat([codes, e.expand(count, columns)], 1)
        decoded = self._map(lambda nets, part: nets.model.decode(part).mean, self._chunks(both))
        return self.schema.scaling.invert(decoded)

    def draw_noise(self, count: int, seed: int = 0) -> Array:
        """Draw the noise that a generator takes besides the codes, N(0, 1), (count, E)."""
        shape = (count, self.trained.nets.model.noise)
        return _numpy(Noise(seed, 0, "noise").normal(shape, "noise"))

    def reconstruct(self, x: Observations, noise: ArrayLike | Tensor | None = None) -> Array:
        """Decode the mean codes of observations, with `noise` as in `decode`."""
        return self.decode(self.encode(x), noise)

    def sample(self, count: int, seed: int = 0) -> Array:
        """Decode samples of the prior, and of a generator's noise."""
        whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if not whole or not 0 < count * 4 * math.prod(self.schema.shape) < main_memory():
            raise ValueError(f"expected a number of samples that fit in memory, got {count!r}")
        noise = Noise(seed, 0, "sample", self.device)
        z = with_hard_samples(self.prior()).rsample(noise, (count,))
        return self.decode(z.cpu(), self.draw_noise(count, seed))

    def traverse(
        self,
        x: Observations | None = None,
        values: ArrayLike | None = None,
        steps: int = 9,
        noise: ArrayLike | Tensor | None = None,
    ) -> list[Array]:
        """Decode a traversal of each latent variable, (n_v, *shape), ordered as `latent.names`.

        Traversals start from the code of one observation x, or by default from the prior's mean. A
        continuous variable takes `values`, by default `steps` of them over its range under the
        prior (two standard deviations around the mean, or all of an interval). A discrete variable
        takes all of its values. A generator's `noise` (E,) is the same along all traversals.
        """
        if steps < 1:
            raise ValueError(f"expected at least one step of a traversal, got {steps}")
        start = _numpy(self.prior().mean) if x is None else self._one_code(x)
        each = self.traversal_values(steps)
        if values is not None:
            given = np.asarray(values, np.float32)[:, None]
            discrete = zip(each, self.run.latent.discrete, strict=True)
            each = [own if flag else given for own, flag in discrete]
        return [self.traverse_variable(start, v, own, noise) for v, own in enumerate(each)]

    def traversal_values(self, steps: int = 9) -> list[Array]:
        """Return the values of each latent variable in a traversal, (n_v, its dimensions)."""
        return [_numpy(values) for values in self.run.latent.traversal_values(self.prior(), steps)]

    def traverse_variable(
        self, start: Array, variable: int, values: Array, noise: ArrayLike | Tensor | None = None
    ) -> Array:
        """Decode `values` (n, its dimensions) of one variable, (n, *shape).

        The other dimensions stay at `start` (D,), and a generator's `noise` is constant.
        """
        codes = np.tile(start, (len(values), 1))
        codes[:, self.run.latent.columns[variable]] = values
        return self.decode(codes, noise)

    def log_likelihood(
        self, x: Observations, particles: int = 5000, seed: int = 0
    ) -> NDArray[np.float64]:
        """Return importance-weighted lower bounds on log p(x) in nats, (N,).  [Burda2016] eq. 8.

        log 1/K sum_k p(x, z_k) / q(z_k|x) with z_k ~ q(z|x). The bound gets tighter as the number K
        of particles grows. Discrete variables are sampled, not relaxed. Memory does not grow with
        K.
        """
        if not self.run.objective.autoencodes:
            raise ValueError(
                f"a model of objective {self.run.objective.kind} has no log p(x): its generator "
                "samples images without a density"
            )
        if particles < 1:
            raise ValueError(f"expected at least 1 particle, got {particles}")
        observations = (one for part in self._observations(x) for one in part.split(1))
        return np.array(
            [
                self._log_likelihood(one, particles, Noise(seed, row, "likelihood", self.device))
                for row, one in enumerate(observations)
            ]
        )

    # ---- its data

    def rows(self, count: int = 10_000, seed: int = 0) -> Tensor:
        """Choose observations of the data to evaluate on: all, or `count` without repeats."""
        return chosen_rows(self.dataset, count, seed)

    def observations(self, index: ArrayLike | Tensor) -> Array:
        """Return observations of the data, (N, *shape), in their units."""
        chosen = torch.as_tensor(index, device=self.device)
        parts = [self.dataset.images(part).cpu() for part in self._chunks(chosen)]
        return self.schema.scaling.invert(_numpy(torch.cat(parts)))

    def prior(self) -> Distribution:
        """Return p(z), over z of shape (D,)."""
        prior: Distribution = self.trained.alone(0, lambda nets: nets.model.p())
        return prior

    def posteriors(self, index: Tensor) -> Distribution:
        """Return q(z|x) of observations of the data, with batch shape (N,)."""
        return self.run.latent.posterior(self.trained.raw(self.dataset, index)[0])

    def table(self, rows: int = 10_000, seed: int = 0, codes: Codes = "mean") -> Table:
        """Encode the data (or `rows` of it) once, with its factors: the input of metrics.

        `codes` are the means of q(z_v|x). With "prior-cdf" they are mapped to normal quantiles
        through the prior's cdf, as [Mathieu2019] app. B does for Student-t priors; discrete codes
        are not changed.
        """
        index = self.rows(rows, seed)
        return self.tabulate(index, self.posteriors(index), codes)

    def summary(self, samples: int = 10_000, rows: int | None = None, seed: int = 0) -> Summary:
        """Decompose the rate with the exact q(z) of the data (or of `rows` of it), in nats.

        The parts are the mutual information, the total correlation (also of every group of a latent
        tree), and the divergence of each variable from the prior. This evaluates `samples` x N
        densities of every variable.
        """
        index = self.rows(self.dataset.size if rows is None else rows, seed)
        return self.summarise(self.posteriors(index), samples, seed)

    def tabulate(self, index: Tensor, q: Distribution, codes: Codes = "mean") -> Table:
        """Return the table of observations whose posteriors are q; `codes` as in `table`."""
        latent, p = self.run.latent, self.prior()
        # On samples: if a rate has no closed form, its value at the mean is not an estimate of it.
        rates = latent.rates(q, p, q.rsample(Noise(0, 0, "table", self.device)))
        check_choice("codes", codes, get_args(Codes))
        plain = codes == "mean"
        return Table(
            _numpy(latent.codes(q) if plain else latent.prior_codes(q, p)),
            **factor_columns(self.dataset, index),
            scales=self._scales(q) if plain else None,
            kl=_numpy(rates.double().mean(0)),
            discrete=np.array(latent.discrete),
            normal=np.array(latent.normal) if plain else None,
        )

    def summarise(self, q: Distribution, samples: int = 10_000, seed: int = 0) -> Summary:
        """Decompose the rate over observations whose posteriors are q."""
        noise = Noise(seed, 0, "summary", self.device)
        return summarise(self.run.latent, q, self.prior(), noise, samples)

    def _scales(self, q: Distribution) -> Array:
        """Return standard deviations of one-dimensional variables, (N, V), and 1 for others."""
        latent, stddev = self.run.latent, _numpy(q.stddev)
        scales = np.ones((len(stddev), len(latent.variables)), np.float32)
        for variable, columns in enumerate(latent.columns):
            if latent.variables[variable] == 1:
                scales[:, [variable]] = np.maximum(stddev[:, columns], TINY)
        return scales

    def _one_code(self, x: Observations) -> Array:
        code = self.encode(x)
        if len(code) != 1:
            raise ValueError(f"expected one observation to start from, got {len(code)}; use x[:1]")
        first: Array = code[0]
        return first

    def _log_likelihood(self, x: Tensor, particles: int, noise: Noise) -> float:
        """Compute the bound for one observation (1, *shape), some particles at a time."""
        most = max(1, _NUMBERS[self.device.type] // x.numel())
        starts = range(0, particles, most)
        counts = [min(most, particles - first) for first in starts]

        def bounds(nets: Nets, one: Tensor) -> Tensor:
            parts = zip(map(str, starts), counts, strict=True)
            return torch.stack(
                [importance_bound(nets.model, one, noise.fold(s), n)[0] for s, n in parts]
            )

        sums = self._map(bounds, [x])[:, 0] + np.log(counts)
        return float(np.logaddexp.reduce(sums)) - math.log(particles)

    def open(self, path: str | Path) -> NewObservations:
        """Open new observations at a path, for `encode`.

        Images get the size and channels of the training images, columns of a table are found by
        name, and values are scaled like the training data. Labels are not read.
        """
        return open_like(path, self.schema, self.run.data)

    def _observations(self, x: Observations) -> Iterator[Tensor]:
        """Yield observations as the networks see them, in batches that go through them at once."""
        if isinstance(x, (str, Path)):
            x = self.open(x)
        if isinstance(x, Dataset):
            scaling = self.schema.scaling
            if x.shape != self.schema.shape or not x.schema.scaling.close_to(scaling):
                raise ValueError(
                    f"expected a dataset of shape {self.schema.shape}, scaled like the training "
                    f"data ({scaling.method}), got {x.shape} ({x.schema.scaling.method}): give its "
                    "path or its values"
                )
            for part in self._chunks(torch.arange(x.size)):
                yield x.images(part.to(x.device)).to(self.device)
        else:
            array, size = as_array_like(self.schema, x), self.trained.chunk(self.schema.shape)
            arrange_like(self.schema, array)  # refuse other shapes
            for start in range(0, len(array), size):
                yield read_like(self.schema, array[start : start + size], self.device)

    def _chunks(self, rows: Tensor) -> Sequence[Tensor]:
        """Split rows of observations or codes into batches that go through the networks at once."""
        chunks: Sequence[Tensor] = rows.split(self.trained.chunk(self.schema.shape))
        return chunks

    def _map(self, function: Callable[[Nets, Tensor], Tensor], parts: Iterable[Tensor]) -> Array:
        """Apply a function of the trained networks to every part, and join the results."""
        results = [self.trained.alone(0, function, part.to(self.device)).cpu() for part in parts]
        return _numpy(torch.cat(results))


def _moments(q: Distribution) -> Tensor:
    return torch.stack([q.mean, q.stddev], -1)


def _numpy(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().numpy()


def chosen_rows(dataset: Dataset, count: int, seed: int = 0) -> Tensor:
    """Choose observations to evaluate on: all, or `count` without repeats, in order."""
    if dataset.size <= count:
        return torch.arange(dataset.size, device=dataset.device)
    order = Noise(seed, 0, "rows", dataset.device).permutation(dataset.size, "rows")
    return order[:count].sort().values


def factor_columns(dataset: Dataset, index: Tensor) -> dict[str, Any]:
    """Return what a `Table` holds of some observations besides their codes."""
    schema, names = dataset.schema, dataset.row_names
    numbers = zip(schema.factor_names, schema.factor_sizes, strict=True)
    return {
        "factors": schema.factor_values(dataset.factors(index)),
        "factor_names": schema.factor_names,
        "factor_sizes": tuple(0 if name in schema.continuous else size for name, size in numbers),
        "periods": schema.periods,
        "continuous": schema.continuous or None,
        "row_names": tuple(names[row] for row in index.tolist()) if names else (),
    }


def as_data(data: Any, device: torch.device) -> tuple[Data, Dataset]:
    """Load data from a spec, a path, or an array of observations; return its spec and itself.

    The result of `from_array` stands for its spec.
    """
    if isinstance(data, (str, Path)):
        check_not_a_name(data)
        data = from_path(data)
    if is_bound_array(data):
        data = data[0]
    if isinstance(data, Mapping):
        raise ValueError(
            "expected observations as an array, a table, a path or a data spec, got a dict of "
            f"{', '.join(map(repr, list(data)[:_KEYS])) or 'nothing'}: for observations with "
            "labels give uw.data.from_array(x, labels), and for columns a table, "
            "pandas.DataFrame(data)"
        )
    if isinstance(data, tuple) and any(hasattr(each, "shape") for each in data):
        raise ValueError(
            f"expected observations as one array, got a tuple of {len(data)}: for observations "
            "with labels give uw.data.from_array(x, labels), and to join arrays "
            "numpy.concatenate(data)"
        )
    if data is None:
        raise ValueError("expected observations as an array, a path or a data spec, got None")
    if isinstance(data, Dataset):
        raise ValueError(
            f"expected observations as an array, a path or a data spec, got a loaded dataset "
            f"({type(data).__name__}): pass the spec that it was loaded from, such as "
            'Shapes2D(side=32) or Arrays("images.npz")'
        )
    if isinstance(data, type):
        raise ValueError(
            f"expected observations as an array, a path or a data spec, got the class "
            f"{data.__name__}: create one, as in {data.__name__}(...)"
        )
    if callable(getattr(data, "load", None)) and not hasattr(data, "kind"):
        raise ValueError(
            f"expected a data spec, got a {type(data).__name__} that is none: decorate the class "
            "with @unweave.spec"
        )
    if isinstance(data, DataSpec):
        return data, load_dataset(data, device)
    return from_array(data, device=device)
