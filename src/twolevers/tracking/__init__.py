"""The Tracker protocol and its MLflow side; nothing is imported here, so that the core stays free of mlflow."""
