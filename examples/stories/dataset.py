"""A dataset: from a table and a folder of images to one file, without a line of schema; asked, sorted, counted, and back.

    python examples/stories/dataset.py FOLDER
"""

import csv
import sys
from pathlib import Path

import holdall


def main(folder: Path) -> None:
    images = folder / "images"
    images.mkdir()
    with open(folder / "photos.csv", "w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["id", "image", "label", "stars"])
        for n in range(100):
            (images / f"{n}.pgm").write_bytes(b"P5 1 1 255\n" + bytes([n]))
            table.writerow([n, f"{n}.pgm", ["cat", "dog", "cow"][n % 3], n % 5])

    kind = holdall.schema.infer(folder / "photos.csv", tight=True, enums=8, file_members=["image"])
    path = folder / "photos.mt"
    holdall.build(path, folder / "photos.csv", kind, files=images, file_members=["image"])

    with holdall.open(path) as f:
        photos = f["records"].records()
        print(photos)
        best = photos.where("label in (cat, dog) and stars>=4").sort("-stars", "id")
        assert best.groups("label") == [("cat", 7), ("dog", 7)]
        print(best.groups("label"))
        assert best[0]["image"] == b"P5 1 1 255\n" + bytes([best[0]["id"]])
        names = best.export("image", folder / "best", names="id")
        assert (folder / "best" / str(names[0])).read_bytes() == best[0]["image"]
        try:
            photos.where("labl=cat")
        except holdall.NotFoundError as e:
            print(e.hint)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
