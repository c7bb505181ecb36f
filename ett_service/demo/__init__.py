"""A made-up fleet with known properties: what it did over some weeks, as events on the wire."""
