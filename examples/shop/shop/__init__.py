"""A shop: cart, prices, stock and orders."""
