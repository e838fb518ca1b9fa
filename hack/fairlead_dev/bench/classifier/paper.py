"""The figures of the text of [Anvari 2021, section 6.6]; those that exist only as bar charts are not among them."""

ROWS: tuple[dict[str, object], ...] = (
    {"name": "paper_1nn_dtw_passive_10s", "classifier": "1-NN DTW", "probing": "passive", "window_s": 10, "accuracy": 0.80},
    {"name": "paper_1nn_dtw_passive_35s", "classifier": "1-NN DTW", "probing": "passive", "window_s": 35, "accuracy": 0.85},
    {"name": "paper_1nn_dtw_active_50s", "classifier": "1-NN DTW", "probing": "active", "window_s": 50, "accuracy": 0.96},
)
DIFFERENCES = (
    "The paper holds out windows of the same hour-long recording of one path; here whole recordings are held out.",
    "One path of 500 Mb/s and 128 ms there; for these rows the same shape at a tenth of the rate, five recordings of two minutes a class.",
    "Ten requests within 9 ms of every second there, the requests within 25 ms of it here.",
    "The paper does not say which kernel and version of BBR sent its traffic; here it is the running kernel's.",
)
