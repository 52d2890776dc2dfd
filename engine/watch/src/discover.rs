//! Recognition of folders: a run, or a folder of runs.

use std::fs;
use std::path::{Path, PathBuf};

/// The depth of the search for runs: `runs/sweep/rate/fold0`.
const DEPTH: usize = 4;

/// The maximum number of folder entries that are searched, so that a mistake does not read a whole file
/// system.
const MAX_ENTRIES: usize = 20_000;

/// Whether a folder is a run.
pub fn is_run(folder: &Path) -> bool {
    folder.join("recipe.toml").is_file()
}

/// Whether a folder exists and is empty, such as one that a run has reserved.
pub fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut inside| inside.next().is_none())
}

/// The runs in a folder, by name. The folders of runs themselves are not searched.
pub fn runs_in(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut budget) = (Vec::new(), MAX_ENTRIES);
    search(folder, DEPTH, &mut budget, &mut found);
    found.sort_unstable();
    found
}

fn search(folder: &Path, depth: usize, budget: &mut usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Some(left) = budget.checked_sub(1) else { return };
        *budget = left;
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if hidden || !path.is_dir() {
            continue;
        }
        if is_run(&path) {
            found.push(path);
        } else if depth > 1 {
            search(&path, depth - 1, budget, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_at_some_depth_and_not_within_runs() {
        let root = tempfile::tempdir().expect("a folder");
        for run in ["b", "a", "folds/fold0", "folds/fold1", "a/inner", ".hidden/run", "1/2/3/4", "1/2/3/4/5/6"] {
            fs::create_dir_all(root.path().join(run)).expect("a folder");
            fs::write(root.path().join(run).join("recipe.toml"), "").expect("a recipe");
        }
        let found = runs_in(root.path());
        let names: Vec<String> =
            found.iter().map(|path| path.strip_prefix(root.path()).expect("within").display().to_string()).collect();
        assert_eq!(names, ["1/2/3/4", "a", "b", "folds/fold0", "folds/fold1"]);
        assert!(!is_empty(root.path()) && is_run(&root.path().join("a")));
    }
}
