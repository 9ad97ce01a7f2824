"""``wrapperir package``: what compile wrote as one file."""

from pathlib import Path
from typing import Literal

import click

from wrapperir.cli.options import diagnostics_format_option, examples
from wrapperir.cli.report import reporting
from wrapperir.diagnostics import Code


@click.command(
    name="package",
    epilog=examples(
        "wrapperir compile model.py:Model --emitter cpp -o model_library",
        "wrapperir package model_library model.pt2",
    ),
)
@click.argument("directory", metavar="DIR")
@click.argument("file", metavar="FILE")
@diagnostics_format_option
@reporting
def command(directory: str, file: str, form: Literal["text", "json"]) -> None:
    """Write the program that compile wrote to DIR to the single FILE.

    FILE holds the library, kernels, constants and texts.  wrapperir.load of Python loads
    it; and so do PyTorch's aoti_load_package and AOTIModelPackageLoader, where its name
    ends in .pt2.

    Nothing of the program is executed.
    """
    from wrapperir.emit.artifact import read_manifest
    from wrapperir.emit.pipeline import find_emitter
    from wrapperir.loading import find_artifact

    if Path(file).is_dir():
        raise Code.INVALID_ARTIFACT.error(
            f"{file} is a directory, and a package is a file",
            hint="give the name of the file to write, such as model.pt2",
        )
    artifact = find_artifact(Path(directory))
    _, manifest = read_manifest(artifact)
    target = Path(file)
    find_emitter(manifest.emitter).package(artifact, target)
    click.echo(f"{file}: {target.stat().st_size} bytes")
