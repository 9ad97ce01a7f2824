"""Processes that store and load entries of a shared cache, and one that kills them.

Run as ``python cache_hammer.py MODULE DIRECTORY SECONDS PROCESSES``.  It loads the cache's
module on its own, as emitted Python does, and prints as JSON how many processes it killed,
how often the others read and wrote, and what they read that nobody wrote.
"""

import hashlib
import importlib.util
import json
import os
import random
import signal
import sys
import time
from types import ModuleType

COUNT = 300
KEYS = 4


def load_module(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("private_cache", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def payload(key: str, nonce: int) -> list[float | None]:
    """Return times that begin with ``nonce`` and follow from it and the key."""
    stream = random.Random(hashlib.sha256(f"{key} {nonce}".encode()).digest())
    return [float(nonce), *(stream.choice([None, stream.random()]) for _ in range(COUNT))]


def hammer(cached: ModuleType, directory: str, end: float, report: int) -> None:
    """Store and load until the end; then write what happened to ``report``, at once."""
    cache = cached.PrivateCache(directory)
    keys = [cached.digest_of({"case": number}) for number in range(KEYS)]
    chance = random.Random()
    read = missed = wrote = 0
    wrong: list[str] = []
    while time.monotonic() < end and not wrong:
        for key in chance.sample(keys, 2):
            found = cache.load(key)
            if found is None:
                missed += 1
            elif found["times"] != payload(key, int(found["times"][0] or 0)):
                wrong.append(f"{key}: {found['times'][:3]}")
            else:
                read += 1
        key = chance.choice(keys)
        cache.store(key, {"times": payload(key, chance.getrandbits(40))})
        wrote += 1
    said = {"read": read, "missed": missed, "wrote": wrote, "wrong": wrong}
    os.write(report, json.dumps(said).encode() + b"\n")


def main(module: str, directory: str, seconds: float, processes: int) -> None:
    cached = load_module(module)
    end = time.monotonic() + seconds
    reading, report = os.pipe()

    def start() -> int:
        child = os.fork()
        if child == 0:
            os.nice(10)  # so that the process that kills gets its turns
            try:
                hammer(cached, directory, end, report)
            finally:
                os._exit(0)
        return child

    running = [start() for _ in range(processes)]
    chance = random.Random()
    killed = 0
    while time.monotonic() < end - seconds / 5:
        time.sleep(chance.random() * 0.02)
        index = chance.randrange(processes)
        os.kill(running[index], signal.SIGKILL)
        os.waitpid(running[index], 0)
        killed += 1
        running[index] = start()
    for child in running:
        os.waitpid(child, 0)
    os.close(report)
    with os.fdopen(reading) as stream:
        said = [json.loads(line) for line in stream]
    print(json.dumps({"killed": killed, "said": said}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
