"""Runs notebooks: notebooks.py FILE… An exception in a cell ends it with exit code 1."""

import os
import pathlib
import sys

import nbclient
import nbformat

os.environ["WATERMASTER_ROOT"] = str(pathlib.Path(__file__).resolve().parents[2])
for path in sys.argv[1:]:
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=None)
    # Sockets of this user alone.
    client.create_kernel_manager().transport = "ipc"
    client.execute()
    cells = sum(cell.cell_type == "code" for cell in notebook.cells)
    print(f"{path}: {cells} cells ran")
