"""Two weeks side by side."""

from dashboards.build.kit import Transformation

THIS_WEEK = "last 7 days"
LAST_WEEK = "7 days before"

TO_MATRIX = Transformation(
    "groupingToMatrix", {"rowField": "week", "columnField": "category", "valueField": "Value"}
)
WEEK_COLUMN = r"week\category"
"""The column of weeks, as Grafana names it then; the others are categories."""
