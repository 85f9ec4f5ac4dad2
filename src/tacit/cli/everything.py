"""The whole command: importing the files of all groups of commands adds theirs."""

from tacit.cli import adopting, collecting, estimating, findings, plans, priors, serve, studies, verifying
from tacit.cli.app import app
from tacit.cli.personal import app as personal

app.add_typer(personal, name="personal")

__all__ = [
    "adopting", "app", "collecting", "estimating", "findings", "plans", "priors", "serve", "studies", "verifying",
]  # fmt: skip
