"""``ett completion``: words of the command line, completed by bash, zsh and fish.

The shell runs ``ett`` itself for each completion, so that what it offers is what the parser takes,
and the names of jobs are those of the server.
"""

import os
from argparse import (
    ArgumentParser,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Sequence

import argcomplete
from argcomplete.shell_integration import shellcode

from ett_service.cli.remote import ask, of_project
from ett_service.cli.verb import Failure, Verb, actions

SHELLS = ("bash", "zsh", "fish")

_JOB = "job"  #: the argument that is the name of one
_MOST_JOBS = 50
_PATIENCE_S = 2.0

_DESCRIPTION = """\
Print the code that completes `ett` in a shell. Have each new shell read it:

  bash  echo 'eval "$(ett completion bash)"' >> ~/.bashrc
  zsh   echo 'eval "$(ett completion zsh)"' >> ~/.zshrc, after compinit
  fish  ett completion fish > ~/.config/fish/completions/ett.fish
"""


def answer(parser_of: Callable[[str], ArgumentParser]) -> None:
    """Print what completes the line that the shell put into the environment, and end.

    *parser_of* returns the parser with the arguments of one verb.
    """
    words = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])].split()[1:]
    parser = parser_of(next((word for word in words if not word.startswith("-")), ""))
    for action in actions(parser):
        if action.dest == _JOB and not action.option_strings:
            action.completer = job_names  # type: ignore[attr-defined]  # argcomplete reads it
    argcomplete.autocomplete(parser)


def job_names(prefix: str, parsed_args: Namespace, **_: object) -> Sequence[str]:
    """Return the names of jobs that begin with *prefix*; none where no server answers."""
    query = of_project(parsed_args, q=prefix or None, limit=_MOST_JOBS)
    try:
        jobs = ask(parsed_args, "/v1/jobs", query, timeout_s=_PATIENCE_S)["jobs"]
    except Failure:
        return ()
    return [job["job"] for job in jobs if job["job"].startswith(prefix)]


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)


def _code(args: Namespace) -> str:
    # One script is for bash and zsh alike.
    shell = "bash" if args.shell == "zsh" else args.shell
    return f"{shellcode(['ett'], shell=shell).rstrip()}\n"


VERB = Verb(
    description=_DESCRIPTION,
    formatter=RawDescriptionHelpFormatter,
    options=(_options,),
    run=_code,
)
