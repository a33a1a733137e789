"""A sweep for people: `jaxband plot` draws it, `jaxband report` writes one page about it.

Read in this order: labels, figures, run_log, html, page, commands.
"""
