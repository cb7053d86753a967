from shop.stock import Warehouse


def test_shipping_frees_the_reservation():
    warehouse = Warehouse({"pen": 7})
    warehouse.reserve("pen", 3)
    warehouse.ship("pen", 3)
    assert warehouse.available("pen") == 4
