"""`tacit serve`, its backups and tokens, and `verify-page`. Argument parsing and printing only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from tacit.cli import app as cli

_PLANS = "Plans to open a survey for; those that have one keep it."
_DATA = "A folder for SQLite, made if it is not there, or the URL of a PostgreSQL database."
_SECRETS = "Folder of the vault; needed with PostgreSQL, and the same for all processes. Else TACIT_SECRETS."
_PROXY = "Address or network of a proxy in front, whose word about senders is taken; repeatable."
_PUBLIC_URL = "Where people find it, if a proxy is in front: https://host/ or https://host/path/."
_LANGUAGE = "What the pages of these surveys speak: en, de, es or fr."
_TEXTS = "JSON with what their pages say: language, layout, introduction, consent, privacy_notice, contact."
_NEW_TOKEN = "Make a new administrator's token; the old one stops working."
_WIDE = "Take a data folder that others on this machine can look into."
_EVERY = "Public results change after this many new reports of a group."

_KNOWN = "JSON file of credential keys seen before; a new one is added, another than before is a finding."
_ORIGIN = "Origin of pages elsewhere that may send reports here, such as https://pages.example; null: files."
_DRAIN = "Seconds to go on after SIGTERM, while /readyz says no, so that balancers send nothing more."


def _setting(name: str, metavar: str | None, help: str, *flags: str) -> Any:
    """An option that can be given as the variable TACIT_ and its name."""
    return cli.option(*flags, metavar=metavar, help=help, envvar=f"TACIT_{name}")


@dataclass(frozen=True)
class Place:
    """Where a service keeps what it keeps."""

    data: Annotated[str, _setting("DATA", "WHERE", _DATA)] = "tacit-data"
    secrets: Annotated[Path | None, cli.option(metavar="FOLDER", help=_SECRETS)] = None
    allow_wide_folder: Annotated[bool, _setting("ALLOW_WIDE_FOLDER", None, _WIDE, "--allow-wide-folder")] = False

    @contextmanager
    def store(self, *, migrate: bool = True) -> Iterator[Any]:
        """The store, until the block ends."""
        from tacit.server.run import today
        from tacit.server.storage.store import Store

        vault, wide = self.secrets, self.allow_wide_folder
        with closing(Store(self.data, today, vault=vault, allow_wide=wide, migrate=migrate)) as store:
            yield store

    def must_be_there(self) -> None:
        """Refuse a folder that no service has used, which would be made."""
        if "://" not in self.data and not (Path(self.data) / "tacit.sqlite").exists():
            raise ValueError(
                f"There is no service in {self.data}: it has no tacit.sqlite. Name its folder with --data."
            )


PLACE = Place()
#: What may stand in a file that a variable names, as secrets of containers do: the token, and the URL with a password.
_FROM_FILES = ("TACIT_TOKEN", "TACIT_DATA")


def _read_files() -> None:
    for name in _FROM_FILES:
        file = os.environ.get(f"{name}_FILE")
        if file:
            os.environ[name] = Path(file).read_text(encoding="utf-8").strip()


class _Serve(TyperGroup):
    """What does not begin with the name of a command is the service's own: `tacit serve plan.json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _read_files()
        return super().parse_args(ctx, args if args and args[0] in self.commands else ["run", *args])


serve_app = cli.Commands(cls=_Serve, help="Run the collection service; back it up; give out tokens.")
cli.registered.add_typer(serve_app, name="serve")


@serve_app.command("run", epilog="Example: tacit serve plan.json --data collected --public")
def serve_command(
    plans: Annotated[list[Path] | None, typer.Argument(metavar="[PLAN]...", help=_PLANS)] = None,
    place: Place = PLACE,
    host: Annotated[str, _setting("HOST", "ADDRESS", "Where to listen.")] = "127.0.0.1",
    port: Annotated[int, _setting("PORT", "PORT", "Where to listen; 0 for any free port.")] = 8000,
    public: Annotated[bool, _setting("PUBLIC", None, "Make the results of these surveys public.", "--public")] = False,
    publish_every: Annotated[int | None, _setting("PUBLISH_EVERY", "N", f"{_EVERY} Else 20.")] = None,
    invited: Annotated[bool, _setting("INVITED", None, "Count reports of invited people only.", "--invited")] = False,
    group_question: Annotated[
        str | None, _setting("GROUP_QUESTION", "TEXT", "What the page asks for the group.")
    ] = None,
    language: Annotated[str | None, _setting("LANGUAGE", "CODE", _LANGUAGE)] = None,
    texts: Annotated[Path | None, _setting("TEXTS", "FILE", _TEXTS)] = None,
    ends: Annotated[
        datetime | None, typer.Option(metavar="DAY", formats=["%Y-%m-%d"], help="Last day.", envvar="TACIT_ENDS")
    ] = None,
    rate: Annotated[int, _setting("RATE", "N", "Submissions per minute and address; 0: no limit.")] = 300,
    certificate: Annotated[str | None, _setting("CERTIFICATE", "FILE", "TLS certificate, PEM.")] = None,
    private_key: Annotated[str | None, _setting("PRIVATE_KEY", "FILE", "The certificate's private key, PEM.")] = None,
    proxy: Annotated[list[str] | None, _setting("PROXY", "ADDRESS", _PROXY)] = None,
    public_url: Annotated[str | None, _setting("PUBLIC_URL", "URL", _PUBLIC_URL)] = None,
    page_origin: Annotated[list[str] | None, _setting("PAGE_ORIGIN", "ORIGIN", _ORIGIN)] = None,
    drain: Annotated[float, _setting("DRAIN", "SECONDS", _DRAIN)] = 0.0,
    new_token: Annotated[bool, cli.option("--new-token", help=_NEW_TOKEN)] = False,
    as_json: cli.JsonFlag = False,
) -> None:
    """Run a survey page, a collector that keeps tallies only, and a live dashboard.

    The administrator's token is printed when it is made, on the first start, and kept only as a hash. To choose it
    yourself, set TACIT_TOKEN, which is not printed. What is given for a survey that is there is applied or refused.
    Every option can be given as a variable: TACIT_PUBLIC_URL for --public-url. TACIT_TOKEN_FILE and TACIT_DATA_FILE
    name files that hold the token and the URL of the database.

    Also: tacit serve backup, restore, repair and token (each with --help).
    """
    from tacit.plan import Plan
    from tacit.server.run import Address, check_public_url, open_surveys, serve, today
    from tacit.server.site.texts import change_texts_of
    from tacit.server.storage.store import survey_id

    loaded = [Plan.load(path) for path in plans or []]
    if rate < 0:
        raise ValueError(f"The rate must be 0 or more. Got {rate}.")
    if publish_every is not None and publish_every < 2:
        raise ValueError(f"Public results change by 2 reports at least. Got --publish-every {publish_every}.")
    said = None if texts is None else texts.read_text(encoding="utf-8")
    found_at = check_public_url(public_url) if public_url else ""
    if ends is not None and ends.date() < today():
        raise ValueError(f"The survey cannot end before today. Got --ends {ends:%Y-%m-%d}.")
    if not 0 <= drain <= 600:
        raise ValueError(f"The service drains for at most 600 seconds. Got --drain {drain:g}.")
    proxies, origins = tuple(proxy or ()), tuple(page_origin or ())
    address = Address(host, port, certificate, private_key, proxies, found_at, origins, drain)
    address.check()
    with place.store() as store, store.database.served_once():
        try:
            settings = {"ends": ends and ends.date(), "publish_every": publish_every, "group_question": group_question}
            open_surveys(store, loaded, public_results=public, invited=invited, **settings)
            asked = [survey_id(plan) for plan in loaded]
            for name in asked:
                change_texts_of(store, name, said, language)
            serve(store, address, rate, _token(store, new_token), lambda started: _tell(started, asked, as_json))
        except KeyboardInterrupt:
            cli.err.print("stopped; every acknowledged report is on disk")


def _token(store: Any, new: bool) -> str | None:
    """The administrator's token if it is made now; one of the operator's own choice is not told."""
    from tacit.server.storage.tokens import first_token, make_token, set_token

    chosen = os.environ.get("TACIT_TOKEN")
    if chosen is not None:
        set_token(store, chosen)
        return None
    return make_token(store) if new else first_token(store)


def _tell(started: Any, asked: list[str], as_json: bool) -> None:
    """Say where everything is, before the first request is answered: the surveys of these plans first, in order."""
    from tacit.server.run import is_private

    url = started.url
    surveys = [
        {"survey": name, "question": started.surveys[name], "page": f"{url}/s/{name}", "dashboard": f"{url}/d/{name}"}
        for name in dict.fromkeys([*asked, *started.surveys])
    ]
    if as_json:
        cli.print_json({"url": url, "token": started.token, "surveys": surveys})
        cli.out.file.flush()
        return
    for each in surveys:
        cli.out.print(f"[bold]{cli.escape(each['question'] or each['survey'])}[/bold]")
        cli.out.print(f"  answer     {each['page']}\n  dashboard  {each['dashboard']}")
    cli.out.print(f"Surveys are made, closed and listed at {url}/")
    if started.token is not None:
        cli.out.print(f"Administrator's token, shown only now: [bold]{cli.escape(started.token)}[/bold]")
    if not url.startswith("https") and not is_private(url.partition("//")[2].rpartition(":")[0]):
        cli.err.print(
            "[yellow]Browsers randomize only on pages that came by HTTPS. Give --certificate and --private-key, or put "
            "a proxy in front.[/yellow]"
        )
    if started.everywhere:
        cli.err.print(
            f"[yellow]It listens on all addresses of this machine, of which {url} names none. Say where people find it "
            "with --public-url, so that links are right.[/yellow]"
        )
    cli.out.print("[dim]Ctrl-C stops it.[/dim]")


# -- backup and restore ---------------------------------------------------------------------------------------------


@serve_app.command("backup", epilog="Example: tacit serve backup monday --data collected")
def backup_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder for the backup.")],
    place: Place = PLACE,
    as_json: cli.JsonFlag = False,
) -> None:
    """Copy everything as it is at one moment, while the service runs. The backup is a data folder like any other.

    It holds the secrets of open surveys, too: keep it as private as the original, and no longer than needed.
    """
    from tacit.server.storage.store import check_new

    check_new(folder)
    place.must_be_there()
    with place.store(migrate=False) as source, Place(str(folder)).store() as target:
        _copy(source, target, str(folder), as_json)


@serve_app.command("restore", epilog="Example: tacit serve restore monday --data collected-again")
def restore_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The backup.")],
    place: Place = PLACE,
    as_json: cli.JsonFlag = False,
) -> None:
    """Copy a backup to a new folder or an empty PostgreSQL database; also from one kind of database to the other."""
    if not (folder / "tacit.sqlite").exists():
        raise ValueError(f"There is no backup in {folder}: it has no tacit.sqlite.")
    backup = Place(str(folder), allow_wide_folder=place.allow_wide_folder)
    with backup.store() as source, replace(place, allow_wide_folder=False).store() as target:
        _copy(source, target, place.data.rpartition("@")[2], as_json)


def _copy(source: Any, target: Any, where: str, as_json: bool) -> None:
    from tacit.server.storage.store import copy_store

    with cli.progress_bar("copying") as progress:
        surveys = copy_store(source, target, progress)
    if as_json:
        cli.print_json({"copied": surveys, "where": where})
    else:
        cli.out.print(f"Copied {surveys} surveys to {cli.escape(where)}.")


@serve_app.command(
    "repair", epilog="Example: tacit serve repair --data postgresql://tacit@host/tacit --secrets secrets"
)
def repair_command(place: Place = PLACE, as_json: cli.JsonFlag = False) -> None:
    """Let surveys go on whose database and vault are not of the same time, as after restoring one without the other.

    It says for each survey what is lost and what was done. Surveys that are not in doubt stay as they are. If the right
    vault, or the right database, can still be found, use that instead.
    """
    place.must_be_there()
    with place.store() as store:
        done = store.repair()
    if as_json:
        cli.print_json({"repaired": done})
        return
    for name, what in done.items():
        cli.out.print(f"[bold]{cli.escape(name)}[/bold]: {cli.escape(what)}")
    if not done:
        cli.out.print("No survey is in doubt.")


# -- tokens ---------------------------------------------------------------------------------------------------------


@serve_app.command("token", epilog="Example: tacit serve token board --role results --data collected")
def token_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it; one of that name is replaced.")],
    role: Annotated[
        Literal["all", "survey", "results"], cli.option(metavar="ROLE", help="all, survey (manages one) or results.")
    ] = "results",
    survey: Annotated[str | None, cli.option(metavar="ID", help="The one survey that it is for.")] = None,
    revoke: Annotated[bool, cli.option("--revoke", help="Let the token of this name in no more.")] = False,
    place: Place = PLACE,
    as_json: cli.JsonFlag = False,
) -> None:
    """Make a token that allows less than everything, or revoke one. Running services know it at once."""
    from tacit.server.storage.tokens import make_token, revoke_token

    place.must_be_there()
    with place.store() as store:
        if survey is not None and store.survey(survey) is None:
            raise ValueError(f"There is no survey {survey}.")
        if (role == "survey") != (survey is not None) and role != "results":
            raise ValueError("The role 'survey' needs --survey, and 'all' has none.")
        if revoke:
            if not revoke_token(store, name):
                raise ValueError(f"There is no token of the name {name}.")
            token = None
        else:
            token = make_token(store, name, role, survey)
    if as_json:
        cli.print_json({"name": name, "token": token})
    else:
        cli.out.print(f"Revoked {cli.escape(name)}." if token is None else f"Token, shown only now: {token}")


@cli.command("page", epilog="Example: tacit page plan.json --service https://survey.example/ -o page.html")
def page_command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The survey's plan.")],
    service: Annotated[str, cli.option(metavar="URL", help="Address of the service that counts the reports.")],
    output: Annotated[Path, cli.option("--output", "-o", metavar="FILE", help="The page.")] = Path("page.html"),
    survey: Annotated[
        str | None, cli.option(metavar="ID", help="The survey, if it is not the plan's first run.")
    ] = None,
    sign_with: Annotated[Path | None, cli.option(metavar="KEY", help="Sign it with this Ed25519 key (PEM).")] = None,
    as_json: cli.JsonFlag = False,
) -> None:
    """Write a survey's page as one file.

    It can be opened as a file, or put on another host, so that the service need not be trusted with it. The plan and
    all programs are inside; the same version of Tacit writes the same bytes, so that others can compare the hash. With
    --sign-with the owner's signature is written beside it, with .sig added; tacit verify-page checks both. The service
    must allow the page: tacit serve --page-origin https://other.example, or null for files.
    """
    import hashlib

    from tacit.disk import atomic
    from tacit.plan import Plan
    from tacit.server.run import check_public_url
    from tacit.server.site.published import bundle, read_key, signature_of
    from tacit.server.storage.store import survey_id

    loaded = Plan.load(plan)
    name = survey or survey_id(loaded)
    content = bundle(loaded, name, check_public_url(service).rstrip("/") + "/")
    written = {output: content}
    if sign_with is not None:
        key = read_key(sign_with, lambda: str(typer.prompt(f"Password of {sign_with}", hide_input=True, err=True)))
        written[signature_of(output)] = key.sign(content)
    else:
        # One of an earlier page would not hold for this one.
        signature_of(output).unlink(missing_ok=True)
    for file, text in written.items():
        with atomic(file) as temporary:
            temporary.write_bytes(text)
    digest = hashlib.sha256(content).hexdigest()
    if as_json:
        signature = None if sign_with is None else str(signature_of(output))
        cli.print_json({"page": str(output), "sha256": digest, "survey": name, "signature": signature})
    else:
        cli.out.print(f"Wrote {' and '.join(cli.escape(str(file)) for file in written)}, SHA-256 {digest}.")
        cli.out.print("[dim]Publish the hash where people look for it; `tacit page` writes the same file again.[/dim]")


@cli.command("verify-page", epilog="Example: tacit verify-page https://survey.example/s/0123456789abcdef")
def verify_page_command(
    url: Annotated[str, typer.Argument(metavar="URL", help="A survey's page, a service's address, or a page's file.")],
    known: Annotated[Path | None, cli.option(metavar="FILE", help=_KNOWN)] = None,
    key: Annotated[Path | None, cli.option(metavar="FILE", help="Of a file: its owner's public key (PEM).")] = None,
    as_json: cli.JsonFlag = False,
) -> None:
    """Check that a service serves what Tacit publishes.

    Every page, script and style is asked for as browsers ask and its hash compared with that of this installed version;
    of a survey's page also the plan, which is audited, and the key that signs credentials, which must be the same for
    all respondents: compare its fingerprint with others', and with --known over time. Exit code 1 if anything differs.
    It tells what was served here and now.

    A file that `tacit page` wrote is made again from the plan, survey and service that it names and compared; with
    --key its signature is checked as well.
    """
    import tacit
    from tacit.server.site.verify_page import verify_file, verify_page

    a_file = not url.startswith(("http://", "https://"))
    if (key is not None and not a_file) or (known is not None and a_file):
        raise ValueError("--key is for the file of a page, --known for an address.")
    found = verify_file(Path(url), key) if a_file else verify_page(url, known)
    if as_json:
        findings = [{"what": each.what, "wrong": each.wrong or None} for each in found.findings]
        said = {"url": url, "tacit": tacit.__version__, "sound": not found.wrong, "findings": findings}
        cli.print_json(said | {"credential_key": found.fingerprint, "service": found.service})
    else:
        for each in found.wrong:
            cli.out.print(f"[red]✗[/red] {cli.escape(each.what)}: {cli.escape(each.wrong)}")
        as_published = len(found.findings) - len(found.wrong)
        verdict = "not as" if found.wrong else "as"
        cli.out.print(
            f"{as_published} of {len(found.findings)} checks hold: {verdict} Tacit {tacit.__version__} publishes it."
        )
        if found.fingerprint is not None:
            cli.out.print(f"Credential key {found.fingerprint}: everybody must see this one.")
        if found.service is not None:
            cli.out.print(f"It sends reports to {cli.escape(found.service)}, survey {cli.escape(str(found.survey))}.")
        if a_file and key is None:
            cli.out.print("[dim]No signature was checked; --key does that, with the owner's public key.[/dim]")
        elif not a_file:
            cli.out.print("[dim]This is what was served to this machine just now.[/dim]")
    if found.wrong:
        raise typer.Exit(1)
