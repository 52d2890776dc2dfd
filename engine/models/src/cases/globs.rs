//! Expands the arguments of `-i`: patterns and lists of paths.

use std::path::{Path, PathBuf};

use glob::{MatchOptions, glob_with};

use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::outputs::is_record;

use crate::cases::is_result;

/// The largest list file in bytes.
const MAX_LIST: u64 = 64 << 20;

/// Matching is case-sensitive, and `*` stays within a folder; `**` does not.
const PLAIN: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// Expands arguments to paths. A pattern (`scans/*/t1.nii.gz`, `scans/**/ct`) becomes its matches,
/// sorted by name. A text file (`.txt`) is a list with one path or pattern per line, relative to
/// the list's folder; empty lines and lines that start with `#` are skipped. Other paths stay,
/// including tables and JSON lists. Duplicate paths are used once.
///
/// # Errors
/// A pattern without matches or with a syntax error; a list that cannot be read, is empty, or names
/// a missing path.
pub fn expanded(given: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in given {
        if !path.is_file() || !path.extension().is_some_and(|end| end.eq_ignore_ascii_case("txt")) {
            all.extend(matching(path)?);
            continue;
        }
        let doing = || format!("the list {}", path.display());
        let lines = lines(path).while_doing(doing)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for (number, line) in lines {
            let doing = || format!("{}, line {number}", doing());
            let named = folder.join(&line);
            let found = matching(&named).while_doing(doing)?;
            if found == [named.clone()] && named.symlink_metadata().is_err() {
                let what = format!("there is no file or folder {}", named.display());
                return Err(RecipeError::new(what).context(doing()));
            }
            all.extend(found);
        }
    }
    // `./a` is `a`; a link with another name is another image.
    let mut seen = std::collections::HashSet::new();
    all.retain(|path| seen.insert(std::path::absolute(path).unwrap_or_else(|_| path.clone())));
    Ok(all)
}

/// The matches of a pattern; an existing path is not a pattern, whatever its name.
fn matching(path: &Path) -> Outcome<Vec<PathBuf>> {
    let Some(text) = path.to_str().filter(|text| text.contains(['*', '?', '['])) else {
        return Ok(vec![path.to_owned()]);
    };
    if path.symlink_metadata().is_ok() {
        return Ok(vec![path.to_owned()]);
    }
    let found = glob_with(text, PLAIN).while_doing(|| format!("the pattern {text}"))?;
    let mut paths = found.collect::<Result<Vec<PathBuf>, _>>().while_doing(|| format!("the pattern {text}"))?;
    // Records of results are not images.
    paths.retain(|path| !is_record(path));
    if !paths.iter().all(|path| is_result(path)) {
        paths.retain(|path| !is_result(path));
    }
    if paths.is_empty() {
        return Err(RecipeError::new(format!("the pattern {text} matches no file or folder")));
    }
    paths.sort_unstable();
    Ok(paths)
}

/// The non-empty lines of a list, with their numbers.
fn lines(path: &Path) -> Outcome<Vec<(usize, String)>> {
    let length = std::fs::metadata(path)?.len();
    if length > MAX_LIST {
        return Err(RecipeError::new(format!("it has {length} bytes, more than the limit of {MAX_LIST}")));
    }
    let bytes = hearth_files::read(path)?;
    let text = String::from_utf8(bytes).map_err(|_| RecipeError::new("it is not UTF-8: give a list of paths"))?;
    let lines = text.trim_start_matches('\u{feff}').lines().zip(1..);
    let lines = lines.map(|(line, number)| (number, line.trim().to_owned()));
    let said: Vec<(usize, String)> = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect();
    if said.is_empty() {
        return Err(RecipeError::new("it names no image"));
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: &[PathBuf]) -> Vec<String> {
        found.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn patterns_and_lists_are_what_they_name() {
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["b.nii", "a.nii", "c.nii.gz", "odd[1].nii", "a.nii.hearth.json"] {
            std::fs::write(dir.path().join(name), "x").expect("written");
        }
        std::fs::create_dir_all(dir.path().join("deep/er")).expect("made");
        std::fs::write(dir.path().join("deep/er/d.nii"), "x").expect("written");
        let at = |name: &str| dir.path().join(name);
        let found = |given: &[&str]| expanded(&given.iter().map(|name| at(name)).collect::<Vec<_>>());
        assert_eq!(names(&found(&["*.nii"]).expect("found")), ["a.nii", "b.nii", "odd[1].nii"]);
        assert_eq!(names(&found(&["[ab].nii*"]).expect("found")), ["a.nii", "b.nii"]);
        assert_eq!(names(&found(&["**/d.nii", "a.nii"]).expect("found")), ["d.nii", "a.nii"]);
        assert_eq!(names(&found(&["odd[1].nii"]).expect("it is there")), ["odd[1].nii"]);
        assert_eq!(names(&found(&["none.nii"]).expect("named when its turn comes")), ["none.nii"]);
        let twice = expanded(&["none.nii".into(), "./none.nii".into()]).expect("one");
        assert_eq!(names(&twice), ["none.nii"]);
        std::fs::write(at("list.txt"), "\u{feff}# those of Monday\r\n\r\nb.nii\n  deep/*/d.nii  \nb.nii\n")
            .expect("written");
        assert_eq!(names(&found(&["list.txt", "*.gz"]).expect("found")), ["b.nii", "d.nii", "c.nii.gz"]);
        for (text, said) in [
            ("a.nii\nlost.nii\n", "line 2: there is no file or folder"),
            ("# nothing\n", "names no image"),
            ("x*.nii\n", "matches no file"),
            ("***\n", "line 1"),
        ] {
            std::fs::write(at("bad.txt"), text).expect("written");
            let error = found(&["bad.txt"]).expect_err("refused").line();
            assert!(error.contains("bad.txt") && error.contains(said), "{error}");
        }
        std::fs::write(at("bad.txt"), [0xff, 0xfe, b'\n']).expect("written");
        assert!(found(&["bad.txt"]).expect_err("refused").line().contains("not UTF-8"));
        assert!(found(&["*.zip"]).expect_err("refused").line().contains("matches no file"));
    }
}
