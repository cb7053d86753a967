from decimal import Decimal

import pytest

from shop.money import Money
from shop.pricing import bulk_discount, line_price, with_tax


@pytest.mark.parametrize(
    ("quantity", "discount"),
    [(1, "0"), (9, "0"), (10, "0.05"), (49, "0.05"), (50, "0.10"), (99, "0.10"), (100, "0.15"), (5000, "0.15")],
)
def test_bulk_discount_starts_at_its_step(quantity, discount):
    assert bulk_discount(quantity) == Decimal(discount)


def test_line_price_of_a_single_piece():
    assert line_price(Money(1999), 1) == Money(1999)


def test_line_price_of_ten_pieces_has_five_percent_off():
    assert line_price(Money(200), 10) == Money(1900)


@pytest.mark.parametrize(("country", "gross"), [("DE", 11900), ("PL", 12300), ("LU", 11700)])
def test_tax(country, gross):
    assert with_tax(Money(10000), country) == Money(gross)
