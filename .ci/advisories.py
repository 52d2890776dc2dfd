#!/usr/bin/env python3
"""Prints the advisories of RustSec on crates of Cargo.lock: .ci/advisories.py CLONE > .ci/advisories.txt

CLONE is a clone of https://github.com/rustsec/advisory-db. `tests/advisories.rs` reads the list, which stands in
where the clone cannot be made.
"""

import pathlib
import re
import subprocess
import sys
import tomllib

clone = pathlib.Path(sys.argv[1])
lock = tomllib.loads((pathlib.Path(__file__).parent.parent / "Cargo.lock").read_text())
names = {package["name"] for package in lock["package"]}
state = subprocess.run(
    ["git", "-C", clone, "log", "-1", "--format=%h of %cs"], check=True, capture_output=True, text=True
).stdout.strip()
print(f"# Advisories of RustSec ({state}) on crates of Cargo.lock; .ci/advisories.py writes this file.")
print("# id | crate | versions that are not affected, any of them | title")
for path in sorted(clone.glob("crates/*/RUSTSEC-*.md"), key=lambda path: (path.parent.name, path.name)):
    if path.parent.name not in names:
        continue
    text = path.read_text()
    front = tomllib.loads(re.search(r"```toml\n(.*?)```", text, re.S)[1])
    advisory, versions = front["advisory"], front["versions"]
    if "withdrawn" in advisory:
        continue
    sound = [*versions.get("patched", []), *versions.get("unaffected", [])]
    title = re.search(r"^# (.*)$", text.split("\n```\n", 1)[1], re.M)[1].strip().replace("|", "/")
    print(f"{advisory['id']} | {advisory['package']} | {' or '.join(sound) or 'none'} | {title}")
