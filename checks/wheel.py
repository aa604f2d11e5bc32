"""Packs a wheel from an extension module that cargo has built already, for tests: stored, not compressed.

    python3 checks/wheel.py target/debug/lib_treasure.so OUT

What is published is maturin's (`checks/python --release`); this one saves compiling every crate a second time, since
maturin builds the package alone, and so with other features than the tests of the workspace.
"""

import base64
import csv
import hashlib
import io
import sys
import sysconfig
import zipfile
from pathlib import Path

try:
    import tomllib
except ImportError:  # before Python 3.11
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
CRATE = ROOT / "crates" / "treasure-py"


def main(module: Path, out: Path) -> None:
    project = tomllib.loads((CRATE / "pyproject.toml").read_text())["project"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    tag = f"cp39-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    info = f"{project['name']}-{version}.dist-info"
    source = CRATE / "python"
    files = {
        str(path.relative_to(source)): path.read_bytes()
        for path in sorted(source.rglob("*"))
        if path.is_file() and path.suffix in (".py", ".pyi", ".typed")
    }
    files["treasure/_treasure.abi3.so"] = module.read_bytes()
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\nRequires-Python: {project['requires-python']}\n"
    ).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: checks/wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(content)])
    rows.writerow([f"{info}/RECORD", "", ""])
    files[f"{info}/RECORD"] = record.getvalue().encode()
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{project['name']}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    print(wheel)


main(Path(sys.argv[1]), Path(sys.argv[2]))
