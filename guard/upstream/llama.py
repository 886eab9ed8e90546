"""The child process of a local upstream: llama.cpp's server until standard input closes.

    python -m guard.upstream.llama --model FILE --threads 1 --context 8192 --slots 2

reads the key that requests must carry from its first line of input and writes one line, `{"url": "..."}`,
when it serves. It ends at once when its input does, so it cannot outlive the process that started it,
however that one came to its end. Signals are for the parent to act on.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any


def serve(arguments: argparse.Namespace, key: str) -> Any:
    """Start llama.cpp's server on a loopback port of the system's choice, with nothing but the API."""
    import xllamacpp  # noqa: PLC0415 (a wrong command line needs no runtime)

    settings = xllamacpp.CommonParams()
    settings.model.path = arguments.model
    settings.model_alias = {Path(arguments.model).stem}  # clients are told this name, not where the file is
    settings.port = 0
    settings.hostnames = ["127.0.0.1"]
    settings.api_keys = [key]
    settings.n_parallel = arguments.slots
    settings.n_ctx = arguments.context * arguments.slots
    settings.cpuparams.n_threads = arguments.threads
    settings.cpuparams_batch.n_threads = arguments.threads
    settings.n_gpu_layers = 0
    settings.fit_params = False  # no smaller context than was asked for
    settings.swa_full = True  # without it models with a sliding window reuse no prefix
    settings.cache_ram_mib = 256
    settings.ui = False
    return xllamacpp.Server(settings)


def _exit_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):  # not through the file object: its lock would hang an exit
        pass
    os._exit(0)  # the server's threads are not ours to join


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m guard.upstream.llama")
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int, default=8192, help="tokens a slot")
    parser.add_argument("--slots", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    """Serve until the parent goes away."""
    arguments = _arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    key = sys.stdin.buffer.readline().decode().strip()
    watch = threading.Thread(target=_exit_with_parent, daemon=True)
    watch.start()
    try:
        server = serve(arguments, key)
    except Exception as error:  # noqa: BLE001 (whatever the runtime raises, the parent reports the last line)
        sys.exit(f"{type(error).__name__}: {error}")
    sys.stdout.write(json.dumps({"url": server.listening_address}) + "\n")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody reads on: a full pipe would stop the server
    watch.join()


if __name__ == "__main__":
    main()
