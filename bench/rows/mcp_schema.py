"""What every agent's model reads before it has done anything: the list of the tools and the instructions."""

import json

from bench.engines.tellwire_broker import TellwireEngine
from bench.mcp_process import opened_shim
from bench.report import Detail, Ratio, Section
from bench.workshop import Workshop
from tellwire.mcp.dialects import DIALECTS


def measure_mcp_schema(workshop: Workshop) -> Section:
    """Sizes, not times: once for each dialect, with the tools that it has by default."""
    engine, section = TellwireEngine(), Section()
    with workshop.folder() as home, workshop.running(engine, home):
        for dialect in DIALECTS:
            with opened_shim(engine, f"reader-{dialect}", dialect) as shim:  # a name that is taken adds words
                told = shim.open()["instructions"]
                tools = shim.list_tools()
            text = json.dumps(tools, separators=(",", ":"), ensure_ascii=False)
            _add(section, f"MCP tools/list, {len(tools)} tools", "B", dialect, len(text.encode()))
            _add(section, "MCP instructions", "words", dialect, len(told.split()))
    return section


def _add(section: Section, row: str, unit: str, dialect: str, figure: float) -> None:
    name = f"tellwire, dialect {dialect}"
    section.ratios.append(Ratio(row, unit, name, figure))
    section.details.append(Detail(row, name, unit, {"value": figure}, (figure, figure), 1))
