"""The Tracker protocol and its MLflow side.

Nothing is imported here: the core takes `tracking.protocol` without loading mlflow.
"""
