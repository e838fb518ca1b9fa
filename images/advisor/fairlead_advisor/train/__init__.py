"""Makes a model from labelled traces; needs the optional packages of `fairlead-advisor[train]`, which the runtime does without.

`data` reads traces with their splits, `windows` turns them into features, `candidates` are the models that compete, `validation` keeps
paths apart, `fit` chooses and calibrates, `processes` spreads the work, `onnx_graph` exports, `report` reports.
"""
