"""Links from the HTML representation of an estimator to its documentation."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import ClassVar


@cache
def documentation_url() -> str:
    """Address of the documentation, as the installed distribution declares it.

    The project URL "Documentation", otherwise that of the repository; empty where the
    package is not installed or declares neither.
    """
    try:
        declared = metadata.metadata("skgpx").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    pairs = (one.partition(",")[::2] for one in declared)
    urls = {name.strip().lower(): url.strip().rstrip("/") for name, url in pairs}
    return urls.get("documentation", "")


class DocumentationLink:
    """Link to the page of `_documentation_page`; none where no address is declared.

    The names are those of scikit-learn's mixin for its HTML representation.
    """

    _documentation_page: ClassVar[str] = "index.md"
    _doc_link_module = "skgpx"

    @property
    def _doc_link_template(self) -> str:
        url = documentation_url()
        return f"{url}/{self._documentation_page}" if url else ""
