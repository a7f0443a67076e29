"""Links of the HTML representation."""

from email.message import Message
from importlib import metadata
from pathlib import Path

import pytest

from skgpx import (
    DecoupledSampler,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
)
from skgpx._documentation import documentation_url

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {
    PLSRegressor: "pls.md",
    PLSClassifier: "pls.md",
    SpectralVGPRegressor: "spectral_vgp.md",
    DecoupledSampler: "decoupled.md",
    GWIRegressor: "gwi.md",
}


@pytest.fixture
def declares(monkeypatch):
    """A function that sets the project URLs of the installed distribution."""

    def declare(*urls):
        def installed(name):
            assert name == "skgpx"
            if urls == (None,):
                raise metadata.PackageNotFoundError
            message = Message()
            for url in urls:
                message["Project-URL"] = url
            return message

        monkeypatch.setattr(metadata, "metadata", installed)
        documentation_url.cache_clear()

    yield declare
    documentation_url.cache_clear()


@pytest.mark.parametrize(("estimator", "page"), PAGES.items())
def test_the_representation_links_to_the_page_of_the_estimator(
    estimator, page, declares
):
    declares("Source, https://one.example", "Documentation, https://docs.example/v1/")
    assert (DOCS / page).exists()
    link = f"https://docs.example/v1/{page}"
    assert estimator()._get_doc_link() == link
    assert f'href="{link}"' in estimator()._repr_html_()


@pytest.mark.parametrize("urls", [(), ("Source, https://one.example",), (None,)])
def test_without_an_address_there_is_no_link(urls, declares):
    declares(*urls)
    for estimator in PAGES:
        assert estimator()._get_doc_link() == ""
        html = estimator()._repr_html_()
        assert estimator.__name__ in html
        assert "Documentation for" not in html
