"""One style for the figures of tutorials and examples: legible on a light and on a dark page, without a background."""

from __future__ import annotations

from typing import Any

PALETTE = ("#2b8cbe", "#d95f02", "#1b9e77", "#b0779f", "#a6841c", "#7c7fd1", "#c4597a", "#838383")
"""C0 to C7. Each color has a contrast of at least 3 to white and to the dark page."""
INK = "#838383"
LIGHT, DARK = "#ffffff", "#131416"
RC: dict[str, Any] = {
    "figure.figsize": (6.4, 3.2),
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "savefig.transparent": True,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": "medium",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "image.cmap": "viridis",
    "font.size": 10,
}


def apply(gallery: object = None, file: object = None) -> None:
    """Set the style; Sphinx-Gallery calls this before every script."""
    import matplotlib as mpl
    from cycler import cycler

    mpl.rcdefaults()
    mpl.use("Agg")
    mpl.rcParams.update({**RC, "axes.prop_cycle": cycler(color=PALETTE)})


def contrast(color: str, page: str) -> float:
    """The contrast ratio of WCAG between two colors, from 1 to 21.

    >>> round(contrast("#ffffff", "#000000"))
    21
    """

    def luminance(name: str) -> float:
        parts = [int(name[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(color), luminance(page)), reverse=True)
    return (high + 0.05) / (low + 0.05)
