"""What ships with the package: gpt2-nano's weights and the embedded data sets."""

from pathlib import Path

EMBEDDED = Path(__file__).parent
DATASET_PATH = EMBEDDED / "instruction-data.json"
MESSAGES_PATH = EMBEDDED / "messages.csv"
NANO_PATH = EMBEDDED / "gpt2-nano"
