//! The files of a run: where they go, and what is not replaced.

use std::path::{Path, PathBuf};

use hearth_data::Image;
use hearth_recipe::{Outcome, RecipeError};

/// What a run writes.
#[derive(Debug)]
pub(crate) struct Writing {
    /// Where paths that are not absolute count from.
    base: PathBuf,
    /// Where input paths count from.
    pub inputs: PathBuf,
    /// Whether files that were there before may be replaced.
    overwrite: bool,
    written: Vec<PathBuf>,
    /// What one may not have meant.
    pub warnings: Vec<String>,
    /// Images that `SaveImage` would write, where they are captured and nothing is written.
    pub captured: Option<Vec<Image>>,
    /// Rows of tables, by file.
    pub rows: Vec<(PathBuf, Vec<(String, String)>)>,
}

impl Writing {
    pub fn new(base: PathBuf, inputs: PathBuf, overwrite: bool) -> Self {
        let (written, warnings, rows) = (Vec::new(), Vec::new(), Vec::new());
        Writing { base, inputs, overwrite, written, warnings, captured: None, rows }
    }

    /// Writes nothing, and keeps what would be written of a case.
    pub fn capturing(inputs: PathBuf) -> Self {
        Writing { captured: Some(Vec::new()), ..Writing::new(PathBuf::new(), inputs, false) }
    }

    /// The path of a file, which may be written from now on.
    ///
    /// # Errors
    /// Where there is one that may not be replaced, or is an input.
    pub fn claim(&mut self, path: &Path, inputs: &[PathBuf]) -> Outcome<PathBuf> {
        let path = plain(&self.base.join(path));
        if inputs.iter().any(|input| same(input, &path)) {
            let what = "is an input of this run, and would be overwritten: set output_dir";
            return Err(RecipeError::new(format!("{} {what}", path.display())));
        }
        if self.written.contains(&path) {
            self.warnings.push(format!("{}: written twice; the later result stays", path.display()));
        } else if !self.overwrite && path.symlink_metadata().is_ok() {
            let advice = "set output_dir to another folder, or add --overwrite to replace what is there";
            return Err(RecipeError::new(format!("{} exists: {advice}", path.display())));
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|error| RecipeError::new(format!("{} cannot be made: {error}", folder.display())))?;
        }
        Ok(path)
    }

    /// Notes a file that is complete.
    pub fn done(&mut self, path: PathBuf) {
        if !self.written.contains(&path) {
            self.written.push(path);
        }
    }

    /// The files, in the order in which they were written first.
    pub fn written(&self) -> &[PathBuf] {
        &self.written
    }
}

fn same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// A path without `.` within.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}
