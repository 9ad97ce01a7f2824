"""A process that runs each ``wrapperir`` command in a child that has torch imported.

Importing torch would take seconds for each command of the documentation.  A program named
``wrapperir``, which :func:`serve_commands` writes, sends its arguments, environment and
files to the process, and exits as the child does.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CLIENT = """\
#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2])
server.sendall(request)
status = server.recv(1)
sys.exit(status[0] if status else 1)
"""


@contextmanager
def serve_commands(folder: Path) -> Iterator[Path]:
    """Start the process; yield the folder of the command that asks it."""
    address = folder / "socket"
    command = folder / "bin" / "wrapperir"
    command.parent.mkdir()
    command.write_text(_CLIENT.format(python=sys.executable, address=str(address)))
    command.chmod(0o700)
    arguments = [sys.executable, "-m", __name__, str(address)]
    with subprocess.Popen(
        arguments,
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield command.parent
        process.terminate()


def _answer(connection: socket.socket) -> None:
    """Run a command with the files, folder and environment of the client, and end."""
    status = 1
    try:
        header, files, *_ = socket.recv_fds(connection, 8, 3)
        length = int.from_bytes(header, "big")
        text = b""
        while len(text) < length:
            text += connection.recv(length - len(text))
        arguments, folder, environment = json.loads(text)
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["wrapperir", *arguments]
        status = _status_of_command()
    finally:
        connection.sendall(bytes([status]))
        os._exit(status)


def _status_of_command() -> int:
    """Run the command, and what is to be run at its end; return its exit status."""
    from wrapperir.cli.main import main

    status: object = 0
    try:
        main()
    except SystemExit as end:
        status = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status if isinstance(status, int) else 0 if status is None else 1


def _forget_children(*_: object) -> None:
    """Wait for the children that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    """Listen until the process is terminated."""
    import torch._inductor.compile_fx  # noqa: F401

    import wrapperir.backend
    import wrapperir.cli.compile
    import wrapperir.cli.run
    import wrapperir.frontend.export
    import wrapperir.frontend.inductor  # noqa: F401

    sys.path.remove(os.getcwd())
    signal.signal(signal.SIGCHLD, _forget_children)
    server = socket.socket(socket.AF_UNIX)
    server.bind(sys.argv[1])
    server.listen()
    print("ready", flush=True)
    while True:
        connection, _ = server.accept()
        if os.fork() == 0:
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(connection)
        connection.close()


if __name__ == "__main__":
    main()
