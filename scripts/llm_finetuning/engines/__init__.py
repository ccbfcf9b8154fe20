"""Programs for the training interpreter: the only place, with `templates/`, that names the heavy libraries.

Nothing imports these modules. A command starts one with `program.run_program` and reads the records it sends back;
`protocol` says how the two talk.
"""
