"""Write what follows from the models: the pages of docs/reference, and the schema of the Plan in
vectors/plans: `.venv/bin/python scripts/reference.py`.
"""

import json
from pathlib import Path

from enmasse.plan.schema import plan_schema
from enmasse.resources.reference import pages

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"
SCHEMA = ROOT / "vectors" / "plans" / "schema.json"


def main() -> None:
    """Write every page, and delete pages of removed kinds."""
    FOLDER.mkdir(exist_ok=True)
    generated = pages()
    for file in FOLDER.glob("*.md"):
        if file.name not in generated:
            file.unlink()
    for name, text in generated.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    SCHEMA.write_text(json.dumps(plan_schema(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
