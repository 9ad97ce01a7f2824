"""Processes that begin with torch imported: children of one process that imported it.

Importing torch takes seconds, and most tests that need a process of their own need one that
no other test has changed, not one that imports torch.  Commands begin with modules of
wrapperir imported, too; code that is run with ``-c`` imports them itself.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
_IMPORTED = (
    "torch._inductor.compile_fx",
    *(f"wrapperir.cli.{name}" for name in ("main", "run", "compile", "tune", "memory")),
    *("wrapperir.verify", "wrapperir.passes", "wrapperir.interp", "wrapperir.report"),
    *("wrapperir_python.emitter", "wrapperir_cpp.artifact_files", "wrapperir_cpp.build"),
)
_CLIENT = """\
#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = [["-m", "wrapperir.cli", *sys.argv[1:]], os.getcwd(), dict(os.environ)]
text = json.dumps(request).encode()
socket.send_fds(server, [len(text).to_bytes(8, "big")], [0, 1, 2])
server.sendall(text)
status = server.recv(1)
sys.exit(status[0] if status else 1)
"""


class ProcessServer:
    """A process that imported torch and forks.

    Children of a process that found a GPU cannot use it: where there is one, each process
    begins anew.
    """

    def __init__(self, folder: Path) -> None:
        """Start the process; ``folder`` is for its socket, and for a command that asks it.

        The command, ``wrapperir`` in the folder ``commands``, runs the command line in a
        child.
        """
        import torch

        self._process: subprocess.Popen[bytes] | None = None
        self.commands = Path(sys.executable).parent
        if torch.cuda.is_available():
            return
        self._address = str(folder / "socket")
        self.commands = folder / "bin"
        self.commands.mkdir()
        command = self.commands / "wrapperir"
        command.write_text(_CLIENT.format(python=sys.executable, address=self._address))
        command.chmod(0o700)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, self._address],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run Python with ``-c`` or ``-m`` in a child, in the folder of this process."""
        environment = dict(os.environ if env is None else env)
        if self._process is None:
            command = [sys.executable, *arguments]
            return subprocess.run(command, env=environment, capture_output=True, text=True)
        text = json.dumps([arguments, os.getcwd(), environment]).encode()
        with (
            open(os.devnull) as nothing,
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
            socket.socket(socket.AF_UNIX) as server,
        ):
            server.connect(self._address)
            files = [nothing.fileno(), out.fileno(), err.fileno()]
            socket.send_fds(server, [len(text).to_bytes(8, "big")], files)
            server.sendall(text)
            status = server.recv(1)
            out.seek(0)
            err.seek(0)
            code = status[0] if status else -1
            return subprocess.CompletedProcess(arguments, code, out.read(), err.read())

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()


def _answer(connection: socket.socket) -> None:
    """Run what a client asks for, with its files, folder and environment, and end."""
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
        status = _status_of(arguments)
    finally:
        connection.sendall(bytes([status]))
        os._exit(status)


def _status_of(arguments: Sequence[str]) -> int:
    """Run Python with ``-c`` or ``-m``, and what ends it; return the exit status."""
    status: object = 0
    option, what, *sys.argv[1:] = arguments
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = ["", *(folder for folder in given if folder not in ("", *sys.path))]
    try:
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            for name in list(sys.modules):
                if name.startswith("wrapperir"):
                    del sys.modules[name]
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
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


def leave_guards_untimed() -> None:
    """Have Dynamo log 0 for the time that the guards of a graph take, if it is imported.

    It empties the processor's caches before it takes that time, which is only logged: this
    takes 26 ms, more than all else that Dynamo does for a small function.
    """
    guards = sys.modules.get("torch._dynamo.guards")
    if guards is not None:
        vars(guards)["profile_guard_manager"] = lambda *_: 0.0


def main() -> None:
    """Listen until the process is terminated."""
    for name in _IMPORTED:
        importlib.import_module(name)
    leave_guards_untimed()
    assert threading.active_count() == 1  # a child has no other, and would wait for them
    gc.freeze()  # else each child searches, and so copies, all of this for garbage
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
