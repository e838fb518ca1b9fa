"""`fairlead preflight JOB.yaml`: makes the checks of a job in a file, moves nothing and leaves nothing behind.

`job` reads the file, `run` has a job checked that moves nothing, `findings` joins what was found, `text` prints.
"""
