"""`tacit serve`: the collection service. Argument parsing and printing only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.app import JsonFlag, app, err, escape, option, out, print_json

_PLANS = "Plans to open a survey for; those that have one are left as they are."
_DATA = "A folder for SQLite, made if it is not there, or the URL of a PostgreSQL database."
_PROXY = "Address of a proxy in front, whose word about senders' addresses is taken."
_PUBLIC_URL = "Where people find it, if a proxy is in front: https://host/ or https://host/path/."
_LANGUAGE = "What the pages of these surveys speak: en, de, es or fr."
_TEXTS = "JSON with what their pages say: language, introduction, consent, privacy_notice, contact."
_NEW_TOKEN = "Make a new administrator's token; the old one stops working."


@app.command("serve", epilog="Example: tacit serve plan.json --data collected --public")
def serve_command(
    plans: Annotated[list[Path] | None, typer.Argument(metavar="[PLAN]...", help=_PLANS)] = None,
    data: Annotated[str, option(metavar="WHERE", help=_DATA)] = "tacit-data",
    host: Annotated[str, option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, option(metavar="PORT", help="Where to listen; 0 for any free port.")] = 8000,
    public: Annotated[bool, option("--public", help="Let everybody see the results of these surveys.")] = False,
    invited: Annotated[bool, option("--invited", help="Count reports of invited people only.")] = False,
    group_question: Annotated[str | None, option(metavar="TEXT", help="What the page asks for the group.")] = None,
    language: Annotated[str | None, option(metavar="CODE", help=_LANGUAGE)] = None,
    texts: Annotated[Path | None, option(metavar="FILE", help=_TEXTS)] = None,
    rate: Annotated[int, option(metavar="N", help="Submissions per minute and address; 0: no limit.")] = 300,
    certificate: Annotated[str | None, option(metavar="FILE", help="TLS certificate, PEM.")] = None,
    private_key: Annotated[str | None, option(metavar="FILE", help="The certificate's private key, PEM.")] = None,
    proxy: Annotated[str | None, option(metavar="ADDRESS", help=_PROXY)] = None,
    public_url: Annotated[str | None, option(metavar="URL", help=_PUBLIC_URL)] = None,
    new_token: Annotated[bool, option("--new-token", help=_NEW_TOKEN)] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run a survey page, a collector that keeps tallies only, and a live dashboard.

    The administrator's token is printed when it is made, on the first start, and kept only as a hash. To choose it
    yourself, set TACIT_TOKEN.
    """
    from tacit.plan.contract import Plan
    from tacit.server.guard import Administrator
    from tacit.server.run import Address, check_public_url, open_surveys, serve, today
    from tacit.server.store import Store, survey_id
    from tacit.server.texts import change_texts_of

    loaded = [Plan.load(path) for path in plans or []]
    if (certificate is None) != (private_key is None):
        raise ValueError("Give --certificate and --private-key together.")
    if rate < 0:
        raise ValueError(f"The rate must be 0 or more. Got {rate}.")
    found_at = check_public_url(public_url) if public_url else ""
    said = None if texts is None else texts.read_text(encoding="utf-8")
    store = Store(data, today)
    try:
        token = os.environ.get("TACIT_TOKEN")
        if token is not None:
            Administrator.set_token(store, token)
        elif new_token or not Administrator.exists(store):
            token = Administrator.new_token(store)
        open_surveys(store, loaded, public_results=public, invited=invited, group_question=group_question)
        for plan in loaded:
            change_texts_of(store, survey_id(plan), said, language)
        address = Address(host, port, certificate, private_key, proxy, found_at)
        serve(store, address, rate, token, lambda started: _tell(started, as_json))
    except KeyboardInterrupt:
        err.print("stopped; every acknowledged report is on disk")
    finally:
        store.close()


def _tell(started: Any, as_json: bool) -> None:
    """Say where everything is, before the first request is answered."""
    from tacit.server.run import is_private

    url = started.url
    surveys = [
        {"survey": name, "question": question, "page": f"{url}/s/{name}", "dashboard": f"{url}/d/{name}"}
        for name, question in started.surveys.items()
    ]
    if as_json:
        print_json({"url": url, "token": started.token, "surveys": surveys})
        out.file.flush()
        return
    for each in surveys:
        out.print(f"[bold]{escape(each['question'] or each['survey'])}[/bold]", soft_wrap=True)
        out.print(f"  answer     {each['page']}\n  dashboard  {each['dashboard']}", soft_wrap=True)
    out.print(f"Surveys are made, closed and listed at {url}/", soft_wrap=True)
    if started.token is not None:
        out.print(f"Administrator's token, shown only now: [bold]{escape(started.token)}[/bold]", soft_wrap=True)
    if not url.startswith("https") and not is_private(url.partition("//")[2].rpartition(":")[0]):
        err.print(
            "[yellow]Browsers randomize only on pages that came by HTTPS. Give --certificate and --private-key, or put "
            "a proxy in front.[/yellow]",
            soft_wrap=True,
        )
    out.print("[dim]Ctrl-C stops it.[/dim]")
