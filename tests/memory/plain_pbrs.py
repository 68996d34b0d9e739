"""Prediction-balanced reservoir sampling with lists; the reference for the bank of tensors."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class PlainPBRS:
    """Places in order of their first occupation; each sample brings three numbers in [0, 1)."""

    capacity: int
    held: list[tuple[int, int]] = field(default_factory=list)
    seen: Counter[int] = field(default_factory=Counter)

    def insert(self, name: int, label: int, draw: list[float]) -> None:
        self.seen[label] += 1
        if len(self.held) < self.capacity:
            self.held.append((name, label))
            return
        count = Counter(label for _, label in self.held)
        largest = sorted(c for c in count if count[c] == max(count.values()))
        if label not in largest:
            gives = self.pick(largest, draw[0])
        elif draw[2] <= count[label] / self.seen[label]:
            gives = label
        else:
            return
        places = [place for place, (_, held) in enumerate(self.held) if held == gives]
        self.held[self.pick(places, draw[1])] = (name, label)

    @staticmethod
    def pick(among: list[int], draw: float) -> int:
        return among[int(draw * len(among))]
