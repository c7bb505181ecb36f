"""Reads a chart back, as its readers do."""

import xml.etree.ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"


def read(svg: str) -> ET.Element:
    """Parse a chart, which must be well-formed."""
    return ET.fromstring(svg)  # noqa: S314 -- our own text


def texts(svg: str) -> list[str]:
    """Return what is written in a chart, from first to last."""
    return ["".join(element.itertext()) for element in read(svg).iter(f"{SVG}text")]


def rects(svg: str) -> list[dict[str, str]]:
    """Return the rectangles that are drawn, those of patterns and frames left out."""
    root = read(svg)
    inside = {id(rect) for defs in root.iter(f"{SVG}defs") for rect in defs.iter(f"{SVG}rect")}
    return [rect.attrib for rect in root.iter(f"{SVG}rect") if id(rect) not in inside]
