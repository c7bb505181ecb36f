"""The objective as Sloth and Pyrra take it, for who keeps other objectives there."""

from ett_service.rules.objective import BUDGET_DAYS, Burn, Objective
from ett_service.rules.recording import INEFFECTIVE, WEIGHTED
from ett_service.rules.rule import Links, Plain

_NAME = "effective-training-time"
_DESCRIPTION = "Accelerator time of the fleet that is effective training."


def sloth(objective: Objective, links: Links) -> dict[str, Plain]:
    """Return an SLO of Sloth; its alerts need the windows of ``sloth_windows``."""
    fast, slow = objective.burns
    return {
        "version": "prometheus/v1",
        "service": "training",
        "slos": [
            {
                "name": _NAME,
                "objective": float(objective.target * 100),
                "description": _DESCRIPTION,
                "sli": {
                    "events": {
                        "error_query": f"sum(rate({INEFFECTIVE}[{{{{.window}}}}]))",
                        "total_query": f"sum(rate({WEIGHTED}[{{{{.window}}}}]))",
                    }
                },
                "alerting": {
                    "name": "EttBudgetBurn",
                    "annotations": {
                        "runbook_url": f"{links.runbooks.rstrip('/')}/{fast.name.lower()}.md"
                    },
                    "page_alert": {"labels": {"severity": fast.severity}},
                    "ticket_alert": {"labels": {"severity": slow.severity}},
                },
            }
        ],
    }


def sloth_windows(objective: Objective) -> dict[str, Plain]:
    """Return the windows of Sloth's alerts, which wants two for each severity: here the same."""

    def window(burn: Burn) -> dict[str, Plain]:
        return {
            "errorBudgetPercent": float(burn.budget_share * 100),
            "shortWindow": burn.short,
            "longWindow": burn.long,
        }

    fast, slow = (window(burn) for burn in objective.burns)
    return {
        "apiVersion": "sloth.slok.dev/v1",
        "kind": "AlertWindows",
        "spec": {
            "sloPeriod": f"{BUDGET_DAYS}d",
            "page": {"quick": fast, "slow": fast},
            "ticket": {"quick": slow, "slow": slow},
        },
    }


def pyrra(objective: Objective) -> dict[str, Plain]:
    """Return an SLO of Pyrra without alerts: its burn rates of 14 and 7 ask for what cannot be."""
    return {
        "apiVersion": "pyrra.dev/v1alpha1",
        "kind": "ServiceLevelObjective",
        "metadata": {"name": _NAME},
        "spec": {
            "description": _DESCRIPTION,
            "target": f"{float(objective.target * 100):g}",
            "window": f"{BUDGET_DAYS}d",
            "indicator": {
                "ratio": {
                    "errors": {"metric": INEFFECTIVE},
                    "total": {"metric": WEIGHTED},
                    "grouping": ["cluster"],
                }
            },
            "alerting": {"disabled": True},
        },
    }
