"""How the documentation is built: `make docs`."""

import logging
import re
import warnings
from importlib import metadata
from pathlib import Path

import matplotlib as mpl
from sphinx_gallery.sorting import ExplicitOrder

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
# the configuration of the gallery holds a function, which cannot be cached; inherited
# docstrings speak of terms of scikit-learn's glossary
suppress_warnings = ["config.cache", "ref.term"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "skgpx"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["cards.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "collapse_navigation": True,
    "navbar_persistent": ["search-button"],
}


def examples_do_not_warn(gallery_conf, path):
    """An example that warns is an example to be mended; a first compilation is not."""
    warnings.filterwarnings("error", category=UserWarning)
    logging.getLogger("skgpx").addHandler(logging.NullHandler())


# Sections of the gallery, and what their examples begin with; others follow.
SECTIONS = {
    "first_steps": ("two_lines", "outliers", "classes", "monthly_series", "pipeline"),
    "targets": ("likelihoods", "exposure", "known_noise", "varying_noise", "digits"),
    "structure": (
        "additive",
        "air_quality",
        "neighbors",
        "learned_spectrum",
        "airfoil",
    ),
    "uncertainty": ("around_boosting", "gwi_in_between", "gwi_one_input", "conformal"),
    "functions": ("thompson", "neuron", "variance_starvation"),
    "extending": ("own_likelihood", "own_kernel", "own_basis", "own_sampler"),
}
GALLERY = HERE.parent / "examples" / "gallery"
ORDER = [f"plot_{name}.py" for names in SECTIONS.values() for name in names]

sphinx_gallery_conf = {
    "examples_dirs": str(GALLERY),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "subsection_order": ExplicitOrder(
        [f"../examples/gallery/{one}" for one in SECTIONS]
    ),
    "within_subsection_order": ExplicitOrder([*ORDER, "*"]),
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("skgpx",),
    "download_all_examples": False,
    "parallel": True,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "capture_repr": (),
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib", examples_do_not_warn),
}


def leave_out_requests(app, what, name, item, skip, options):
    """Methods of metadata routing, `set_fit_request` and so on, are scikit-learn's."""
    return skip or (name.startswith("set_") and name.endswith("_request"))


def link_to_gallery(app, name, source):
    """Links to scripts of the gallery, for readers of the sources, become its pages."""
    source[0] = re.sub(
        r"\]\([./]*/examples/gallery/(\w+/plot_\w+)\.py\)",
        r"](/gallery/\1.rst)",
        source[0],
    )


def setup(app):
    """Connect what changes pages before they are written."""
    app.connect("autodoc-skip-member", leave_out_requests)
    app.connect("source-read", link_to_gallery)
