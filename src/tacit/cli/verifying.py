"""`tacit verify-page`: does a service serve what Tacit publishes? Argument parsing and printing only."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli.app import JsonFlag, command, escape, out, print_json


@command("verify-page", epilog="Example: tacit verify-page https://survey.example/s/0123456789abcdef")
def verify_page_command(
    url: Annotated[str, typer.Argument(metavar="URL", help="A survey's page, or a service's address.")],
    as_json: JsonFlag = False,
) -> None:
    """Check that a service serves what Tacit publishes. No browser is needed.

    Every page, script and style is fetched and its hash compared with that of this installed version; of a survey's
    page also the plan, which is audited. Exit code 1 if anything differs. It tells what was served here and now.
    """
    import tacit
    from tacit.server.site.verify_page import verify_page

    found = verify_page(url)
    if as_json:
        findings = [{"what": each.what, "wrong": each.wrong or None} for each in found.findings]
        print_json({"url": url, "tacit": tacit.__version__, "sound": not found.wrong, "findings": findings})
    else:
        for each in found.wrong:
            out.print(f"[red]✗[/red] {escape(each.what)}: {escape(each.wrong)}", soft_wrap=True)
        as_published = len(found.findings) - len(found.wrong)
        verdict = "not as" if found.wrong else "as"
        out.print(
            f"{as_published} of {len(found.findings)} checks hold: {verdict} Tacit {tacit.__version__} publishes it."
        )
        out.print("[dim]This is what was served to this machine just now.[/dim]")
    if found.wrong:
        raise typer.Exit(1)
