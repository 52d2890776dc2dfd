//! The output files of a run: their places, and protection of existing files.

use std::path::{Path, PathBuf};

use hearth_data::Image;
use hearth_recipe::{Outcome, RecipeError};

/// The files that a run writes.
#[derive(Debug)]
pub(crate) struct Writing {
    /// The folder for relative output paths.
    base: PathBuf,
    /// The folder for relative input paths.
    pub inputs: PathBuf,
    /// Whether existing files may be replaced.
    overwrite: bool,
    written: Vec<PathBuf>,
    /// Warnings about probable mistakes.
    pub warnings: Vec<String>,
    /// Captured images of `SaveImage`; if set, nothing is written.
    pub captured: Option<Vec<Image>>,
    /// Rows of tables, by file.
    pub rows: Vec<(PathBuf, Vec<(String, String)>)>,
}

impl Writing {
    pub fn new(base: PathBuf, inputs: PathBuf, overwrite: bool) -> Self {
        let (written, warnings, rows) = (Vec::new(), Vec::new(), Vec::new());
        Writing { base, inputs, overwrite, written, warnings, captured: None, rows }
    }

    /// Captures the output of a case without writing it.
    pub fn capturing(inputs: PathBuf) -> Self {
        Writing { captured: Some(Vec::new()), ..Writing::new(PathBuf::new(), inputs, false) }
    }

    /// Claims the path of a file, which may then be written.
    ///
    /// # Errors
    /// An existing file that may not be replaced, or that is an input.
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

    /// Records a finished file.
    pub fn done(&mut self, path: PathBuf) {
        if !self.written.contains(&path) {
            self.written.push(path);
        }
    }

    /// The files, in the order of their first writing.
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

/// The path without `.` parts.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}
