"""What is installed without a clone."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_an_installed_package_finds_what_it_deploys(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    installed = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(installed)
    code = (
        f"import sys; sys.path.insert(0, {str(installed)!r}); from flows import deploy; "
        "from flows.automations import automations; assert automations(None); "
        "print(deploy.PREFECT_FILE, *(one['name'] for one in deploy.deployments()))"
    )
    asked = [sys.executable, "-c", code]
    said = subprocess.run(asked, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    file, *names = said.split()
    assert Path(file) == installed / "flows" / "prefect.yaml"
    assert {"fine-tune", "rerun"} <= set(names)
