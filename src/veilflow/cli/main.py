"""The command `veilflow`. Importing this file imports no numerical library: help must be quick."""

from typing import Annotated

import typer

from veilflow.cli import (
    account,
    audit,
    classifier,
    demo,
    detect,
    fit,
    inspect,
    posterior,
    report,
    reproduce,
    schema,
    spending,
    use,
)

app = typer.Typer(
    name="veilflow",
    help="Differentially private normalizing flows: fit, sample, score, account.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("schema")(schema.schema)
app.add_typer(fit.app, name="fit")
app.command("sample")(use.sample)
app.command("score")(use.score)
app.command("impute")(use.impute)
app.command("classify")(classifier.classify)
app.add_typer(detect.app, name="detect")
app.add_typer(posterior.app, name="posterior")
app.command("account")(account.account)
app.command("calibrate")(account.calibrate)
app.command("inspect")(inspect.inspect)
app.command("audit")(audit.audit)
app.command("report")(report.report)
app.command("spending")(spending.spending)
app.command("reproduce")(reproduce.reproduce)


def _version(show: bool) -> None:
    if show:
        from importlib.metadata import version

        typer.echo(f"veilflow {version('veilflow')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Differentially private normalizing flows: fit, sample, score, account."""


def main() -> None:
    """The entry point of the installed command."""
    app(prog_name="veilflow")
