"""The display of the page "Getting started", drawn by the code of that page.

python docs/images/first_display.py
"""

import re
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
page = (HERE.parent / "start.md").read_text(encoding="utf-8")
blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
drawn = next(i for i, block in enumerate(blocks) if "CoverageDisplay" in block)
names = {}
for block in blocks[1 : drawn + 1]:
    exec(block, names)
figure = plt.gcf()
figure.set_size_inches(9.0, 3.6)
figure.savefig(HERE / "first_display.png", dpi=120, bbox_inches="tight")
