"""What a peer finds in a file, as interop/README.md says."""

import os


class Listing:
    def __init__(self, folder):
        self.folder, self.count = folder, 0

    def component(self, tensor, shape, layout, role, dtype, logical, data):
        name, shape = tensor.encode().hex(), ",".join(map(str, shape))
        fields = [str(self.count), name, shape, layout, role, dtype, logical or "-"]
        print("\t".join(fields))
        with open(os.path.join(self.folder, str(self.count)), "wb") as out:
            out.write(data)
        self.count += 1
