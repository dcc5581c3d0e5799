"""What ships with the package: gpt2-nano's weights and the embedded data set."""

from pathlib import Path

EMBEDDED = Path(__file__).parent
DATASET_PATH = EMBEDDED / "instruction-data.json"
NANO_PATH = EMBEDDED / "gpt2-nano"
