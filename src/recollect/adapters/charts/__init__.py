"""Charts as files, on vl-convert: `renderer` fills the port; `child` is the process that draws, `caption` writes what
stands under a chart, `page` makes the HTML.
"""
