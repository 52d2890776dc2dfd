//! The file of the finished patches of a map, from which a repeated call continues.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use hearth_recipe::{Context, Outcome, RecipeError};

/// The values of the finished patches of a map, which are also in a file if it has one.
pub(super) struct Partial {
    /// The values, patch by patch.
    pub(super) values: Vec<f32>,
    file: Option<(PathBuf, File)>,
}

impl Partial {
    /// Continues the map of this key: `each` values for each of its patches. Without a file it starts
    /// without values.
    ///
    /// # Errors
    /// A file of another program, or one that cannot be read or written.
    pub(super) fn resume(path: Option<&Path>, key: &str, patches: usize, each: usize) -> Outcome<Self> {
        let Some(path) = path else { return Ok(Self { values: Vec::new(), file: None }) };
        let (file, values) = resume(path, key, patches, each)?;
        Ok(Self { values, file: Some((path.to_owned(), file)) })
    }

    /// Adds the values of further patches.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn push(&mut self, found: Vec<f32>) -> Outcome {
        if let Some((path, file)) = &mut self.file {
            let bytes: Vec<u8> = found.iter().flat_map(|value| value.to_le_bytes()).collect();
            file.write_all(&bytes).while_doing(|| format!("cannot write {}", path.display()))?;
        }
        self.values.extend(found);
        Ok(())
    }
}

/// Opens a partial map to continue it: returns the file, positioned after the last complete patch,
/// and its values, `each` per patch. A file of another map (other weights, a changed slide) is
/// started again.
fn resume(path: &Path, key: &str, patches: usize, each: usize) -> Outcome<(File, Vec<f32>)> {
    let doing = || format!("cannot use {}", path.display());
    let mut values: Vec<f32> = Vec::new();
    if path.exists() {
        let mut reader = BufReader::new(hearth_files::open(path).while_doing(doing)?);
        let mut line = Vec::new();
        reader.by_ref().take(1 << 16).read_until(b'\n', &mut line).while_doing(doing)?;
        let line = String::from_utf8_lossy(&line);
        if !line.is_empty() && !line.starts_with("{\"hearth\":\"partial probability map\"") {
            let what = "is no partial map of this program; move it away";
            return Err(RecipeError::new(format!("{} {what}", path.display())));
        }
        if line.strip_suffix('\n') == Some(key) {
            let mut bytes = Vec::new();
            reader.take((4 * patches * each) as u64).read_to_end(&mut bytes).while_doing(doing)?;
            values.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
            values.truncate(values.len() / each * each);
        }
    }
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    let mut file = hearth_files::open_own(path, &mut options).while_doing(doing)?;
    let start = key.len() as u64 + 1;
    if values.is_empty() {
        file.set_len(0).while_doing(doing)?;
        file.write_all(format!("{key}\n").as_bytes()).while_doing(doing)?;
    }
    // A truncated patch is computed again.
    let end = start + 4 * values.len() as u64;
    file.set_len(end).while_doing(doing)?;
    file.seek(SeekFrom::Start(end)).while_doing(doing)?;
    Ok((file, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "{\"hearth\":\"partial probability map\",\"n\":1}";

    #[test]
    fn a_partial_map_continues_where_it_was_cut() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.part");
        let (mut file, values) = resume(&path, KEY, 10, 1).expect("new");
        assert!(values.is_empty());
        file.write_all(&[1.5_f32, 0.25].map(f32::to_le_bytes).concat()).expect("written");
        file.write_all(&[9, 9]).expect("a value cut in the middle");
        drop(file);
        let (mut file, values) = resume(&path, KEY, 10, 1).expect("again");
        assert_eq!(values, [1.5, 0.25]);
        file.write_all(&0.75_f32.to_le_bytes()).expect("written");
        drop(file);
        assert_eq!(resume(&path, KEY, 10, 1).expect("again").1, [1.5, 0.25, 0.75]);
        // With two values per patch, the second patch is not complete.
        assert_eq!(resume(&path, KEY, 10, 2).expect("pairs").1, [1.5, 0.25]);
        assert_eq!(resume(&path, KEY, 1, 1).expect("fewer").1, [1.5]);
        // With other weights it is started again; a file of another program stays.
        assert!(resume(&path, &KEY.replace('1', "2"), 10, 1).expect("other").1.is_empty());
        std::fs::write(&path, "notes").expect("written");
        assert!(resume(&path, KEY, 10, 1).expect_err("somebody's").to_string().contains("move it away"));
        assert_eq!(std::fs::read(&path).expect("read"), b"notes");
    }
}
