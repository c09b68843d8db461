"""The operator's orders: each is one function, carried out by the host that it concerns."""
