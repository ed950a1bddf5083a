"""Runs client.py against a real TorchServe and against onnxserve, with the same archives, and compares what it observed.

    python3 -m venv venv
    venv/bin/pip install torchserve==0.12.0 torch requests grpcio grpcio-tools psutil pyyaml
    venv/bin/python test/clients/torchserve/compare.py

Needs Java 11 or newer. `--record FILE` keeps what TorchServe gave; `--recorded FILE` takes that in its place. Ends with 0 when every
difference is one of differences.json.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROTOS = ROOT / "packages/runtime/proto"
BIN = Path(sys.executable).parent


def check_archives():
    """The archives hold the handlers that lie here."""
    for path in sorted((HERE / "store").glob("*.mar")):
        with zipfile.ZipFile(path) as archive:
            for name in ("handler.py", "handler.js"):
                if archive.read(name) != (HERE / name).read_bytes():
                    raise SystemExit(f"{path.name} has another {name}: run make_archives.py")


def ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for it in sockets:
        it.bind(("127.0.0.1", 0))
    found = [it.getsockname()[1] for it in sockets]
    for it in sockets:
        it.close()
    return found


def observe(name, start, folder):
    inference, management, metrics, grpc_inference, grpc_management = ports(5)
    home = folder / name
    home.mkdir()
    shutil.copytree(HERE / "store", home / "store")
    config = home / "config.properties"
    config.write_text(
        f"inference_address=http://127.0.0.1:{inference}\nmanagement_address=http://127.0.0.1:{management}\n"
        f"metrics_address=http://127.0.0.1:{metrics}\ngrpc_inference_port={grpc_inference}\ngrpc_management_port={grpc_management}\n"
        "disable_token_authorization=true\nenable_model_api=true\nmetrics_mode=prometheus\n"
    )
    log = (home / "server.log").open("w")
    words = [*start, "--foreground", "--ncs", "--ts-config", str(config), "--model-store", str(home / "store")]
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "TEMP": str(home), "TMPDIR": str(home)}
    server = subprocess.Popen(words, cwd=home, stdout=log, stderr=log, env=env, start_new_session=True)
    try:
        client = [sys.executable, HERE / "client.py", "--protos", PROTOS]
        client += ["--inference", f"http://127.0.0.1:{inference}", "--management", f"http://127.0.0.1:{management}"]
        client += ["--metrics", f"http://127.0.0.1:{metrics}"]
        client += ["--grpc-inference", f"127.0.0.1:{grpc_inference}", "--grpc-management", f"127.0.0.1:{grpc_management}"]
        done = subprocess.run([str(word) for word in client], stdout=subprocess.PIPE, text=True, timeout=300)
        if done.returncode != 0:
            sys.stderr.write((home / "server.log").read_text()[-4000:])
            raise SystemExit(f"the client failed against {name}")
        return json.loads(done.stdout)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


def same(theirs, ours):
    """The same to a client: a type where there was none, and more fields, break nobody."""
    if isinstance(theirs, list) and isinstance(ours, list) and all(isinstance(it, str) for it in theirs):
        return set(theirs) <= set(ours)
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.get("type", "") is None:
        return {**theirs, "type": ours.get("type")} == ours
    return theirs == ours


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--record", type=Path)
    arguments.add_argument("--recorded", type=Path)
    given = arguments.parse_args()
    reasons = json.loads((HERE / "differences.json").read_text())
    check_archives()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.recorded:
            theirs = json.loads(given.recorded.read_text())
        else:
            theirs = observe("torchserve", [str(BIN / "torchserve"), "--start"], folder)
        ours = observe("onnxserve", ["node", str(ROOT / "packages/runtime/bin/onnxserve.js"), "start"], folder)
    if given.record:
        given.record.write_text(json.dumps(theirs, indent=1, ensure_ascii=False) + "\n")
    different = [it for it in theirs if not same(theirs[it], ours.get(it))]
    for it in different:
        print(f"{it}: {reasons.get(it, 'NOT EXPLAINED')}\n  TorchServe: {json.dumps(theirs[it])}\n  onnxserve:  {json.dumps(ours.get(it))}\n")
    stale = [it for it in reasons if it not in different]
    if stale:
        print(f"no longer different: {', '.join(stale)}")
    new = [it for it in different if it not in reasons]
    print(f"{len(theirs) - len(different)} of {len(theirs)} observations are the same, {len(different) - len(new)} differ on purpose, {len(new)} differ")
    sys.exit(1 if new or stale or ours.keys() != theirs.keys() else 0)


main()
