"""Algorithm 1 of the paper, line by line, with lists; the reference for the bank of tensors."""

import math
from dataclasses import dataclass, field


@dataclass
class Item:
    name: int
    uncertainty: float
    age: int = 0


@dataclass
class PlainCSTU:
    """Per class a list in order of insertion, as the algorithm's text has it."""

    capacity: int
    num_classes: int
    lambda_t: float = 1.0
    lambda_u: float = 1.0
    bank: list[list[Item]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bank = [[] for _ in range(self.num_classes)]

    def score(self, age: int, uncertainty: float) -> float:
        timely = 1 / (1 + math.exp(-age / self.capacity))
        uncertain = uncertainty / math.log(max(2, self.num_classes))
        return self.lambda_t * timely + self.lambda_u * uncertain

    def insert(self, name: int, label: int, uncertainty: float) -> None:
        occupation = [len(items) for items in self.bank]
        new = Item(name, uncertainty)
        if occupation[label] < self.capacity / self.num_classes:
            if sum(occupation) < self.capacity:
                search: list[int] = []
            else:
                most = max(occupation)
                search = [c for c, o in enumerate(occupation) if o == most]
        else:
            search = [label]
        if not search:
            self.bank[label].append(new)
        else:
            worst, worst_score = None, -math.inf
            for c in search:
                for item in self.bank[c]:
                    score = self.score(item.age, item.uncertainty)
                    if score >= worst_score:  # on equal scores the later
                        worst, worst_score = (c, item), score
            assert worst is not None
            if self.score(0, uncertainty) < worst_score:
                self.bank[worst[0]].remove(worst[1])
                self.bank[label].append(new)
        for items in self.bank:
            for item in items:
                item.age += 1

    def contents(self) -> set[tuple[int, int, int]]:
        """(name, label, age) of all that it holds."""
        return {(i.name, c, i.age) for c, items in enumerate(self.bank) for i in items}
