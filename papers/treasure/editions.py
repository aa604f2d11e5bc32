#!/usr/bin/env python3
"""Says whether the models of a manifest are the pocket models of this checkout.

    papers/treasure/editions.py results/main-manifest.json     prints those that are others, and nothing when all are the same

A model's hash is SHA-256 over the files of its folder but its card: names, lengths and contents, in name order.
"""
import hashlib
import json
import sys
from pathlib import Path

POCKET = Path(__file__).resolve().parents[2] / "assets/pocket"


def hash_of(folder):
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.iterdir() if path.is_file() and path.name != "README.md"):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def others(manifest):
    """Names of pocket models whose content here is not what the manifest says, in its order."""
    found = []
    for entry in manifest["hashes"]:
        name = entry["name"]
        if name == "pocket" or name.startswith("pocket/"):
            folder = POCKET / (name.partition("/")[2] or "denoiser")
            if not folder.is_dir() or hash_of(folder) != entry["sha256"].split(" ")[0]:
                found.append(name)
    return found


if __name__ == "__main__":
    print("\n".join(others(json.loads(Path(sys.argv[1]).read_text()))))
