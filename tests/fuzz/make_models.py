"""Makes the sound files of the corpora of models, their runs and their requests, and a few that are not.

python make_models.py  (numpy; those of `pickle` are made by ../golden/record_pickles.py)
"""
import io, json, pathlib, struct, zipfile
import numpy as np

here = pathlib.Path(__file__).parent
golden = here.parent / "golden"
corpus = here / "corpus"
NEXT = b"==NEXT FILE=="


def save(folder, name, data):
    (corpus / folder).mkdir(exist_ok=True)
    (corpus / folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


# --- package

IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]


def blake3(data):
    """BLAKE3 of at most 1024 bytes, which are one chunk."""
    assert len(data) <= 1024
    turn = lambda x, n: (x >> n | x << (32 - n)) & 0xFFFFFFFF
    chain = IV
    blocks = [data[at:at + 64] for at in range(0, max(len(data), 1), 64)]
    for index, block in enumerate(blocks):
        flags = (index == 0) | (10 if index == len(blocks) - 1 else 0)
        words = list(struct.unpack("<16I", block.ljust(64, b"\0")))
        s = list(chain) + IV[:4] + [0, 0, len(block), flags]

        def mix(a, b, c, d, x, y):
            for word, one, two in [(x, 16, 12), (y, 8, 7)]:
                s[a] = (s[a] + s[b] + word) & 0xFFFFFFFF
                s[d] = turn(s[d] ^ s[a], one)
                s[c] = (s[c] + s[d]) & 0xFFFFFFFF
                s[b] = turn(s[b] ^ s[c], two)

        for _ in range(7):
            for at in range(4):
                mix(at, 4 + at, 8 + at, 12 + at, words[2 * at], words[2 * at + 1])
            for at in range(4):
                mix(at, 4 + (at + 1) % 4, 8 + (at + 2) % 4, 12 + (at + 3) % 4, words[8 + 2 * at], words[9 + 2 * at])
            words = [words[place] for place in ORDER]
        chain = [s[at] ^ s[at + 8] for at in range(8)]
    return struct.pack("<8I", *chain).hex()


assert blake3(b"") == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
assert blake3(b"abc") == "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"


def package(kind, members, compression=zipfile.ZIP_STORED, **changed):
    members = {
        "metadata.json": json.dumps({"title": "organ", "licence": "CC-BY-4.0", "metrics": {"val_mean_dice": 0.9}}).encode(),
        "labels.json": json.dumps([{"value": 1, "name": "spleen", "colour": [9, 8, 7]}]).encode(),
        **members,
    }
    signature = members.pop("manifest.sig", None)
    sums = {name: {"bytes": len(content), "blake3": blake3(content)} for name, content in sorted(members.items())}
    manifest = {"format": 1, "kind": kind, "program": "hearth 0.1.0", "members": sums, **changed}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        entries = {"manifest.json": json.dumps(manifest).encode(), **members}
        if signature:
            entries["manifest.sig"] = signature
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return out.getvalue()


weights = np.arange(100, dtype="<f4").tobytes()
save("package", "run.hearth", package("run", {"recipe.toml": b"task = \"organ\"\n", "weights.safetensors": weights, "LICENCE": b"Use it well.\n"}))
save("package", "nnunet.hearth", package("nnunet", {"model/plans.json": b"{}", "model/fold_0/checkpoint.pth": weights}, zipfile.ZIP_DEFLATED))
save("package", "slip.hearth", package("nnunet", {"model/../../slip": b"x"}))
save("package", "signed.hearth", package("run", {"recipe.toml": b"", "manifest.sig": bytes(64)}, signed_by="d7" * 32))

# --- bundle, expression

for name in ["classification_template", "mednist_reg", "pancreas_ct_dints_segmentation"]:
    save("bundle", f"{name}.yaml", (golden / f"bundles/{name}/configs/inference.yaml").read_bytes())
for name in ["breast_density_classification", "endoscopic_tool_segmentation", "spleen_deepedit_annotation"]:
    save("bundle", f"{name}.json", (golden / f"bundles/{name}/configs/inference.json").read_bytes())
save("bundle", "itself.json", '{"a": "@b", "b": "$@a + 1", "c": {"_target_": "X", "y": "@c"}, "d": "%c::y"}')
save("bundle", "aliases.yaml", "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n")
expressions = [
    "[i * j + 1 for i in range(3) for j in (1, 2) if i != j]",
    "{k: v for k, v in zip(['a', 'b'], @list)}",
    "list(map(lambda x: x[0] if x else None, [@list, @table['a'], 'abc']))",
    "sorted(@text.split(' '), key=lambda t: -len(t), reverse=True)[1:-1:2]",
    "'{}'.join(['a', 'b']).replace('a', 'bb').upper() + str(12)",
    "@table.get('x', 1.5e3) ** 2 // 7 % 3 == 0 and not (1 < 2 <= 3)",
    "(lambda f, n=3: f(n))(lambda n: [n] * n)",
    "torch.load('x.pt')['a'] if os.path.exists('x.pt') else torch.device('cuda')",
    "dict(@table, c=max(1, 2), d=sum([0.5, 1]), e=min(*[3, 4]), **{'f': {1, 2} | {3}})",
    "(lambda f: f(f))(lambda f: f(f))",
]
for index, text in enumerate(expressions):
    save("expression", f"{index}.py", text)

# --- plans, probabilities

for name in ["ct_aniso_separate_z", "mr_2d_transposed", "organs_legacy_nomirror"]:
    save("plans", f"{name}.json", json.dumps(json.loads((golden / f"nnunet/{name}/model/plans.json").read_text())))
save("plans", "dataset.json", (golden / "nnunet/smaller_than_patch_nib/model/dataset.json").read_bytes())
fingerprint = json.loads((golden / "nnunet/planner/Dataset004_Hippocampus/dataset_fingerprint.json").read_text())
for key in ["spacings", "shapes_after_crop"]:
    fingerprint[key] = fingerprint[key][:3]
save("plans", "fingerprint.json", json.dumps(fingerprint))
save("plans", "postprocessing.json", json.dumps({
    "postprocessing_fns": ["remove_all_but_largest_component_from_segmentation"],
    "postprocessing_kwargs": [{"labels_or_regions": [1, [2, 3]], "background_label": 0}]}))
save("plans", "circle.json", json.dumps({"configurations": {"a": {"inherits_from": "b"}, "b": {"inherits_from": "a"}}}))


def npz(array, save=np.savez_compressed, **arrays):
    out = io.BytesIO()
    save(out, probabilities=array, **arrays)
    return out.getvalue()


small = np.linspace(0, 1, 48, dtype=np.float32).reshape(2, 2, 3, 4)
save("probabilities", "packed.npz", npz(small))
save("probabilities", "plain.npz", npz(small, np.savez))
save("probabilities", "half.npz", npz(small.astype(np.float16), np.savez))
# The header of an array of 32 GiB, and no values.
header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2048, 2048, 1024), }"
header = header.ljust(118 - 1) + b"\n"
huge = io.BytesIO()
with zipfile.ZipFile(huge, "w") as archive:
    archive.writestr("probabilities.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
save("probabilities", "huge.npz", huge.getvalue())

# --- annotations

ring = lambda points: "".join(f'<Coordinate Order="{i}" X="{x}" Y="{y}" />' for i, (x, y) in enumerate(points))
square, hole = [(10, 10), (40, 10.5), (40, 40), (10, 40)], [(20, 20), (30, 20), (30, 30), (20, 30)]
save("annotations", "asap.xml", f"""<?xml version="1.0"?>
<ASAP_Annotations><Annotations>
<Annotation Name="a" Type="Polygon" PartOfGroup="_0" Color="#F4FA58"><Coordinates>{ring(square)}</Coordinates></Annotation>
<Annotation Name="h" Type="Spline" PartOfGroup="_2" Color="#F4FA58"><Coordinates>{ring(hole)}</Coordinates></Annotation>
<Annotation Name="m" Type="Dot" PartOfGroup="None" Color="#F4FA58"><Coordinates>{ring([(20, 20)])}</Coordinates></Annotation>
</Annotations><AnnotationGroups><Group Name="_0" PartOfGroup="None" Color="#00ff00"><Attributes /></Group></AnnotationGroups></ASAP_Annotations>""")
save("annotations", "entities.xml", '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]><ASAP_Annotations>&c;</ASAP_Annotations>')
closed = lambda points: [list(point) for point in points + points[:1]]
feature = lambda geometry, name: {"type": "Feature", "geometry": geometry, "properties": {"objectType": "annotation", "classification": {"name": name}}}
save("annotations", "qupath.geojson", json.dumps({"type": "FeatureCollection", "features": [
    feature({"type": "Polygon", "coordinates": [closed(square), closed(hole)]}, "Tumor"),
    feature({"type": "MultiPolygon", "coordinates": [[closed(square)], [closed(hole)]]}, "Ignore*"),
    feature({"type": "Point", "coordinates": [1, 2]}, "x")]}))

# --- run

data = here.parent.parent / "engine/report/tests/data"
for name in ["demo", "failed", "gan"]:
    files = [data / name / file for file in ["metrics.csv", "log.jsonl", "summary.json", "warnings.jsonl"]]
    lines = [b"".join(path.read_bytes().splitlines(True)[:40]) if path.suffix == ".jsonl" and path.exists()
             else path.read_bytes() if path.exists() else b"" for path in files]
    save("run", name, NEXT.join(lines))

# --- request


def form(*parts):
    body = b""
    for name, file, content in parts:
        named = f'; filename="{file}"' if file else ""
        body += f'--X\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + content + b"\r\n"
    return b"multipart/form-data; boundary=X\n" + body + b"--X--\r\n"


study = io.BytesIO()
with zipfile.ZipFile(study, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("study/1.dcm", b"one" * 50)
    archive.writestr("study/series/2.dcm", b"two" * 50)
save("request", "predict", b"POST /predict/refuses?format=nrrd&series=1.2\n" + form(("file", "ct.nii.gz", b"\x1f\x8b image"), ("params", "", b'{"a": [1, null]}')))
save("request", "study", b"POST /predict\n" + form(("file", "study.zip", study.getvalue())))
save("request", "several", b"POST /infer/refuses?output=json\n" + form(("file", "a.nii", b"a"), ("file", "a.nii", b"b"), ("params", "", b'{"result_extension": ".nrrd", "save_label": "true"}')))
save("request", "plain", b"POST /predict/refuses?name=ct.nrrd\napplication/octet-stream\nNRRD0004\n")
save("request", "session", b"PUT /session/?expiry=1\n" + form(("files", "image", b"NRRD0004\n"), ("files", "../../x", b"x")))
save("request", "login", b"POST /auth/token\napplication/x-www-form-urlencoded\nusername=a&password=b%20c%ff")
save("request", "store", b"PUT /datastore/label?label=..%2Fa&tag=final\n" + form(("label", "l.nii.gz", b"l"), ("params", "", b"{}")))
save("request", "logs", b"GET /logs/?lines=18446744073709551615\n\n")
