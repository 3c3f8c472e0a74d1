"""Show progress: bars on a terminal or in a notebook, otherwise a line now and then."""

import importlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from markupsafe import Markup
from rich.console import RenderableType
from rich.filesize import decimal
from rich.progress import Progress, Task, TaskID
from rich.text import Text

from unweave.core.console import PlainConsole

_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BETWEEN_DISPLAYS = 0.2  # in a notebook
_BAR = 16  # characters of a bar that has room
_LEAST_BAR, _LEAST_NAME = 4, 6  # characters below which a bar or a name is left out


class LineLayout(NamedTuple):
    """The texts of one line of progress, and the width of the bar after its name."""

    name: str
    bar: int
    texts: str


def fit_line(name: str, texts: Sequence[str], extra: Sequence[str], width: int) -> LineLayout:
    """Choose the parts of a progress line that fit into a width.

    `texts` are always shown; then, as far as there is room, a short bar, extra texts, the name, and
    a longer bar.

    >>> fit_line("factor-vae seed 0", ["20/50", "0:01:40", "loss 73.19"], ["rate 12.1"], 80)
    LineLayout(name='factor-vae seed 0', bar=16, texts='20/50 0:01:40 loss 73.19  rate 12.1')
    >>> fit_line("factor-vae seed 0", ["20/50", "0:01:40", "loss 73.19"], ["rate 12.1"], 47)
    LineLayout(name='facto…', bar=4, texts='20/50 0:01:40 loss 73.19  rate 12.1')
    """
    line = " ".join(texts)
    room = width - len(line) - 1  # for a bar, and a name with a space after it
    if room < _LEAST_BAR:
        return LineLayout("", 0, line)
    for text in extra:
        if _LEAST_BAR + 2 + len(text) <= room:
            line += f"  {text}"
            room -= 2 + len(text)
    spare = room - _LEAST_BAR - 1
    shown = name if len(name) <= spare else f"{name[: spare - 1]}…" if spare >= _LEAST_NAME else ""
    room -= len(shown) + 1 if shown else 0
    return LineLayout(shown, min(_BAR, room), line)


class ProgressDisplay:
    """How much of one or several tasks is done.

    Args:
        console: where to print.
        totals: the size of each task, by name; None if it is not known.
        completed: what is done before the start.
        in_bytes: whether sizes are bytes.
        quiet: print no line at all if everything is done within seconds. Bars are always shown.
    """

    def __init__(
        self,
        console: PlainConsole,
        totals: Mapping[str, int | None],
        completed: int = 0,
        in_bytes: bool = False,
        quiet: bool = True,
    ) -> None:
        self.console, self.totals, self.quiet = console, dict(totals), quiet
        self.done, self.unit = dict.fromkeys(totals, completed), " bytes" if in_bytes else ""
        self._last, self._line, self._detail = time.monotonic(), "", ""
        self._bars = _Bars(console, in_bytes)
        self._tasks = {name: self._bars.add(name, totals[name], completed) for name in totals}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.quiet:
            self._detail = ""
        self._bars.stop()
        if not self._bars.shown and (self._line or not self.quiet):
            self._print()

    def add(self, name: str, count: int = 1) -> None:
        """Count more of a task as done."""
        self.update(name, self.done[name] + count)

    def begin(self, name: str, item: str, slow: bool = False) -> None:
        """Name the item of a task that is being worked on; a slow one gets a line at once."""
        self.update(name, detail=[f"now {item}"], due=slow)

    def update(
        self,
        name: str,
        completed: int | None = None,
        total: int | None = None,
        detail: Sequence[str] = (),
        due: bool = False,
    ) -> None:
        """Set how much of a task is done; `due` prints a line however recent the last one is.

        A bar shows the first text of `detail`, and the others if they fit.
        """
        self.done[name] = self.done[name] if completed is None else completed
        self.totals[name] = total or self.totals[name]
        self._detail = "  ".join(detail)
        self._bars.update(
            self._tasks[name], completed=self.done[name], total=self.totals[name], detail=detail
        )
        self._bars.redisplay()
        if not self._bars.shown:
            now = time.monotonic()
            if due or now - self._last >= _SECONDS_BETWEEN_LINES:
                self._last = now
                self._print()

    def _print(self) -> None:
        counts = [f"{name} {self.done[name]:,}{self._of(name)}" for name in self.totals]
        line = ", ".join([*counts, self._detail] if self._detail else counts)
        if line != self._line:
            self.console.print(line, soft_wrap=True)
        self._line = line

    def _of(self, name: str) -> str:
        total = self.totals[name]
        return f"{self.unit}" if total is None else f" of {total:,}{self.unit}"


class _Bars(Progress):
    """A line with a bar for each task, in a terminal or in a notebook's output."""

    def __init__(self, console: PlainConsole, in_bytes: bool) -> None:
        self.in_bytes, self._handle, self._displayed = in_bytes, None, 0.0
        super().__init__(console=console, disable=not console.is_terminal or console.is_jupyter)

    @property
    def shown(self) -> bool:
        """Whether there are bars; otherwise lines are printed."""
        return self.console.is_jupyter or not self.disable

    def add(self, name: str, total: int | None, completed: int) -> TaskID:
        return self.add_task(name, total=total, completed=completed, detail=())

    def start(self) -> None:
        super().start()
        self.redisplay(due=True)

    def stop(self) -> None:
        super().stop()
        self.redisplay(due=True)

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            yield self._line(task)

    def _line(self, task: Task) -> Text:
        width, extra = self.console.width, task.fields["detail"][1:]
        layout = fit_line(task.description, self._texts(task), extra, width)
        glyph = "-" if self.console.options.ascii_only else "━"
        full = round(layout.bar * _share(task))
        text = Text(no_wrap=True, overflow="crop")
        text.append(f"{layout.name} " if layout.name else "")
        text.append(glyph * full, "bar.complete").append(glyph * (layout.bar - full), "bar.back")
        return text.append(f" {layout.texts}" if layout.bar else layout.texts)

    def _texts(self, task: Task) -> list[str]:
        """Return the texts that are always shown: the count, the time left, the first detail."""
        return [self._count(task), _left(task), *task.fields["detail"][:1]]

    def _count(self, task: Task) -> str:
        sizes = [task.completed] if task.total is None else [task.completed, task.total]
        return "/".join(decimal(int(n)) if self.in_bytes else str(int(n)) for n in sizes)

    def redisplay(self, due: bool = False) -> None:
        """Replace the bars in a notebook, a few times a second."""
        if not self.console.is_jupyter:
            return
        now = time.monotonic()
        if not due and now - self._displayed < _SECONDS_BETWEEN_DISPLAYS:
            return
        self._displayed = now
        ipython: Any = importlib.import_module("IPython.display")
        html = ipython.HTML(str(self._html()))
        if self._handle is None:
            self._handle = ipython.display(html, display_id=True)
        else:
            self._handle.update(html)

    def _html(self) -> Markup:
        row = Markup(
            '<div style="display:flex;gap:.8em;align-items:center;font-size:.9em;'
            'font-variant-numeric:tabular-nums"><span>{}</span>'
            '<progress style="width:14em" max="1" value="{:.4f}"></progress><span>{}</span></div>'
        )
        return Markup("").join(
            row.format(
                task.description,
                _share(task),
                " · ".join([*self._texts(task), *task.fields["detail"][1:]]),
            )
            for task in self.tasks
        )


def _share(task: Task) -> float:
    return min(1.0, task.completed / task.total) if task.total else 0.0


def _left(task: Task) -> str:
    """Return the time left as h:mm:ss, or dashes if it is not known yet."""
    seconds = 0.0 if task.finished else task.time_remaining
    if seconds is None:
        return "-:--:--"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
