"""On which machine the next replica is to be."""

from collections import Counter
from collections.abc import Sequence
from typing import Any


def emptiest_node(nodes: Sequence[dict[str, Any]], taken: Sequence[str]) -> str:
    """The machine with the fewest replicas for its cores: one that dies should take few along.

    Ray's own way of spreading forgets where the replicas that are left have come to be.

    Args:
        nodes: As Ray describes them.
        taken: The name of its machine, for each replica.

    Returns:
        Its name; nothing if no machine has a core to give.

    Example:
        >>> nodes = [
        ...     {"NodeID": "a", "Alive": True, "Resources": {"CPU": 4.0}},
        ...     {"NodeID": "b", "Alive": True, "Resources": {"CPU": 8.0}},
        ...     {"NodeID": "c", "Alive": False, "Resources": {"CPU": 64.0}},
        ... ]
        >>> [emptiest_node(nodes, taken) for taken in ([], ["b"], ["b", "b", "a"])]
        ['b', 'a', 'b']
    """
    there = Counter(taken)
    cores = {node["NodeID"]: node["Resources"].get("CPU", 0.0) for node in nodes if node["Alive"]}
    free = [name for name, count in cores.items() if count >= 1]
    return min(free, key=lambda name: ((there[name] + 1) / cores[name], name), default="")
