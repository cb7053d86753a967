"""From a cart to an order."""

from shop.money import Money
from shop.pricing import line_price, with_tax
from shop.stock import Warehouse


def total(cart: dict[str, int], prices: dict[str, Money], country: str) -> Money:
    """Gross total of a cart."""
    net = Money(0)
    for article, quantity in cart.items():
        net += line_price(prices[article], quantity)
    return with_tax(net, country)


def place(cart: dict[str, int], prices: dict[str, Money], country: str, warehouse: Warehouse) -> Money:
    """Reserve everything in the cart and return what is to be paid."""
    for article, quantity in cart.items():
        warehouse.reserve(article, quantity)
    return total(cart, prices, country)
