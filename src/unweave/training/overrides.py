"""The grammar of the command line: read runs and selections of data from text, and write them.

An assignment is field=value, as in objective.beta=4. A list or a range of values, as in seed=0..9,
stands for one run each. A selection of the data is KIND:name=value,name=value.
"""

import dataclasses
import itertools
import json
import math
import re
import shlex
import tomllib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast, get_type_hints

from pydantic import BaseModel

from unweave.core import spec
from unweave.core.assignments import override, read_value
from unweave.core.hints import (
    join_words,
    naming,
    near_paths,
    nearest,
    nearest_name,
    nearest_path,
    not_a_file,
)
from unweave.core.parts import ImportedByName, announced
from unweave.core.schedules import Weight
from unweave.data import (
    AnySelection,
    Arrays,
    Data,
    Dataset,
    Folder,
    HeldOut,
    InMemory,
    Paired,
    Selected,
)
from unweave.data.sources import from_path
from unweave.data.splits import takes_all
from unweave.training.own_data import Datasets, is_own_data, suggest, suggested_steps
from unweave.training.records import settings_in
from unweave.training.run import Run

_LIST = re.compile(r"[\w.:+-]+(,[\w.:+-]+)+")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_DECISIVE = re.compile(r"data[.=]|steps=|objective=|latent[.=]")  # settings for own data need it
# Fields in which a comma joins columns into one value, and a..b is a range of them.
_COLUMN_NAMES = ("key", "factors_key", "ignore")
# Text that can be written as it is; anything else is written as JSON.
_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*")
_PLAIN_COLUMNS = re.compile(r"[A-Za-z_][\w.-]*(,[A-Za-z_][\w.-]*)*")
_JSON_WORDS = ("true", "false", "null", "NaN", "Infinity")
_LINE_WIDTH = 88
_MOST_RUNS = 10_000  # that one command describes
OTHER_NAMES = {  # what other programs call a field
    "learning_rate": "optimiser.lr",
    "epochs": "steps, the number of updates",
    "latent_dim": "latent.size",
    "z_dim": "latent.size",
    "dataset": "data",
    "model": "objective, such as objective=beta-vae",
    "optimizer": "optimiser",
}
_SAVED_ARRAY = "images.npz"  # stands for an array that was only in memory

# ---- reading


def runs_from(
    assignments: Sequence[str],
    base: dict[str, Any] | None = None,
    select: Sequence[str] = (),
    features: Path | None = None,
    datasets: Datasets | None = None,
) -> list[Run]:
    """Return the runs that assignments describe; a list or a range of values gives one run each.

    Args:
        assignments: texts such as "objective.beta=4".
        base: the JSON form of a run to start from, or of some of its fields.
        select: selections of the data, such as "subset:count=5000".
        features: a file of learned classes that the selections may refer to.
        datasets: loads users' own data, for which it chooses what was not given.

    A run that is described twice, as by seed=1,1, is returned once.

    A field that several kinds of a sweep have, as gamma in objective=factor-vae,beta-tcvae, is set
    in all of them; a `SweepWarning` says what it means in each.

    >>> [(r.seed, r.objective.beta) for r in runs_from(["seed=0..1", "objective.beta=1,4"])]
    [(0, 1.0), (0, 4.0), (1, 1.0), (1, 4.0)]
    """
    _check_repeats(assignments)
    _check_sweeps(assignments)
    alternatives = [_alternatives(assignment) for assignment in assignments]
    _check_count(math.prod(map(len, alternatives)))
    selections = tuple(selection_from(text) for text in select)
    stated = base or {}

    def create(assignments: Sequence[str], start: dict[str, Any]) -> Run:
        run = override(Run, assignments, start)
        if not selections and features is None:
            return run
        return dataclasses.replace(run, data=_select(run.data, selections, features))

    runs = []
    for each in itertools.product(*alternatives):
        combination = list(itertools.chain(*each))
        decisive = [text for text in combination if _DECISIVE.match(text)]
        if any(text.startswith("objective=") for text in decisive):  # it may have required fields
            decisive += [text for text in combination if text.startswith("objective.")]
        if datasets is None or not is_own_data((run := create(decisive, stated)).data):
            runs.append(create(combination, stated))
            continue
        run = _with_split(run, decisive, stated, datasets)
        keep_steps = "steps" in stated or any(text.startswith("steps=") for text in decisive)
        chosen = spec.to_json(suggest(run, datasets.load(run.data), keep_steps))
        run = dataclasses.replace(create(combination, chosen | stated), data=run.data)
        runs.append(run)
    return list({run.digest: run for run in runs}.values())


def _check_count(runs: int) -> None:
    if runs > _MOST_RUNS:
        raise ValueError(
            f"expected at most {_MOST_RUNS:,} runs, got {runs:,}: train them with several commands"
        )


def _check_repeats(assignments: Sequence[str]) -> None:
    """Reject a field that is assigned twice: the last value would replace the others."""
    values: dict[str, list[str]] = {}
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        values.setdefault(name, []).append(value)
        if len(given := values[name]) > 1:
            raise ValueError(
                f"{name} is assigned twice, {name}={given[0]} and {name}={given[1]}: give it once, "
                "with a list of values for one run each, as in seed=0,1,2"
            )


def _with_split(
    run: Run, assignments: Sequence[str], stated: dict[str, Any], datasets: Datasets
) -> Run:
    """Train on the training split of own data, unless a split was given."""
    given = [assignment.partition("=")[0] for assignment in assignments]
    data = stated.get("data", {})
    if any(path.endswith(".split") for path in given) or "split" in data.get("source", data):
        return run
    return dataclasses.replace(run, data=datasets.training_split(run.data))


def base_from(path: Path) -> dict[str, Any]:
    """Read the fields of a run from a run.json, or those that a TOML file has."""
    if not path.is_file():
        raise ValueError(
            f"--from: expected a run.json or a .toml file at {path}, {not_a_file(path)}"
        )
    toml = path.suffix == ".toml"
    try:
        content = tomllib.loads(path.read_text()) if toml else json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid {'TOML' if toml else 'JSON'}: {error}") from None
    with naming(path):
        fields: dict[str, Any] = settings_in(content) if isinstance(content, dict) else content
        spec.from_json(Run, fields)
    return fields


def selection_from(text: str) -> AnySelection:
    """Read a selection: KIND:field=value,... or held-out:FACTOR=CLASS,...

    Several classes are joined by + or written as a range; several combinations are joined by /.

    >>> selection_from("held-out:shape=heart,x=0..2/scale=0+5,split=held-out").classes
    ({'shape': ('heart',), 'x': ('0..2',)}, {'scale': (0, 5)})
    >>> selection_from("correlated:factors=floor_hue+wall_hue,scale=0.2").factors
    ('floor_hue', 'wall_hue')
    """
    kind, _, rest = text.partition(":")
    known = spec.members(AnySelection)
    if kind not in known:
        raise ValueError(f"--select: {kind!r} is not known: {nearest(kind, known)}")
    # A factor may be called kind.
    fields = {field.name for field in dataclasses.fields(known[kind])} - {"kind", "classes"}
    content: dict[str, Any] = {"kind": kind}
    combinations: list[dict[str, list[Any]]] = []
    for combination in rest.split("/"):
        classes: dict[str, list[Any]] = {}
        for item in combination.split(","):
            name, sign, value = item.partition("=")
            if not (sign and name and value):
                raise ValueError(
                    f"--select {text}: expected name=value, got {item!r}; as in subset:count=5000, "
                    "held-out:shape=heart,x=0..15 or correlated:factors=floor_hue+wall_hue"
                )
            if name in fields or known[kind] is not HeldOut:
                content[name] = value.split("+") if name == "factors" else read_value(value)
            else:
                classes[name] = [_read_class(each) for each in value.split("+")]
        combinations.append(classes)
    if known[kind] is HeldOut:
        content["classes"] = combinations
    try:
        return cast(AnySelection, spec.from_json(known[kind], content))
    except ValueError as error:
        raise ValueError(f"--select {text}: {error}") from None


def _read_class(text: str) -> Any:
    """Return the name of a class: a number if the text is exactly that number, otherwise text."""
    value = read_value(text)
    return value if type(value) in (int, float) and str(value) == text else text


def _select(data: Data, selections: tuple[AnySelection, ...], features: Path | None) -> Selected:
    if isinstance(data, Paired):
        raise ValueError("--select: pairs are made of a whole dataset; leave it out")
    file = None if features is None else str(features)
    if isinstance(data, Selected):
        select = (*data.select, *selections)
        return dataclasses.replace(data, select=select, features=file or data.features)
    return Selected(data, selections, file)


def _alternatives(assignment: str) -> list[list[str]]:
    """Return the alternatives of an assignment, each as one or several plain assignments."""
    path, sign, text = assignment.partition("=")
    if not sign:
        raise ValueError(f"expected an assignment, field=value, got {path!r}: {_hint(path)}")
    if (head := path.partition(".")[0]) in OTHER_NAMES:
        raise ValueError(f"{head!r} is not a field of a run: it is called {OTHER_NAMES[head]}")
    if path == "data":
        return [_data_assignments(text)]
    if path.rpartition(".")[2] in _COLUMN_NAMES:
        text = text if isinstance(read_value(text), str | None) else json.dumps(text)
        return [[f"{path}={text}"]]  # a name such as 995 is text too
    span = _RANGE.fullmatch(text)
    if span and int(span[1]) > int(span[2]):
        raise ValueError(f"{path}: {text} is empty; write the smaller number first")
    if span:
        _check_count(int(span[2]) - int(span[1]) + 1)
        return [[f"{path}={n}"] for n in range(int(span[1]), int(span[2]) + 1)]
    if _LIST.fullmatch(text):
        return [[f"{path}={value}"] for value in text.split(",")]
    return [[assignment]]


class SweepWarning(UserWarning):
    """A field of a sweep means different things in different runs."""


def _check_sweeps(assignments: Sequence[str]) -> None:
    """Check that every kind of a sweep has the fields that are set, and say what they mean in each.

    The same field of two kinds may mean different things, above all a weight of two objectives.
    """
    pairs = [assignment.partition("=")[::2] for assignment in assignments]
    hints = get_type_hints(Run, include_extras=True)
    for part, text in pairs:
        union = spec.members(hints.get(part))
        kinds = {kind: union[kind] for kind in text.split(",") if kind in union}
        if len(kinds) < 2:
            continue
        for path, value in pairs:
            owner, _, name = path.partition(".")
            if owner == part and name and "." not in name:
                _check_shared_field(part, name, value, kinds)


def _check_shared_field(part: str, name: str, value: str, kinds: dict[str, type]) -> None:
    without = [kind for kind, cls in kinds.items() if name not in spec.field_names(cls)]
    if len(without) == len(kinds):
        return  # an unknown name, which `override` explains
    having = [kind for kind in kinds if kind not in without]
    if without:
        raise ValueError(
            f"{part}.{name} is a field of {join_words(having)}, not of {join_words(without)}: "
            f"train them with one command each, {part}={','.join(having)} {part}.{name}={value} "
            f"and {part}={','.join(without)}"
        )
    hints = [get_type_hints(cls, include_extras=True)[name] for cls in kinds.values()]
    usual = [defaults_of(cls)[name] for cls in kinds.values()]
    if Weight in hints or any(each != usual[0] for each in usual):
        texts = [f"{kind} ({_equation(cls)})" for kind, cls in kinds.items()]
        warnings.warn(
            f"{part}.{name}={value} is set in {join_words(texts)}; if it means different things "
            "there, train them with one command each",
            SweepWarning,
            stacklevel=4,
        )


def _equation(cls: type) -> str:
    """The first line of the documentation, without its source."""
    return (cls.__doc__ or "").strip().splitlines()[0].partition("  [")[0].rstrip(".")


def _hint(text: str) -> str:
    """Suggest the assignment that a word without "=" may stand for."""
    if Path(text).exists():
        return f"did you mean data={text}?"
    if "/" in text or Path(text).suffix:
        return f"if it is your data, write data={text}; there is no such path: {nearest_path(text)}"
    hints = get_type_hints(Run, include_extras=True).items()
    known = {kind: f"{name}={kind}" for name, hint in hints for kind in spec.members(hint)}
    known |= {name: f"{name}=VALUE" for name in get_type_hints(Run)}
    close = nearest_name(text, known)
    return f"did you mean {known[close]}?" if close else "as data=shapes2d, steps=50 or seed=3"


def _data_assignments(text: str) -> list[str]:
    """Read data=NAME, a dataset, or data=PATH, a file of arrays or a folder of images."""
    known = spec.members(Data)
    if text in known:
        return [f"data={text}"]
    if Path(text).exists():
        data = from_path(text)
        return [f"data={data.kind}", f"data.path={data.path}"]
    if ":" in text or text in announced():
        return [f"data={text}"]
    is_path = "/" in text or Path(text).suffix
    hint = nearest_path(text) if is_path else nearest(text, [*known, *near_paths(text)])
    raise ValueError(
        f"data: {text!r} is neither a dataset nor a file or folder that exists: {hint}"
    )


# ---- writing


def train_arguments(run: Run, dataset: Dataset) -> list[str]:
    """Return the arguments of `unweave train` that reproduce a run, in lines.

    >>> import torch
    >>> dataset = Run().data.load(torch.device("cpu"))
    >>> train_arguments(Run(seed=3).resolve(dataset), dataset)
    ['seed=3']
    """
    lines: list[str] = []
    for arguments in _arguments(run, dataset).values():
        start = len(lines)  # what belongs together starts a new line
        for argument in arguments:
            if len(lines) > start and len(lines[-1]) + len(argument) < _LINE_WIDTH:
                lines[-1] += f" {argument}"
            else:
                lines.append(argument)
    return lines


def longer_arguments(run: Run, dataset: Dataset, steps: int) -> list[str]:
    """Return what to change in the arguments of a run so that only its steps change.

    The steps come first. The warm-up that is chosen for own data depends on the steps if they are
    few, so it has to be named.
    """
    own = _arguments(run, dataset)
    longer = _arguments(dataclasses.replace(run, steps=steps), dataset)
    added = (each for name, every in longer.items() for each in every if each not in own[name])
    return [f"steps={steps}", *(each for each in added if not each.startswith("steps="))]


def _arguments(run: Run, dataset: Dataset) -> dict[str, list[str]]:
    """Return the arguments that reproduce a run, quoted for a shell, by the field of the run."""
    usual, unset = default_fields(run, dataset), Run()
    every = {}
    for name, value in fields_of(run).items():
        # A command that sets fields of what `resolve` chooses has to name it first.
        named = getattr(unset, name) is None and value != usual[name]
        arguments = differences(name, value, None if named else usual[name])
        if name == "data" and isinstance(value, InMemory):
            arguments = [f"data={_SAVED_ARRAY}", *differences("data.split", value.split, "all")]
        if name == "data" and is_own_data(run.data) and takes_all(run.data):
            arguments.append(f"data{'.source' * isinstance(run.data, Selected)}.split=all")
        every[name] = [shlex.quote(argument) for argument in arguments]
    return every


def data_text(data: Data) -> str:
    """Write data as commands take them: a name or path, fields that were set, and selections.

    >>> from unweave.data import Shapes2D, Subset
    >>> data_text(Selected(Shapes2D(side=32), (Subset(5000),)))
    'shapes2d side=32 --select subset:count=5000'
    """
    if isinstance(data, InMemory):
        return f"an array {data.shape} of {data.dtype} in memory"
    if isinstance(data, Selected):
        selections = [f"--select {shlex.quote(selection_text(each))}" for each in data.select]
        features = [f"--features {shlex.quote(data.features)}"] if data.features else []
        return " ".join([data_text(data.source), *features, *selections])
    fields, usual = fields_of(data), defaults_of(type(data))
    if isinstance(data, Paired):
        name = f"pairs of {data_text(fields.pop('source'))}"
    else:
        name = shlex.quote(fields.pop("path")) if isinstance(data, (Arrays, Folder)) else data.kind
    changed = [shlex.quote(each) for f, v in fields.items() for each in differences(f, v, usual[f])]
    return " ".join([name, *changed])


def selection_text(selection: AnySelection) -> str:
    """Write a selection as `selection_from` reads it.

    >>> combinations = ({"shape": ("heart",), "x": (0, 1)}, {"scale": (5,)})
    >>> selection_text(HeldOut(combinations, split="held-out"))
    'held-out:shape=heart,x=0+1/scale=5,split=held-out'
    """
    fields, usual = fields_of(selection), defaults_of(type(selection))
    texts = []
    if isinstance(selection, HeldOut):
        classes = fields.pop("classes")
        combinations = (classes,) if isinstance(classes, dict) else classes
        each = ([f"{k}={'+'.join(map(str, v))}" for k, v in one.items()] for one in combinations)
        texts = ["/".join(map(",".join, each))]
    for name, value in fields.items():
        if value != usual.get(name, dataclasses.MISSING):
            joined = "+".join(value) if isinstance(value, tuple) else _write_value(value)
            texts.append(f"{name}={joined}")
    return f"{selection.kind}:{','.join(texts)}"


def differences(path: str, value: Any, default: object) -> list[str]:
    """Return assignments that turn the default into the value."""
    if value == default:
        return []
    if isinstance(value, ImportedByName):
        return [f"{path}={value.argument}"]
    if not is_spec(value):
        plain = _PLAIN_COLUMNS if path.rpartition(".")[2] in _COLUMN_NAMES else _PLAIN
        return [f"{path}={_write_value(value, plain)}"]
    assignments = [] if type(value) is type(default) else [f"{path}={value.kind}"]
    usual = defaults_of(type(value)) if assignments else fields_of(default)
    for name, field in fields_of(value).items():
        assignments += differences(f"{path}.{name}", field, usual.get(name, dataclasses.MISSING))
    return assignments


def _write_value(value: object, plain: re.Pattern[str] = _PLAIN) -> str:
    """Write a value as plain text if that cannot be misread, otherwise as JSON."""
    if isinstance(value, str) and plain.fullmatch(value) and value not in _JSON_WORDS:
        return value
    return json.dumps(_to_json(value), ensure_ascii=False)


def _to_json(value: object) -> object:
    if isinstance(value, (tuple, list)):
        return [_to_json(item) for item in value]
    return spec.to_json(value) if is_spec(value) else value


# ---- fields and defaults of specs


def default_fields(run: Run, dataset: Dataset) -> dict[str, Any]:
    """Return the fields of the run on the same data that has every other field at its default.

    For a user's own data these are the settings that were chosen to suit it.
    """
    own = is_own_data(run.data)
    usual = suggest(run, dataset) if own else Run(data=run.data)
    # The default batch may be larger than the dataset, and could not be resolved.
    small = dataclasses.replace(usual, batch_size=1).resolve(dataset)
    network = small.network if run.objective.autoencodes else None
    steps = suggested_steps(dataset) if own else usual.steps
    fixed = {"data": Run().data, "network": network, "batch_size": usual.batch_size, "steps": steps}
    return fields_of(small) | fixed


def is_spec(value: object) -> bool:
    """Whether a value is a spec."""
    return dataclasses.is_dataclass(value) or isinstance(value, BaseModel)


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a spec, without its kind."""
    if isinstance(value, BaseModel):
        return dict(value.__pydantic_extra__ or {})
    names = [field.name for field in dataclasses.fields(value) if field.name != "kind"]
    return {name: getattr(value, name) for name in names}


def defaults_of(cls: type) -> dict[str, Any]:
    """Return the defaults of a class of specs, by field."""
    if not dataclasses.is_dataclass(cls):
        return {}
    return {field.name: field.default for field in dataclasses.fields(cls)}
