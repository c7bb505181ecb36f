"""Finds what changed for good: a scan over every subject, every cohort and every day of onset.

See ``docs/design/0015-detector.md``. Deterministic: the same sample, options and memory give the
same answer, whatever the order of cohorts and rows.
"""

import numpy as np

from ett_service.core.regression import Finding
from ett_service.detection.margins import groups
from ett_service.detection.multiplicity import adjusted, limit
from ett_service.detection.naming import is_outage_like, is_relabelled, told_once
from ett_service.detection.options import Memory, Options, Scan
from ett_service.detection.pursuit import BETTER, WORSE, Look, pursue
from ett_service.detection.rules.durations import watch_durations
from ett_service.detection.sample import Sample
from ett_service.detection.verdict import Context, is_told, judged
from ett_service.detection.window import Window


def scan(sample: Sample, options: Options, memory: Memory) -> Scan:
    """Look at all of *sample*."""
    window = Window.of(sample, options)
    found = groups(sample.cohorts)
    looks = [
        Look.at(watch_durations(subject, window, found, memory), options)
        for subject in sample.durations
    ]
    tested = [look.allowed.any(axis=1) for look in looks]
    series = int(sum(used.sum() for used in tested))
    limits = {
        sign: limit(
            np.concatenate([look.of(sign).p[used] for look, used in zip(looks, tested)]), options.q
        )
        for sign in (WORSE, BETTER)
    }
    candidates = [c for look in looks for c in pursue(look, limits, options)]
    watches = {look.watch.subject: look.watch for look in looks}
    findings: list[Finding] = []
    for sign in (WORSE, BETTER):
        for lasts in (True, False):
            same = [c for c in candidates if c.sign == sign and c.lasting.lasts is lasts]
            for c, q in zip(same, adjusted([c.p for c in same], series), strict=True):
                if q > options.q:
                    continue
                finding = judged(
                    c,
                    Context(q, is_outage_like(c, same), lasts and is_relabelled(c, watches)),
                    window,
                    options,
                )
                if is_told(finding):
                    findings.append(finding)
    findings = told_once(findings, [])
    findings.sort(key=lambda f: f.p)
    return Scan(tuple(findings), (), series)
