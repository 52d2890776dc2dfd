//! Surfaces of phantoms are closed and have the exact volume and position, also as measured by
//! trimesh and scikit-image.

#[path = "../../../tests/clients.rs"]
mod clients;

use std::path::{Path, PathBuf};

use hearth_surface::{Affine, Mesh, Smoothing, Space, SurfaceError};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// An anisotropic, oblique affine with a reflection: voxel to RAS+ mm.
const AFFINE: Affine = [[-0.8, 0.0, 0.3, 40.0], [0.0, 0.9, 0.0, -70.0], [0.24, 0.0, 1.0, 12.5], [0.0, 0.0, 0.0, 1.0]];
const SHAPE: [usize; 3] = [70, 64, 60];
const CENTRE: [f64; 3] = [20.0, -42.0, 50.0];
const RADIUS: f64 = 18.0;

fn world([x, y, z]: [usize; 3], affine: &Affine) -> [f64; 3] {
    let at = [x as f64, y as f64, z as f64];
    std::array::from_fn(|r| (0..3).map(|c| affine[r][c] * at[c]).sum::<f64>() + affine[r][3])
}

fn values(shape @ [nx, ny, nz]: [usize; 3], of: impl Fn([usize; 3]) -> f32) -> Vec<f32> {
    let _ = shape;
    (0..nx * ny * nz).map(|i| of([i / (ny * nz), i / nz % ny, i % nz])).collect()
}

fn away(at: [usize; 3], affine: &Affine) -> f64 {
    let p = world(at, affine);
    (0..3).map(|a| (p[a] - CENTRE[a]).powi(2)).sum::<f64>().sqrt()
}

fn ball(affine: &Affine) -> Vec<f32> {
    values(SHAPE, |at| if away(at, affine) <= RADIUS { 3.0 } else { 0.0 })
}

fn exact() -> f64 {
    4.0 / 3.0 * std::f64::consts::PI * RADIUS.powi(3)
}

#[test]
fn a_ball_has_its_volume_and_its_place_in_space() {
    let mut mirrored = AFFINE;
    (0..3).for_each(|r| mirrored[r][0] = -mirrored[r][0]);
    mirrored[0][3] = -20.0;
    mirrored[2][3] = 25.0;
    for affine in [AFFINE, mirrored] {
        let mut mesh = Mesh::of_label(&ball(&affine), SHAPE, &affine, 3.0).expect("a surface");
        for (step, most) in [("as cut", 1.0), ("smoothed", 0.6), ("decimated", 0.7)] {
            match step {
                "smoothed" => mesh.smooth(Smoothing::default()).expect("smoothed"),
                "decimated" => mesh.decimate(0.8).expect("decimated"),
                _ => {}
            }
            assert!(mesh.is_watertight(), "{step}");
            let ratio = mesh.volume() / exact();
            assert!((ratio - 1.0).abs() < 0.01, "{step}: {ratio}");
            let far = mesh.vertices().iter().map(|p| {
                let square: f64 = (0..3).map(|a| (p[a] - CENTRE[a]).powi(2)).sum();
                (square.sqrt() - RADIUS).abs()
            });
            let far = far.fold(0.0, f64::max);
            assert!(far < most, "{step}: {far} mm from the sphere");
        }
    }
}

#[test]
fn a_level_is_found_between_voxels() {
    let values = values(SHAPE, |at| (away(at, &AFFINE)) as f32).iter().map(|v| -v).collect::<Vec<f32>>();
    let mesh = Mesh::of_level(&values, SHAPE, &AFFINE, -RADIUS as f32).expect("a surface");
    assert!(mesh.is_watertight());
    assert!((mesh.volume() / exact() - 1.0).abs() < 0.003, "{}", mesh.volume() / exact());
    let area = 4.0 * std::f64::consts::PI * RADIUS * RADIUS;
    assert!((mesh.area() / area - 1.0).abs() < 0.005, "{}", mesh.area() / area);
}

/// Noise contains every combination of corners, and voxels that touch only at edges and corners.
#[test]
fn noise_is_closed_too() {
    let shape = [17, 13, 11];
    let identity = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
    for seed in 1..6_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1_u64 << 31) as f64
        };
        let values: Vec<f32> = (0..17 * 13 * 11).map(|_| f32::from(u8::from(random() < 0.15 * seed as f64))).collect();
        let mut mesh = Mesh::of_label(&values, shape, &identity, 1.0).expect("a surface");
        assert!(mesh.is_watertight() && mesh.volume() > 0.0, "{seed}");
        mesh.decimate(0.5).expect("decimated");
        assert!(mesh.is_watertight(), "{seed}, decimated");
        mesh.smooth(Smoothing::default().iterations(3)).expect("smoothed");
    }
}

#[test]
fn what_has_no_surface_is_an_error() {
    let values = ball(&AFFINE);
    let empty = Mesh::of_label(&values, SHAPE, &AFFINE, 7.0).expect_err("no such label").to_string();
    assert!(empty.contains("the label 7") && empty.contains("no voxel"), "{empty}");
    let level = Mesh::of_level(&values, SHAPE, &AFFINE, 9.0).expect_err("too high").to_string();
    assert!(level.contains('9'), "{level}");
    assert!(matches!(Mesh::of_label(&values[1..], SHAPE, &AFFINE, 3.0), Err(SurfaceError::Shape { .. })));
    assert!(matches!(Mesh::of_label(&[], [usize::MAX, 2, 2], &AFFINE, 3.0), Err(SurfaceError::Shape { .. })));
    let mut flat = AFFINE;
    (0..3).for_each(|r| flat[r][2] = flat[r][1]);
    assert!(matches!(Mesh::of_label(&values, SHAPE, &flat, 3.0), Err(SurfaceError::Affine(_))));
    flat[0][0] = f64::NAN;
    assert!(matches!(Mesh::of_label(&values, SHAPE, &flat, 3.0), Err(SurfaceError::Affine(_))));
    let mut mesh = Mesh::of_label(&values, SHAPE, &AFFINE, 3.0).expect("a surface");
    for part in [-0.1, 1.0, f64::NAN] {
        assert!(matches!(mesh.decimate(part), Err(SurfaceError::Option(_))));
    }
    assert!(matches!(mesh.smooth(Smoothing::default().pass_band(2.0)), Err(SurfaceError::Option(_))));
    assert!(matches!(mesh.smooth(Smoothing::default().iterations(10_001)), Err(SurfaceError::Option(_))));
}

fn record() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/trimesh.json")
}

/// The files that clients read: the extracted and the smoothed surface as STL, the decimated one as
/// OBJ.
fn files() -> [(&'static str, Vec<u8>); 3] {
    let mut mesh = Mesh::of_label(&ball(&AFFINE), SHAPE, &AFFINE, 3.0).expect("a surface");
    let cut = mesh.to_stl(Space::Lps);
    mesh.smooth(Smoothing::default()).expect("smoothed");
    let smooth = mesh.to_stl(Space::Lps);
    mesh.decimate(0.75).expect("decimated");
    let few = mesh.to_obj("the ball", Space::Ras).into_bytes();
    [("cut.stl", cut), ("smooth.stl", smooth), ("few.obj", few)]
}

fn sums() -> Value {
    let sum = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>();
    files().iter().map(|(name, bytes)| ((*name).to_owned(), json!(sum(bytes)))).collect()
}

/// Measures the files with trimesh, and extracts the surface of the same mask with scikit-image.
const SCRIPT: &str = r#"
import json, sys
import numpy as np
import trimesh
from skimage.measure import marching_cubes
from scipy.spatial import cKDTree
affine = np.array(json.loads(sys.argv[1])); shape = json.loads(sys.argv[2])
centre, radius = np.array(json.loads(sys.argv[3])), float(sys.argv[4])
grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1)
mask = np.linalg.norm(grid @ affine[:3, :3].T + affine[:3, 3] - centre, axis=-1) <= radius
vertices, faces, _, _ = marching_cubes(mask.astype(np.float32), 0.5)
theirs = trimesh.Trimesh(vertices @ affine[:3, :3].T + affine[:3, 3], faces, process=False)
out = {}
for path in sys.argv[5:]:
    name = path.split("/")[-1]
    head = open(path, "rb").read(80).decode()
    mesh = trimesh.load(path, force="mesh")
    if "SPACE=LPS" in head:
        mesh.apply_transform(np.diag([-1.0, -1, 1, 1]))
    # Large triangles are seen by points within them, too.
    dense = mesh if name == "cut.stl" else mesh.subdivide().subdivide()
    a, b = mesh.vertices, theirs.vertices
    hausdorff = max(cKDTree(dense.vertices).query(b)[0].max(), cKDTree(b).query(a)[0].max())
    outward = np.einsum("ij,ij->i", mesh.face_normals, mesh.triangles_center - centre) > 0
    out[name] = {
        "space": head.split("SPACE=")[1][:3], "watertight": bool(mesh.is_watertight),
        "winding": bool(mesh.is_winding_consistent), "euler": int(mesh.euler_number),
        "faces": len(mesh.faces), "volume": round(float(mesh.volume), 1),
        "centre": [round(float(v), 2) for v in mesh.center_mass],
        "outward": round(float(outward.mean()), 4), "hausdorff": round(float(hausdorff), 3),
    }
out["skimage"] = {"volume": round(abs(float(theirs.volume)), 1)}
print(json.dumps(out))
"#;

/// Checks the results of the clients.
fn check(said: &Value) {
    let theirs = said["skimage"]["volume"].as_f64().expect("a volume");
    for (name, most) in [("cut.stl", 0.02), ("smooth.stl", 0.75), ("few.obj", 1.5)] {
        let mesh = &said[name];
        assert_eq!(mesh["space"], if name == "few.obj" { "RAS" } else { "LPS" }, "{name}");
        assert!(mesh["watertight"] == true && mesh["winding"] == true && mesh["euler"] == 2, "{name}: {mesh}");
        assert_eq!(mesh["outward"], 1.0, "{name}");
        let number = |key: &str| mesh[key].as_f64().expect("a number");
        assert!((number("volume") / exact() - 1.0).abs() < 0.01, "{name}: {mesh}");
        assert!((number("volume") / theirs - 1.0).abs() < 0.01, "{name}: {mesh}");
        assert!(number("hausdorff") < most, "{name}: {mesh}");
        for (axis, at) in CENTRE.iter().enumerate() {
            assert!((mesh["centre"][axis].as_f64().expect("a number") - at).abs() < 0.05, "{name}: {mesh}");
        }
    }
    assert_eq!(said["few.obj"]["faces"].as_u64(), said["cut.stl"]["faces"].as_u64().map(|n| n.div_ceil(4)));
}

#[test]
fn clients_see_a_closed_ball() {
    let text = std::fs::read_to_string(record()).expect("the record");
    let recorded: Value = serde_json::from_str(&text).expect("JSON");
    let how = clients::how_to_record("hearth-surface");
    assert_eq!(sums(), recorded["files"], "other files are written now. {how}");
    check(&recorded["said"]);
}

#[test]
fn live_clients_see_a_closed_ball() {
    let Some(python) = clients::find(&["trimesh", "skimage", "scipy", "numpy"], "clients_see_a_closed_ball") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut arguments =
        vec![json!(AFFINE).to_string(), json!(SHAPE).to_string(), json!(CENTRE).to_string(), RADIUS.to_string()];
    for (name, bytes) in files() {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        arguments.push(path.display().to_string());
    }
    let said: Value = serde_json::from_str(&python.run(SCRIPT, &arguments)).expect("JSON");
    check(&said);
    if clients::recording() {
        let text = json!({ "made_with": python.versions(), "files": sums(), "said": said });
        std::fs::create_dir_all(record().parent().expect("a folder")).expect("made");
        std::fs::write(record(), format!("{text}\n")).expect("written");
    }
}
