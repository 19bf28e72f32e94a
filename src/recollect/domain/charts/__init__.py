"""Charts of query results, by rules: `chart` chooses and builds, `columns` reads what a column is, `formats` words
numbers and dates, `themes` has the colours, `spec_check` refuses specs that are not like ours. Pure: rows in, a
Vega-Lite spec out.
"""
