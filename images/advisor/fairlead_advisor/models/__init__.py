"""The classifier as the sidecar uses it: an ONNX file of ours, checked, run and judged with numpy and onnxruntime alone.

`onnx_wire` looks into the bytes before anything runs them, `metadata` says what a model must tell of itself, `model` runs it,
`answer` decides what may be said, `classifier` is the one call from windows of a trace to answers, `location` finds
and `store` reads files, `release` checks and publishes one.
"""
