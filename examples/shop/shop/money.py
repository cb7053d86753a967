"""Amounts of money in minor units."""

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal


@dataclass(frozen=True)
class Money:
    """An amount in minor units (cents) of one currency."""

    minor: int
    currency: str = "EUR"

    def __add__(self, other: "Money") -> "Money":
        if other.currency != self.currency:
            raise ValueError(f"cannot add {other.currency} to {self.currency}")
        return Money(self.minor + other.minor, self.currency)

    def times(self, factor: Decimal) -> "Money":
        """Multiply by a factor; half a cent is rounded up."""
        exact = Decimal(self.minor) * factor
        return Money(int(exact.quantize(Decimal(1), rounding=ROUND_HALF_UP)), self.currency)
