"""`fairlead explain JOB`: why a job stands where it stands, from what any user of its namespace may read.

`connection` reads the kubeconfig, `facts` the objects, `account` joins them, `advice` concludes what to do next, `text` prints.
"""
