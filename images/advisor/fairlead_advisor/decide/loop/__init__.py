"""The loop beside a transfer as one machine without input or output: `handle(state, event, now) -> (state, actions)`.

Whoever drives it samples the mover every `sampling_period_s(state)` and hands the sample in as `Sampled` (or `SamplingFailed`). The actions
of an answer are carried out in their order. The last of them may be a request, and then `handle` wants its answer as the next event, before
any other sample: `Classify` is followed by `Classified`, `ProbePaused` by `ProbeFinished`, `SetTransport` by `TransportApplied`,
`TransportRefused` or `TransportFailed`. All other actions report and have no answer. A sample passes four stages: the background monitor
(`monitoring`), the send buffers (`buffers`), the stream search (`streams`) and the publication of its count; a stage that needs an answer
leaves what it was doing in `LoopState.pending`. `opening` is the machine of the same form that takes the first decision, before the data.
"""
