"""`tachograph mcp`: the questions as tools of the Model Context Protocol."""
