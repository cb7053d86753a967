"""Stock of one warehouse."""


class OutOfStock(Exception):
    """More was asked for than is there."""


class Warehouse:
    """Counts of articles, with reservations that expire when an order is paid or dropped."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = dict(counts)
        self.reserved: dict[str, int] = {}

    def available(self, article: str) -> int:
        """What can still be reserved."""
        return self.counts.get(article, 0) - self.reserved.get(article, 0)

    def reserve(self, article: str, quantity: int) -> None:
        """Set a quantity aside.

        Raises:
            OutOfStock: less than that is available.
        """
        if quantity > self.available(article):
            raise OutOfStock(f"{article}: {quantity} wanted, {self.available(article)} available")
        self.reserved[article] = self.reserved.get(article, 0) + quantity

    def ship(self, article: str, quantity: int) -> None:
        """Take a reserved quantity out of the warehouse."""
        self.counts[article] -= quantity
        self.reserved[article] -= quantity
