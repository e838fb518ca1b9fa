"""The classifier as the sidecar uses it: an ONNX file of ours, checked, run and judged with numpy and onnxruntime alone.

`onnx_wire` checks the bytes before anything runs them, `metadata` is what a model must declare, `model` runs it,
`answer` judges the numbers, `classifier` is the one call from windows of a trace to answers, `location` finds
and `store` reads files, `release` checks and publishes one.
"""
