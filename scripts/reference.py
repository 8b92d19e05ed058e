"""Write the pages of reference into docs/reference: `.venv/bin/python scripts/reference.py`."""

from pathlib import Path

from enmasse.resources.reference import pages

FOLDER = Path(__file__).parent.parent / "docs" / "reference"


def main() -> None:
    """Write every page, and take away those of kinds that are no more."""
    FOLDER.mkdir(exist_ok=True)
    made = pages()
    for file in FOLDER.glob("*.md"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
