"""``python -m wrapperir.cli`` is the ``wrapperir`` command."""

from wrapperir.cli.main import main

main(prog_name="wrapperir")
