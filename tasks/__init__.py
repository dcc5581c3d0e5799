"""One Prefect task a stage; each body is one call into the core."""

from twolevers.environment import prepare_environment

prepare_environment()
