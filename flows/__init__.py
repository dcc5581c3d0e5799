"""What a user triggers: order and parameters. Prefect reads its settings at import, so the
environment is prepared first."""

from twolevers.environment import prepare_environment

prepare_environment()
