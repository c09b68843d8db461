"""What the hosts of one fleet tell one another: that they live, news, questions, orders.

PostgreSQL carries all of it. No host listens for another one: each dials the database.
"""
