"""Prices, discounts and tax."""

from decimal import Decimal

from shop.money import Money

TAX = {"DE": Decimal("0.19"), "PL": Decimal("0.23"), "LU": Decimal("0.17")}

# quantity from which a discount applies -> share of the price that is taken off
DISCOUNTS = {10: Decimal("0.05"), 50: Decimal("0.10"), 100: Decimal("0.15")}


def bulk_discount(quantity: int) -> Decimal:
    """The discount for a quantity: the largest step that it has reached."""
    reached = [step for step in DISCOUNTS if quantity > step]
    return DISCOUNTS[max(reached)] if reached else Decimal(0)


def line_price(unit: Money, quantity: int) -> Money:
    """Price of a line of the cart after its bulk discount."""
    return unit.times(Decimal(quantity) * (1 - bulk_discount(quantity)))


def with_tax(net: Money, country: str) -> Money:
    """Gross price in a country."""
    return net.times(1 + TAX[country])
