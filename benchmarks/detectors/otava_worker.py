"""Finds change points with Apache Otava: a program of its own, so that its imports stay there.

It reads one JSON list of series a line and writes, for each, a list of its change points:
``[index, mean before, mean after, p]``. It imports nothing of this package.
"""

import json
import sys

from otava.analysis import compute_change_points

for line in sys.stdin:
    request = json.loads(line)
    found = [
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
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
