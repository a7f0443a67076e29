"""How the documentation is built: `make docs`."""

import warnings
from importlib import metadata
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
HERE = Path(__file__).parent

project = "skgpx"
author = "The skgpx developers"
copyright = author
version = release = metadata.version("skgpx")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["build", "_templates"]
# the configuration of the gallery holds a function, which cannot be cached
suppress_warnings = ["config.cache"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "skgpx"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["cards.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}


def examples_do_not_warn(gallery_conf, path):
    """An example that warns is an example to be mended."""
    warnings.filterwarnings("error", category=UserWarning)


sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": None,
    "download_all_examples": False,
    "parallel": True,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib", examples_do_not_warn),
}


def leave_out_requests(app, what, name, item, skip, options):
    """Methods of metadata routing, `set_fit_request` and so on, are scikit-learn's."""
    return skip or (name.startswith("set_") and name.endswith("_request"))


def setup(app):
    """Connect what depends on the members of a class."""
    app.connect("autodoc-skip-member", leave_out_requests)
