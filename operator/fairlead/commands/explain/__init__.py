"""`fairlead explain JOB`: why a job stands where it stands, from what any user of its namespace may read.

`facts` reads the objects, `account` joins them, `advice` concludes what to do next, `text` prints.
"""
