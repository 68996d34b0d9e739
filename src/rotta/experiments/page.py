"""The page of all experiments: what is measured beside what is printed, and where it comes from."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from rotta.atomic import replacing
from rotta.experiments.experiment import Blocks, Experiment, Presentation
from rotta.experiments.origins import limit_of, origin_lines, seeds_of
from rotta.experiments.reproduce import ONE_SEED, progress_of, results_folder
from rotta.experiments.store import QUICK_LIMIT, load
from rotta.report.beside import Grid, titled, to_csv, to_latex, to_markdown
from rotta.report.escaping import markdown_text

_MANY = 4  # more tables than this are folded away behind the first
_PICTURES = (".png", ".svg")
_NOT_YET = "not run yet"

_HEAD = """\
# Reproduction

The tables and figures of *Robust Test-Time Adaptation in Dynamic Scenarios* (Yuan, Xie and Li,
CVPR 2023), measured with this package. `rotta reproduce --page docs/reproduction.md` writes this
page from the files in `results/`.

How to read it:

- Values are errors in percent: lower is better.
- *printed* is what the paper prints, *measured* what this package measures, *difference* measured
  less printed.
- 26.6 ± 0.1 (3) is the mean and the standard deviation over three seeds; 26.6 is one seed.
- A command runs all of its experiment, and adds what is missing here. CoTTA, an order of magnitude
  dearer than the others, has one seed.
- A + after a commit says that files had been changed since: these walks are older than
  `rotta reproduce`, and were taken over from the project's first comparison.
- The best of what is measured in a column is **bold**. What is not measured is `missing`; where
  the paper prints nothing, nothing is beside it.
- *Quick* results are over {quick:,} images per domain, and kept apart from those over all images:
  a shorter stream leaves less time to adapt, and less to collapse; and a class of few images does
  not stay for long, so that CIFAR100-C is less correlated, to the benefit of BN and CoTTA. Their
  difference to what is printed is a hint, no more.
- What float16 changes has been measured for RoTTA alone: 0.1 points over the main tables.
"""


def presented(experiment: Experiment, blocks: Blocks, limit: int | None) -> Presentation:
    """What to show of results; titles say if they are over a part of the images.

    Args:
        experiment: Whose results.
        blocks: What of them there is.
        limit: Images per domain; none for all.
    """
    shown = experiment.present(blocks)
    if limit is None:
        return shown
    word = "quick" if limit == QUICK_LIMIT else "a part"
    note = f"{word}: {limit:,} images per domain"
    return replace(
        shown,
        grids=tuple(replace(grid, note=note) for grid in shown.grids),
        curves=tuple(replace(c, title=titled(c.title, note)) for c in shown.curves),
    )


def write_files(experiment: Experiment, blocks: Blocks, folder: Path) -> list[Path]:
    """Write tables as LaTeX and CSV, figures as PNG and SVG, and pictures that need no results.

    Args:
        experiment: Whose results.
        blocks: What of them there is.
        folder: For the files.

    Returns:
        Their paths.
    """
    shown = presented(experiment, blocks, limit_of(blocks))
    files = []
    for grid in shown.grids if blocks else ():
        for suffix, text in ((".tex", to_latex(grid)), (".csv", to_csv(grid))):
            files.append(folder / f"{grid.name}{suffix}")
            _write(files[-1], text)
    for curves in shown.curves:
        for suffix in _PICTURES if curves.measured else ():
            files.append(folder / f"{curves.name}{suffix}")
            shown.draw_curves(curves, files[-1])
    if experiment.draw:
        folder.mkdir(parents=True, exist_ok=True)
        files += experiment.draw(folder)
    return files


def write_page(experiments: Mapping[str, Experiment], results: Path, page: Path) -> None:
    """Write the page, in Markdown.

    It links to the files that :func:`write_files` has left beside the results.

    Args:
        experiments: In the order of the page.
        results: Folder of all results.
        page: Where to write.

    Raises:
        ValueError: A file there holds no results.
    """
    parts = [
        _HEAD.format(quick=QUICK_LIMIT),
        _summary(experiments.values(), results),
        *(_section(experiment, results, page) for experiment in experiments.values()),
    ]
    _write(page, "\n".join(parts))


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _summary(experiments: Iterable[Experiment], results: Path) -> str:
    lines = ["| experiment | command | all images | quick |", "| :-- | :-- | :-- | :-- |"]
    for experiment in experiments:
        name, title = experiment.name, markdown_text(experiment.title)
        full, quick = (_state(experiment, results, limit) for limit in (None, QUICK_LIMIT))
        command = f"`rotta reproduce {name}`"
        lines.append(f"| [{title}](#{name}) | {command} | {full} | {quick} |")
    return "## Summary\n\n" + "\n".join(lines) + "\n"


def _state(experiment: Experiment, results: Path, limit: int | None) -> str:
    """How far an experiment is; a method counts as soon as it has walked with one seed."""
    folder = results_folder(results, experiment, limit)
    if not experiment.variants:
        drawn = "complete" if _pictures(folder) else _NOT_YET
        return drawn if limit is None else ""
    done, total = progress_of(experiment, results, limit)
    if not done:
        return _NOT_YET
    return ("complete" if done == total else f"{done} of {total} walks") + _seeds(load(folder))


def _seeds(blocks: Blocks) -> str:
    """Those of every method, and those of some: a table may have more of its main method."""
    counts = [
        {int(seed) for seed in method.seeds}
        for block in blocks.values()
        for label, method in block.methods.items()
        if not label.startswith(ONE_SEED)
    ]
    if not counts:
        return ""
    whole = set.intersection(*counts)
    part = set.union(*counts) - whole
    words = f", seed{'' if len(whole) == 1 else 's'} {_listed(whole)}" if whole else ""
    return words + (f"; some rows also {_listed(part)}" if part else "")


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))


def _section(experiment: Experiment, results: Path, page: Path) -> str:
    anchor = f'<a id="{experiment.name}"></a>'
    head = f"{anchor}\n\n## {markdown_text(experiment.title)}"
    if not experiment.variants:
        pictures = _pictures(results_folder(results, experiment, None))
        shown = [_picture(experiment.title, files, page) for files in pictures]
        return _paragraphs([head, _command(experiment, {}), *(shown or [_sentence(_NOT_YET)])])
    full = _part(experiment, results, None, page)
    quick = _part(experiment, results, QUICK_LIMIT, page)
    if quick:
        said = set(full)  # remarks on the paper need not be made twice
        quick = [
            f"### Quick: {QUICK_LIMIT:,} images per domain",
            *(q for q in quick if q not in said),
        ]
        full = full or [_command(experiment, {}), "Not run over all images yet."]
    if not full:
        full = [_command(experiment, {}), _sentence(_NOT_YET), *_only_printed(experiment)]
    return _paragraphs([head, *full, *quick])


def _part(experiment: Experiment, results: Path, limit: int | None, page: Path) -> list[str]:
    """Paragraphs on the results of a full or of a quick run; none if there are none."""
    folder = results_folder(results, experiment, limit)
    blocks = load(folder)
    if not blocks:
        return []
    shown = presented(experiment, blocks, limit)
    tables = [_table(grid, folder, page) for grid in shown.grids]
    figures = [
        _picture(curves.title, [folder / f"{curves.name}{suffix}" for suffix in _PICTURES], page)
        if curves.measured
        else f"{markdown_text(curves.title)}: missing"
        for curves in shown.curves
    ]
    head, tail = (tables, []) if len(tables) <= _MANY else (tables[:1], tables[1:])
    return [
        _command(experiment, blocks),
        "\n".join(origin_lines(blocks)),
        *head,
        *figures,
        *([_folded(f"{len(tail)} more tables", tail)] if tail else []),
        *(f"- {remark}" for remark in shown.remarks),
    ]


def _only_printed(experiment: Experiment) -> list[str]:
    """What is printed of an experiment without any results."""
    tables = [to_markdown(grid).rstrip() for grid in experiment.present({}).grids if grid.printed]
    return [_folded("What is printed", tables)] if tables else []


def _command(experiment: Experiment, blocks: Blocks) -> str:
    words = ["rotta reproduce", experiment.name]
    seeds = seeds_of(blocks)
    if limit_of(blocks) is not None:
        words.append("--quick")
    if seeds not in ([], [0]):
        words.append(f"--seeds {','.join(map(str, seeds))}")
    return f"```\n{' '.join(words)}\n```"


def _table(grid: Grid, folder: Path, page: Path) -> str:
    files = [folder / f"{grid.name}{suffix}" for suffix in (".tex", ".csv")]
    return f"{to_markdown(grid)}\n{_links(files, page)}"


def _pictures(folder: Path) -> list[list[Path]]:
    """Those in a folder; files of one picture together."""
    files = sorted(file for file in folder.glob("*") if file.suffix in _PICTURES)
    return [list(same) for _, same in groupby(files, key=lambda file: file.stem)]


def _picture(title: str, files: Sequence[Path], page: Path) -> str:
    return f"![{markdown_text(title)}]({_relative(files[0], page)})\n\n{_links(files, page)}"


def _links(files: Sequence[Path], page: Path) -> str:
    names = {".tex": "LaTeX", ".csv": "CSV", ".png": "PNG", ".svg": "SVG"}
    return " · ".join(f"[{names[file.suffix]}]({_relative(file, page)})" for file in files)


def _relative(file: Path, page: Path) -> str:
    return quote(Path(os.path.relpath(file, page.parent)).as_posix())


def _folded(summary: str, paragraphs: Sequence[str]) -> str:
    head = f"<details>\n<summary>{summary}</summary>"
    return "\n\n".join([head, *paragraphs, "</details>"])


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + "."


def _paragraphs(paragraphs: Sequence[str]) -> str:
    return "\n\n".join(paragraphs) + "\n"
