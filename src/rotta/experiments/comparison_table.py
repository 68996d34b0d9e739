"""The paper's two main tables: every method over the fifteen corruptions, in its order."""

from rotta.experiments.cifar import COMPARED, TITLES, on_cifar
from rotta.experiments.experiment import Blocks, Experiment, Presentation
from rotta.experiments.measured import average, per_domain
from rotta.experiments.printed import printed
from rotta.report.beside import Grid
from rotta.report.names import method_name

# NOTE's authors use a lower rate than the paper's optimiser; both are shown
_METHODS = (*COMPARED[:-1], "note:lr=0.001", "rotta")


def comparison_experiment(name: str, dataset: str) -> Experiment:
    """All methods along the practical stream of one dataset."""

    def present(blocks: Blocks) -> Presentation:
        paper = printed(dataset)
        averages = tuple(
            (
                method_name(label),
                (average(blocks, dataset, label, paper.get(label, {}).get("average")),),
            )
            for label in _METHODS
        )
        title = TITLES[dataset]
        return Presentation(
            grids=(
                Grid("average", f"{title}: average error, %", "method", ("average",), averages),
                per_domain(
                    blocks,
                    dataset,
                    _METHODS,
                    name="corruptions",
                    title=f"{title}: error per corruption, %",
                    printed=paper,
                ),
            )
        )

    title = f"{TITLES[dataset]}: eight methods over fifteen corruptions, the paper's order"
    return Experiment(name, title, (on_cifar(dataset, _METHODS),), present)
