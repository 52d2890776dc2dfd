#!/usr/bin/env python3
"""Calls out of loops that are compiled for AVX-512, in a built program.

A function that is called is compiled once, for narrow registers: where a closure or a generic function is not
inlined, each of its instructions costs a call, and the loop around it is not vectorized. The compiler decides anew
with each version, so the program itself is looked at.

    python3 docs/benches/wide_calls.py target/release/hearth

Needs `objdump`. Exits with 1 and names the calls where there are any beside those of ALLOWED.
"""

import collections
import re
import subprocess
import sys

# What is called once for a row, or where voxels lie beyond the edge of the image.
ALLOWED = ("Volume::by_taps", "Volume::inner")
# What is called when something goes wrong or memory is needed, and threads.
APART = re.compile(
    r"panic|alloc|drop_in_place|@plt|mem(cpy|move|set)|unwind|slice_.*fail|slice_index|bounds|expect_fail"
    r"|unwrap_failed|finish_grow|grow_one|reserve|cold|core::fmt|rayon_core|crossbeam|std::|parking"
)


def readable(names: set[str]) -> dict[str, str]:
    """Names as they stand in the source; two functions may have one."""
    order = sorted(names)
    text = subprocess.run(["c++filt"], input="\n".join(order), capture_output=True, text=True, check=True).stdout
    return {name: re.sub(r"::h[0-9a-f]{16}$", "", line) for name, line in zip(order, text.split("\n"))}


def main(program: str) -> int:
    wide: set[str] = set()
    calls: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    listing = ["objdump", "-d", "--no-show-raw-insn", program]
    with subprocess.Popen(listing, stdout=subprocess.PIPE, text=True, errors="replace") as objdump:
        here = None
        for line in objdump.stdout:
            if line.endswith(">:\n"):
                here = line[line.index("<") + 1 : -3]
            elif here and "%zmm" in line:
                wide.add(here)
            elif here and "call" in line and (called := re.search(r"\bcall\s+[0-9a-f]+ <([^>+]*)", line)):
                calls[here][called[1]] += 1
    if objdump.returncode or not wide:
        print(f"{program} has no function with wide registers, or cannot be read", file=sys.stderr)
        return 2
    source = readable(wide | {called for caller in wide for called in calls[caller]})
    ours = [name for name in wide if "hearth" in source[name]]
    found: collections.Counter = collections.Counter()
    for caller in ours:
        for called, count in calls[caller].items():
            name = source[called]
            if called not in wide and not APART.search(name) and not name.endswith(ALLOWED):
                found[source[caller], name] += count
    for (caller, called), count in found.most_common():
        print(f"{count:4} {caller} -> {called}")
    print(f"{len(ours)} functions with wide registers, {sum(found.values())} calls of narrow ones out of them")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
