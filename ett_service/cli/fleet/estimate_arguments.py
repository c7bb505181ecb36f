"""The arguments of ``ett estimate``."""

import argparse

from ett_service.cli.quantities import amount, seconds, share, whole, wholes
from ett_service.cli.window import add_scope, add_window


def add_run(parser: argparse.ArgumentParser) -> None:
    """Offer what is known of the run itself."""
    run_ = parser.add_argument_group("the run")
    run_.add_argument("--accelerators", type=whole, required=True, metavar="N")
    run_.add_argument(
        "--mfu", type=share, required=True, help="share of the peak used while it trains"
    )
    run_.add_argument(
        "--flops", type=amount, help="operations in all (default 6 x parameters x tokens)"
    )
    run_.add_argument("--parameters", type=whole)
    run_.add_argument("--tokens", type=whole)
    run_.add_argument("--hardware", help="kind of accelerator, for its price and peak rate")
    run_.add_argument("--precision", default="bf16", help="for the peak rate (default bf16)")
    run_.add_argument(
        "--peak-teraflops", type=amount, help="of an accelerator (default: of the hardware)"
    )
    run_.add_argument(
        "--price", type=amount, help="of an accelerator hour (default: the settings' of today)"
    )


def add_share(parser: argparse.ArgumentParser) -> None:
    """Offer ETT%, and where to measure it."""
    group = parser.add_argument_group("the share of its time that trains")
    group.add_argument(
        "--ett", type=share, metavar="SHARE", help="ETT%% (default 100%%: nothing is lost)"
    )
    group.add_argument(
        "--measured", action="store_true", help="ETT%% of the fleet, asked of the server"
    )
    add_window(parser)
    add_scope(parser)


def add_spot(parser: argparse.ArgumentParser) -> None:
    """Offer what spot machines are like."""
    spot = parser.add_argument_group("spot machines (durations as 90s, 10m, 6h, 1d)")
    spot.add_argument("--discount", type=share, metavar="SHARE", help="off the price on demand")
    spot.add_argument(
        "--interrupted-every", type=seconds, metavar="TIME", help="on average (default: never)"
    )
    spot.add_argument(
        "--restart", type=seconds, default=0.0, metavar="TIME", help="until it trains again"
    )
    spot.add_argument(
        "--interval", type=seconds, metavar="TIME", help="between checkpoints (default: the best)"
    )
    spot.add_argument(
        "--save", type=seconds, default=0.0, metavar="TIME", help="that a save stops the loop"
    )


def add_scales(parser: argparse.ArgumentParser) -> None:
    """Offer other numbers of accelerators."""
    scales = parser.add_argument_group("other scales, with --restart, --interval and --save")
    scales.add_argument(
        "--scale", type=wholes, metavar="N,N,...", help="numbers of accelerators to project to"
    )
    scales.add_argument(
        "--failures-per-node-day", type=amount, metavar="RATE", help="Llama 3 had 0.0038"
    )
