"""The pages that people read, and an Airflow home of our own for the examples."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile

# Before the first import of Airflow, which reads (and writes) its configuration in this folder.
if "airflow" not in sys.modules:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="holdfast-airflow-home-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)
