"""The questions of the PostgreSQL pack, in SQL over the views ``ett_v_*``, apart from layout."""
