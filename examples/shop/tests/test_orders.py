import pytest

from shop.money import Money
from shop.orders import place, total
from shop.stock import OutOfStock, Warehouse

PRICES = {"pen": Money(150), "lamp": Money(4990)}


def test_total_of_a_mixed_cart():
    assert total({"pen": 10, "lamp": 1}, PRICES, "PL") == Money(7890)


def test_place_reserves():
    warehouse = Warehouse({"pen": 20, "lamp": 2})
    place({"pen": 5}, PRICES, "DE", warehouse)
    assert warehouse.available("pen") == 15


def test_place_refuses_what_is_not_there():
    with pytest.raises(OutOfStock, match="lamp: 3 wanted, 2 available"):
        place({"lamp": 3}, PRICES, "DE", Warehouse({"lamp": 2}))
