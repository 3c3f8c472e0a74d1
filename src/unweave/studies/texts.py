"""The texts of a figure: captions, setting and claims, from TOML files beside its module.

Keys of a file: `setting`, `seeds`, `noticed` (optional), `[captions]` by drawing ("main" is the
first), and `[claims.<name>]` with `statement`, `where`, `expected`, `got`, and `note` or a note for
each verdict (`fail`, `undecided`). A claim with a `verdict` of its own is not judged. Values in
braces are filled in by `str.format`; a line break within a paragraph counts as a space.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from unweave.studies.study import Group, Network, Results
from unweave.studies.workspace import Claim, Measured, Result, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SO_FAR = "so far: "  # begins what was measured before all networks are trained


class Texts:
    """The texts of `<name>.toml` in a package; later files add to earlier ones."""

    def __init__(self, package: str, *names: str) -> None:
        self._texts: dict[str, str] = {}
        self._tables: dict[str, dict[str, Any]] = {"captions": {}, "claims": {}}
        for name in names:
            content = tomllib.loads((files(package) / f"{name}.toml").read_text(encoding="utf-8"))
            for table, own in self._tables.items():
                own |= content.pop(table, {})
            self._texts |= content

    def __call__(self, name: str, /, **values: Any) -> str:
        """Return a text with its values filled in."""
        return fill(self._texts[name], values)

    def claim(
        self,
        name: str,
        /,
        holds: bool | None = None,
        *,
        contradicted: bool = True,
        needs: Iterable[Group] = (),
        **values: Any,
    ) -> Claim:
        """Return a claim with its verdict: see `judge` for `holds` and `contradicted`.

        The claim is "not measured yet" until all networks of the groups in `needs` are trained; if
        each group has some, what they show so far is stated.
        """
        texts = {key: fill(text, values) for key, text in self._tables["claims"][name].items()}
        groups = list(needs)
        text = (texts["statement"], texts["where"], texts["expected"])
        if not all(group.complete for group in groups):
            some = all(group.networks for group in groups) and texts["got"] != "–"
            got = f"{SO_FAR}{texts['got']}" if some else "–"
            done, total = (sum(g.done for g in groups), sum(g.total for g in groups))
            note = f"{done} of {total} networks are trained."
            return Claim(*text, got, "not measured yet", note, name)
        note = texts.get("fail" if contradicted else "undecided") or texts.get("note", "")
        if verdict := texts.get("verdict"):
            return Claim(*text, texts["got"], verdict, note or texts["note"], name)  # type: ignore[arg-type]
        assert holds is not None, f"{name} has no verdict of its own"
        got = texts["got"]
        return judge(*text, got, bool(holds), note, contradicted=bool(contradicted), name=name)

    def above(self, name: str, /, *differences: Measured, **values: Any) -> Claim:
        """Judge that differences are above 0; one that is below 0, beyond its interval, denies it.

        `values` are those of `claim`, which also takes `needs`.
        """
        holds = all(each.low > 0 for each in differences)
        denied = any(each.high < 0 for each in differences)
        return self.claim(name, holds, contradicted=denied, **values)

    def below(self, name: str, /, *differences: Measured, **values: Any) -> Claim:
        """Judge that differences are below 0, as `above` judges that they are above it."""
        turned = [Measured(-each.value, -each.high, -each.low) for each in differences]
        return self.above(name, *turned, **values)

    def result(
        self,
        drawings: dict[str, Figure],
        claims: Sequence[Claim],
        /,
        *,
        results: Results | None = None,
        networks: tuple[int, int] | None = None,
        used: Sequence[Network] | None = None,
        noticed: str | None = None,
        **values: Any,
    ) -> Result:
        """Return a result with the captions of its drawings; `values` are filled into all texts.

        With `results`, so are the numbers of networks: {there}, {planned}, {failed} and {seeds}.
        `used` are the networks that the figure is about, by default all of its study.
        """
        if results is not None:
            values = _counts(results) | values
        captions = self._tables["captions"]
        return Result(
            drawings,
            {name: fill(captions[name or "main"], values) for name in drawings},
            tuple(claims),
            self("setting", **values),
            self("seeds", **values),
            self("noticed", **values) if noticed is None and "noticed" in self._texts
            else noticed or "",
            networks,
            None if used is None else tuple(network.key for network in used),
        )  # fmt: skip


def _counts(results: Results) -> dict[str, Any]:
    """Return what texts say about how much of a study is trained."""
    failed = sum(network.failure is not None for network in results.networks)
    return {
        "there": len(results.networks),
        "planned": len(results.study.runs),
        "failed": f", {failed} of which failed" if failed else "",
        "seeds": results.seeds,
    }


def fill(text: str, values: dict[str, Any]) -> str:
    r"""Fill values into a text, and join the lines of each paragraph.

    >>> fill("{n} of\nthem.\n\n{n:.1f}\n", {"n": 2})
    '2 of them.\n\n2.0'
    """
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(each.split("\n")) for each in paragraphs).format(**values)
