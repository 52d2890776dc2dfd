//! Reproducible archives, which depend only on their files, and checksums.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::Outcome;

/// The entries below a folder, parents first, ordered by name; relative to the folder.
pub fn entries(folder: &Path) -> Outcome<Vec<PathBuf>> {
    fn gather(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
        let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        for path in paths {
            found.extend(path.strip_prefix(root).map(Path::to_owned));
            if path.is_dir() {
                gather(root, &path, found)?;
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    gather(folder, folder, &mut found)?;
    Ok(found)
}

/// Whether a file is a program or a library.
pub fn is_executable(path: &Path) -> bool {
    let parent = path.parent().and_then(Path::file_name);
    parent.is_some_and(|folder| folder == "bin" || folder == "plugins")
}

/// Writes a tar archive of the content of a folder: in a fixed order, owned by root, with one time.
pub fn tar<W: Write>(folder: &Path, prefix: &str, time: u64, out: W) -> Outcome<W> {
    let mut tar = Builder::new(out);
    let root = PathBuf::from(prefix);
    let all = entries(folder)?;
    for path in std::iter::once(Path::new("")).chain(all.iter().map(PathBuf::as_path)) {
        let (file, name) = (folder.join(path), root.join(path));
        let mut header = Header::new_gnu();
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        header.set_username("root")?;
        header.set_groupname("root")?;
        if file.is_dir() {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(0o755);
            header.set_size(0);
            tar.append_data(&mut header, name.join(""), io::empty())?;
        } else {
            header.set_mode(if is_executable(&file) { 0o755 } else { 0o644 });
            let file = File::open(&file)?;
            header.set_size(file.metadata()?.len());
            tar.append_data(&mut header, name, file)?;
        }
    }
    Ok(tar.into_inner()?)
}

/// Like [`tar()`], compressed.
pub fn tar_gz(folder: &Path, prefix: &str, to: &Path, time: u64) -> Outcome {
    let out = gz(io::BufWriter::new(File::create(to)?));
    tar(folder, prefix, time, out)?.finish()?.flush()?;
    Ok(())
}

/// A compressor that stores neither a name nor a time.
pub fn gz<W: Write>(out: W) -> flate2::write::GzEncoder<W> {
    GzBuilder::new().mtime(0).write(out, Compression::default())
}

/// Checksums in the format of `sha256sum --check`.
pub fn checksums(files: &[PathBuf]) -> Outcome<String> {
    let mut lines = String::new();
    for path in files {
        let (mut digest, mut file, mut piece) = (Sha256::new(), File::open(path)?, vec![0; 1 << 20]);
        loop {
            match file.read(&mut piece)? {
                0 => break,
                count => digest.update(&piece[..count]),
            }
        }
        let hex: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        lines += &format!("{hex}  {}\n", path.file_name().unwrap_or_default().display());
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_archive_depends_on_nothing_but_its_files() {
        let root = tempfile::tempdir().unwrap();
        let mut made = Vec::new();
        for (name, order) in [("one", ["bin", "share"]), ("two", ["share", "bin"])] {
            let folder = root.path().join(name);
            for part in order {
                fs::create_dir_all(folder.join(part)).unwrap();
            }
            fs::write(folder.join("bin/hearth"), "program").unwrap();
            fs::write(folder.join("share/page"), "text").unwrap();
            let to = root.path().join(format!("{name}.tar.gz"));
            tar_gz(&folder, "hearth-1", &to, 1_000_000_000).unwrap();
            made.push(fs::read(&to).unwrap());
        }
        assert_eq!(made[0], made[1]);
        // The archive as tar reads it.
        let archive = root.path().join("one.tar.gz");
        let list = Command::new("tar").args(["--utc", "-tvzf"]).arg(&archive).output().unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(
            names,
            ["hearth-1/", "hearth-1/bin/", "hearth-1/bin/hearth", "hearth-1/share/", "hearth-1/share/page"]
        );
        assert!(list.contains("-rwxr-xr-x root/root         7 2001-09-09 01:46 hearth-1/bin/hearth"), "{list}");
        let sums = checksums(&[archive]).unwrap();
        fs::write(root.path().join("SUMS"), sums).unwrap();
        let checked = Command::new("sha256sum").args(["--check", "SUMS"]).current_dir(root.path()).status().unwrap();
        assert!(checked.success());
    }
}
