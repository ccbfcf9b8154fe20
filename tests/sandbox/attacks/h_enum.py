from enum import Enum
from typing import NamedTuple


class Colour(Enum):
    RED = 1
    BLUE = 2

    @classmethod
    def named(cls, name):
        return cls[name.upper()]


class Point(NamedTuple):
    x: int
    y: int = 0

    def moved(self, dx):
        return self._replace(x=self.x + dx)
