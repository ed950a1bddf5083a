"""Makes store/ with the real torch-model-archiver 0.12.0 from handler.py and handler.js.

    venv/bin/python test/clients/torchserve/make_archives.py
"""
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
STORE = HERE / "store"

STORE.mkdir(exist_ok=True)
for version in ("1.0", "2.0"):
    with tempfile.TemporaryDirectory() as folder:
        words = [Path(sys.executable).parent / "torch-model-archiver", "--model-name", "client", "--version", version]
        words += ["--handler", HERE / "handler.py", "--extra-files", HERE / "handler.js", "--export-path", folder]
        subprocess.run(words, check=True)
        (Path(folder) / "client.mar").replace(STORE / f"client-{version}.mar")
    print(json.loads(zipfile.ZipFile(STORE / f"client-{version}.mar").read("MAR-INF/MANIFEST.json")))
