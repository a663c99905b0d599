"""Publishing: a model's file and a card that says what the graph does not, packed, verified, shown, and taken apart.

    python examples/stories/publishing.py FOLDER
"""

import sys
from pathlib import Path

from holdall import carton

MODEL = Path(__file__).parent.parent / "xor" / "model" / "model.onnx"
CARD = """
short_description = "Says whether two numbers differ"
license = "MIT"
model_description = "# Xor\\nTwo numbers in, one out."

[card]
usage = "for tests"
"""


def main(folder: Path) -> None:
    (folder / "card.toml").write_text(CARD)
    package = folder / "xor.carton"
    report = carton.pack(MODEL, package, from_toml=folder / "card.toml")
    print(f"{package.name}: {report.hash}")

    with carton.open(package) as p:
        assert p.verify()
        print(p.license, p.card["usage"], [value.name for value in p.inputs])
        page = p.html()
        assert "Two numbers in, one out." in page
        (folder / "xor.html").write_text(page)
        p.unpack(folder / "xor")

    # Changed and packed again: the list of hashes is made anew.
    text = (folder / "xor/carton.toml").read_text().replace("MIT", "Apache-2.0")
    (folder / "xor/carton.toml").write_text(text)
    again = carton.pack(folder / "xor", folder / "again.carton")
    assert again.hash != report.hash
    with carton.open(folder / "again.carton") as p:
        assert p.license == "Apache-2.0" and p.verify()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
