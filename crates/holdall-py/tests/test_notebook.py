"""The notebook that shows the package around: its cells run, and its saved outputs are those of a run without errors."""

import ast
import json

from conftest import ROOT

TOUR = ROOT / "examples/tour.ipynb"


def cells():
    return [cell for cell in json.loads(TOUR.read_text())["cells"] if cell["cell_type"] == "code"]


def test_the_cells_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in cells():
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, TOUR.name, "exec"), names)
        if last is None:
            continue
        value = eval(compile(ast.Expression(last.value), TOUR.name, "eval"), names)
        shown = [output["data"] for output in cell["outputs"] if output["output_type"] == "execute_result"]
        assert (value is not None) == bool(shown)
        if hasattr(value, "_repr_html_"):
            html = value._repr_html_()
            assert "cannot be shown" not in html
            # The picture of the saved run has the same parts.
            saved = "".join(shown[0]["text/html"])
            assert [html.count(tag) for tag in ("<svg", "<table", "<tr>")] == [
                saved.count(tag) for tag in ("<svg", "<table", "<tr>")
            ]


def test_the_outputs_are_saved():
    all = cells()
    assert [cell["execution_count"] for cell in all] == list(range(1, len(all) + 1))
    assert not any(output["output_type"] == "error" for cell in all for output in cell["outputs"])
    pictures = sum("<svg" in "".join(output.get("data", {}).get("text/html", "")) for cell in all for output in cell["outputs"])
    assert pictures >= 4
    text = TOUR.read_text()
    assert "/tmp" not in text and "/home" not in text and "<script" not in text
