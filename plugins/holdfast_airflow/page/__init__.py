"""The Holdfast page in Airflow: a FastAPI application with plain assets, built by the API server alone.

It imports nothing of `operators`, `sensors` or `decorators`.
"""
