"""No group of modules imports itself in a circle, not even inside functions or for annotations."""

import grimp
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

KNOWN = {
    # settings of a training check themselves against torchvision's models, when they are made
    frozenset(
        f"sim2cam.models.{name}"
        for name in ("network.torchvision_models", "training.config")
    ),
}  # fmt: skip
"""Circles that are not opened yet."""


def find_cycles(graph):
    """Groups of modules of which each imports every other, directly or not."""
    modules = sorted(graph.modules)
    number = {module: i for i, module in enumerate(modules)}
    imports = [
        (number[module], number[other])
        for module in modules
        for other in graph.find_modules_directly_imported_by(module)
    ]
    rows, columns = zip(*imports, strict=True)
    links = coo_array(([1] * len(imports), (rows, columns)), shape=(len(modules),) * 2)
    _, groups = connected_components(links, directed=True, connection="strong")
    members = {}
    for module, group in zip(modules, groups, strict=True):
        members.setdefault(group, set()).add(module)
    return {frozenset(group) for group in members.values() if len(group) > 1}


def test_no_modules_import_each_other():
    graph = grimp.build_graph("sim2cam", cache_dir=None, exclude_type_checking_imports=False)
    assert find_cycles(graph) <= KNOWN


@pytest.mark.parametrize("imports", [["ab", "ba"], ["ab", "bc", "ca", "cd"]])
def test_a_planted_circle_is_found(imports):
    graph = grimp.ImportGraph()
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    assert find_cycles(graph) == {frozenset("".join(imports)) - {"d"}}
