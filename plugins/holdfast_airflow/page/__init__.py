"""The Holdfast page in Airflow: a FastAPI application with plain assets, built by the API server alone.

Imports what plain modules of `holdfast_airflow` have, and none of its other packages.
"""
