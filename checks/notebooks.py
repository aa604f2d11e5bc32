"""Runs notebooks from their first cell to their last; an error in one fails the check.

    python checks/notebooks.py examples/notebooks/*.ipynb
"""

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

for name in sys.argv[1:]:
    begin = time.time()
    notebook = nbformat.read(name, as_version=4)
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(Path(name).parent)}})
    client.execute()
    print(f"{name}: {len(notebook.cells)} cells, {time.time() - begin:.0f} s")
