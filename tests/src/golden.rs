//! Golden cases: inputs and outputs of MONAI, one safetensors file each, replayed by operation.
//!
//! A replay function takes a [`Case`] and returns an [`Outcome`]; `?` works on all methods of the
//! case.
//!
//! ```
//! use hearth_tests::golden::{Case, Miss, Outcome};
//! fn replay(case: &Case) -> Outcome {
//!     match case.op.as_str() {
//!         "Double" => {
//!             let image = case.array("in.image")?;
//!             let doubled: Vec<f64> = image.values.iter().map(|v| v * 2.0).collect();
//!             let mut check = case.check();
//!             check.close("out.image", &image.shape, &doubled);
//!             check.outcome()
//!         }
//!         other => Err(Miss::unsupported(format!("op {other}"))),
//!     }
//! }
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// The result of a replay: passed, or the reason why not.
pub type Outcome = Result<(), Miss>;

/// The reason why a case did not pass.
#[derive(Clone, Debug)]
pub enum Miss {
    /// The project does not support this operation, or not with these parameters.
    Unsupported(String),
    /// The project supports it, but its result is wrong.
    Failed(String),
}

impl Miss {
    /// The project does not support this.
    pub fn unsupported(why: impl Into<String>) -> Self {
        Miss::Unsupported(why.into())
    }

    /// The result is wrong, or there was an error.
    pub fn failed(why: impl std::fmt::Display) -> Self {
        Miss::Failed(why.to_string())
    }
}

/// Every error of the library during a replay counts as a failure.
impl<E: std::error::Error> From<E> for Miss {
    fn from(error: E) -> Self {
        Miss::Failed(error.to_string())
    }
}

/// A tensor of a case, its values widened to f64 (exact for every type that occurs).
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Lengths of the axes, slowest first; empty for a scalar.
    pub shape: Vec<usize>,
    /// The values, row-major.
    pub values: Vec<f64>,
    /// The type in the file: `F32`, `I64`, ...
    pub dtype: String,
}

impl Array {
    /// The values as f32.
    pub fn f32(&self) -> Vec<f32> {
        self.values.iter().map(|v| *v as f32).collect()
    }

    /// A 4x4 matrix.
    pub fn matrix4(&self) -> Result<[[f64; 4]; 4], Miss> {
        if self.shape == [3, 3] {
            // From a 2-D image, for which MONAI has no third axis.
            let at = |r: usize, c: usize| self.values[r * 3 + c];
            return Ok([
                [at(0, 0), at(0, 1), 0.0, at(0, 2)],
                [at(1, 0), at(1, 1), 0.0, at(1, 2)],
                [0.0, 0.0, 1.0, 0.0],
                [0.0, 0.0, 0.0, 1.0],
            ]);
        }
        if self.shape != [4, 4] {
            return Err(Miss::failed(format!("expected a 4x4 matrix, the case holds {:?}", self.shape)));
        }
        Ok(std::array::from_fn(|r| std::array::from_fn(|c| self.values[r * 4 + c])))
    }
}

/// One recorded call.
#[derive(Clone, Debug)]
pub struct Case {
    /// The folder: `losses`, `networks`, ...
    pub family: String,
    /// File name without suffix.
    pub name: String,
    /// MONAI class or function.
    pub op: String,
    /// Constructor arguments.
    pub params: Value,
    /// Arguments of the call, or the fixed random draw.
    pub call: Value,
    /// The whole record.
    pub record: Value,
    /// Tensors by name.
    pub tensors: BTreeMap<String, Array>,
}

impl Case {
    /// Reads a case file.
    pub fn read(path: &Path) -> Result<Case, Miss> {
        let bytes = fs::read(path)?;
        let (_, metadata) = SafeTensors::read_metadata(&bytes)?;
        let text = metadata
            .metadata()
            .as_ref()
            .and_then(|m| m.get("case"))
            .ok_or_else(|| Miss::failed(format!("{}: no `case` in the metadata", path.display())))?;
        let record: Value = serde_json::from_str(text)?;
        let file = SafeTensors::deserialize(&bytes)?;
        let mut tensors = BTreeMap::new();
        for (name, view) in file.tensors() {
            let values = widen(view.dtype(), view.data())
                .ok_or_else(|| Miss::failed(format!("{}: {name} is {:?}", path.display(), view.dtype())))?;
            let dtype = format!("{:?}", view.dtype());
            tensors.insert(name, Array { shape: view.shape().to_vec(), values, dtype });
        }
        let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        Ok(Case {
            family: text("family"),
            name: text("case"),
            op: text("op"),
            params: record["params"].clone(),
            call: record["call"].clone(),
            tensors,
            record,
        })
    }

    /// A tensor that the case must have.
    pub fn array(&self, name: &str) -> Result<&Array, Miss> {
        self.tensors.get(name).ok_or_else(|| Miss::failed(format!("the case has no tensor {name}")))
    }

    /// A tensor that the case may have.
    pub fn find(&self, name: &str) -> Option<&Array> {
        self.tensors.get(name)
    }

    /// The parameters that are given, by name.
    pub fn params(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.params.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
    }

    /// Unsupported unless every given parameter is one of these.
    pub fn only_params(&self, known: &[&str]) -> Outcome {
        match self.params().find(|(name, _)| !known.contains(name)) {
            Some((name, _)) => Err(Miss::unsupported(format!("parameter {name} of {}", self.op))),
            None => Ok(()),
        }
    }

    /// Starts a comparison at the case's own tolerance.
    pub fn check(&self) -> Check<'_> {
        Check { case: self, problems: Vec::new(), compared: 0 }
    }

    /// A number of the tolerance record; 0 if missing.
    pub fn tolerance(&self, key: &str) -> f64 {
        self.record["tolerance"][key].as_f64().unwrap_or(0.0)
    }
}

fn widen(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f64>> {
    macro_rules! as_f64 {
        ($type:ty) => {
            bytes
                .chunks_exact(size_of::<$type>())
                .map(|b| <$type>::from_le_bytes(b.try_into().unwrap_or_default()) as f64)
                .collect()
        };
    }
    Some(match dtype {
        Dtype::F32 => as_f64!(f32),
        Dtype::F64 => as_f64!(f64),
        Dtype::I64 => as_f64!(i64),
        Dtype::I32 => as_f64!(i32),
        Dtype::I16 => as_f64!(i16),
        Dtype::U8 | Dtype::BOOL => bytes.iter().map(|b| f64::from(*b)).collect(),
        _ => return None,
    })
}

/// Collects differences.
pub struct Check<'a> {
    case: &'a Case,
    problems: Vec<String>,
    compared: usize,
}

impl Check<'_> {
    /// Compares with the recorded tensor at the case's `atol` and `rtol` (an affine at
    /// `affine_atol`), allowing `max_mismatch` voxels and `max_abs_steps` grey levels if the case
    /// sets them.
    pub fn close(&mut self, name: &str, shape: &[usize], values: &[f64]) {
        let (mut atol, mut rtol) = (self.case.tolerance("atol"), self.case.tolerance("rtol"));
        if matches!(name, "out.affine" | "out.matrix" | "out.inverse_affine") {
            (atol, rtol) = (self.case.tolerance("affine_atol"), 0.0);
        }
        atol = atol.max(self.case.tolerance("max_abs_steps"));
        let allowed = self.case.tolerance("max_mismatch") as usize;
        self.close_at(name, shape, values, atol, rtol, allowed);
    }

    /// The same for f32 values.
    pub fn close_f32(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let values: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
        self.close(name, shape, &values);
    }

    /// Compares a gradient of a loss at `grad_atol`, `grad_rtol`.
    pub fn gradient(&mut self, name: &str, shape: &[usize], values: &[f64]) {
        let (atol, rtol) = (self.case.tolerance("grad_atol"), self.case.tolerance("grad_rtol"));
        self.close_at(name, shape, values, atol, rtol, 0);
    }

    /// Compares a gradient of a network: `max |a - b| <= grad_atol + grad_max_rel[name] * max |b|`.
    pub fn network_gradient(&mut self, name: &str, shape: &[usize], values: &[f64]) {
        let Some(expected) = self.case.find(name) else {
            return self.problem(format!("the case has no {name}"));
        };
        let key = name.strip_prefix("grad.").unwrap_or(name);
        let relative = self.case.record["tolerance"]["grad_max_rel"][key].as_f64().unwrap_or(0.0);
        let largest = expected.values.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        self.close_at(name, shape, values, self.case.tolerance("grad_atol") + relative * largest, 0.0, 0);
    }

    /// Compares with the caller's tolerance.
    pub fn close_at(&mut self, name: &str, shape: &[usize], values: &[f64], atol: f64, rtol: f64, allowed: usize) {
        let Some(expected) = self.case.find(name) else {
            return self.problem(format!("the case has no {name}"));
        };
        if expected.shape != shape || expected.values.len() != values.len() {
            return self.problem(format!("{name}: shape {shape:?}, expected {:?}", expected.shape));
        }
        let mut wrong = 0;
        let mut worst = (0.0_f64, 0, 0.0, 0.0);
        for (i, (a, b)) in values.iter().zip(&expected.values).enumerate() {
            let same_special = (a.is_nan() && b.is_nan()) || (a.is_infinite() && a == b);
            let difference = (a - b).abs();
            if same_special || difference <= atol + rtol * b.abs() {
                continue;
            }
            wrong += 1;
            if difference.is_nan() || difference > worst.0 {
                worst = (if difference.is_nan() { f64::INFINITY } else { difference }, i, *a, *b);
            }
        }
        self.compared += 1;
        if wrong > allowed {
            let (size, at, a, b) = worst;
            self.problem(format!(
                "{name}: {wrong} of {} values differ, the most at {at}: {a} for {b} ({size:.3e})",
                values.len()
            ));
        }
    }

    /// Compares anything else for equality, `expected` first.
    pub fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, expected: &T, got: &T) {
        self.compared += 1;
        if expected != got {
            self.problem(format!("{what}: {got:?}, expected {expected:?}"));
        }
    }

    /// Records a difference.
    pub fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Passed if something was compared and nothing differs.
    pub fn outcome(self) -> Outcome {
        match (self.problems.is_empty(), self.compared) {
            (true, 0) => Err(Miss::failed("nothing was compared")),
            (true, _) => Ok(()),
            (false, _) => Err(Miss::Failed(self.problems.join("; "))),
        }
    }
}

/// The folder of cases: `HEARTH_GOLDEN`, or `tests/golden` of the project.
pub fn root() -> PathBuf {
    std::env::var_os("HEARTH_GOLDEN")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("golden"), PathBuf::from)
}

/// Folders with recordings of other programs in their own formats.
const OTHER_RECORDINGS: [&str; 2] = ["bundles", "nnunet"];

/// Every case file under a folder, sorted by family and name.
pub fn files(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                let other = path.file_name().is_some_and(|name| OTHER_RECORDINGS.iter().any(|other| name == *other));
                if !(other && folder == root) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "safetensors") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
