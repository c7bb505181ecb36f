"""Finds change points with Apache Otava, in a process of its own.

It reads a request of several series from each line, as JSON, and writes a list of change points for
each series: ``[index, mean before, mean after, p]``. It imports nothing of this project.
"""

import json
import sys

from otava.analysis import compute_change_points

for line in sys.stdin:
    request = json.loads(line)
    change_points = [
        [
            [
                int(point.index),
                float(point.stats.mean_1),
                float(point.stats.mean_2),
                float(point.stats.pvalue),
            ]
            for point in compute_change_points(values, max_pvalue=request["p"])[0]
        ]
        for values in request["series"]
    ]
    sys.stdout.write(json.dumps(change_points) + "\n")
    sys.stdout.flush()
