"""Where in a stream which domain lies, as far as a result tells."""

from itertools import accumulate, pairwise

from rotta.report.names import short_domain_names
from rotta.report.svg import Stay
from rotta.results import Result


def stays(result: Result, num_samples: int) -> list[Stay]:
    """The domains one after the other, over all visits.

    Args:
        result: Its configuration says how many samples each domain has.
        num_samples: Of the whole stream.

    Returns:
        Nothing if the borders are not known.
    """
    order, visits = result.config.get("order") or [], result.config.get("visits") or 1
    sizes = result.config.get("domain_sizes") or []
    if result.config.get("arrival") == "mixed":  # domains alternate: there are no borders
        return []
    if not order or len(sizes) != len(order) or sum(sizes) * visits != num_samples:
        return []
    borders = pairwise(accumulate(sizes * visits, initial=0))
    names = short_domain_names(order) * visits
    return [Stay(name, start, end) for name, (start, end) in zip(names, borders, strict=True)]
