"""`debug_with_local_context`: from failing tests and traces to the code that likely causes them."""
