"""Sums the spans of a trace by track and name: where evaluations spend their time.

python tests/benchmarks/trace_sums.py trace.json
python tests/benchmarks/trace_sums.py trace.json --track "evaluation 3"
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any


def spans(path: Path) -> list[dict[str, Any]]:
    """Read the spans of a trace, each with the name of its track."""
    events = [
        json.loads(line.rstrip(",")) for line in path.read_text("utf-8").splitlines()[1:] if line != "]"
    ]
    names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    return [event | {"track": names[event["tid"]]} for event in events if event["ph"] == "X"]


def main() -> None:
    """Print the sums, or the spans of some tracks in order."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("--track", help="print the spans of tracks that match, in order")
    options = parser.parse_args()
    found = spans(options.trace)
    if not found:
        parser.error(f"{options.trace} holds no span: nothing was evaluated")
    start = min(span["ts"] for span in found)
    if options.track:
        for span in sorted(found, key=lambda span: span["ts"]):
            if re.search(options.track, span["track"]):
                since, lasts = (span["ts"] - start) / 1e6, span["dur"] / 1e6
                print(f"{since:9.3f} {lasts:8.3f} s  {span['track']}  {span['name']}  {span['args'] or ''}")
        return
    sums: dict[tuple[str, str], list[float]] = defaultdict(list)
    for span in found:
        facts = " ".join(str(value) for key, value in span["args"].items() if key not in ("id", "count"))
        kind = re.sub(r"( of .*)? \d+$", "", span["track"])
        sums[kind, f"{span['name']} {facts}".strip()].append(span["dur"] / 1e6)
    last = max(span["ts"] + span["dur"] for span in found)
    print(f"{(last - start) / 1e6:.1f} s in all")
    print(f"{'track':<16} {'span':<34} {'count':>6} {'sum s':>9} {'median s':>9} {'longest s':>9}")
    for (kind, name), lasts in sorted(sums.items(), key=lambda item: (item[0][0], -sum(item[1]))):
        numbers = f"{sum(lasts):>9.2f} {median(lasts):>9.3f} {max(lasts):>9.2f}"
        print(f"{kind:<16} {name:<34} {len(lasts):>6} {numbers}")


if __name__ == "__main__":
    main()
