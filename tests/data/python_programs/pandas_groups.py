"""pandas: groups with Python functions, joins, dates, and CSV in and out."""

import io

import common
import numpy as np
import pandas as pd


def spread(group):
    return group.max() - group.min()


def label(row):
    return f"{row['key']}-{int(row['value'] * 10)}"


def work(random):
    frame = pd.DataFrame({"key": random.choice(list("abcdef"), 300), "value": random.random(300)})
    frame["when"] = pd.date_range("2024-01-01", periods=300, freq="h")
    frame.groupby("key")["value"].apply(spread)
    frame.groupby("key")["value"].agg(["mean", "std", lambda part: part.quantile(0.9)])
    frame["label"] = frame.head(40).apply(label, axis=1)
    frame.merge(frame.head(50), on="key").sort_values("value_x")
    frame["value"].rolling(10).apply(lambda window: window[0], raw=True)
    text = frame.to_csv()
    pd.read_csv(io.StringIO(text), parse_dates=["when"], converters={"key": str.upper})
    frame.resample("D", on="when")["value"].sum()


def main():
    random = np.random.default_rng(1)
    common.ready()
    while True:
        work(random)


main()
