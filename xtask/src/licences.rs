//! The licence texts of every crate and library in a program.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::crates::{Crate, Crates};
use crate::natives::Native;

/// The first letters of the names of licence files, in capitals.
const NAMES: [&str; 8] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE", "OFL", "PATENTS"];

/// Copies the texts into folders of `to`, one for each crate and library, and lists them in `INDEX.md`.
/// Returns the number of crates without a text whose licence is not that of this repository.
pub fn copy(crates: &Crates, natives: &[Native], to: &Path) -> Outcome<usize> {
    let mut index = String::from(
        "# Licences\n\nThe crates of this program, their licences, and the folders of their texts.\n\n\
         | crate | licence | texts | from |\n|---|---|---|---|\n",
    );
    let mut without = 0;
    for (key, one) in &crates.all {
        let texts = texts(one)?;
        let folder = to.join(key);
        let mut names = Vec::new();
        for text in &texts {
            fs::create_dir_all(&folder)?;
            let name = text.file_name().unwrap_or_default();
            fs::copy(text, folder.join(name))?;
            names.push(format!("[{0}]({key}/{0})", name.display()));
        }
        // Crates of this repository share its licence text.
        if names.is_empty() && one.sha256.is_none() && one.repository.is_none() {
            names.push("[LICENSE](LICENSE)".to_owned());
        }
        let apache = one.licence.as_deref().is_some_and(|licence| licence.contains("Apache-2.0"));
        if names.is_empty() && apache {
            names.push("none in the crate; the text of [Apache-2.0](LICENSE)".to_owned());
        }
        if names.is_empty() {
            without += 1;
            names.push(format!("none in the crate; by {}", one.authors.join(", ")));
        }
        let licence = one.licence.as_deref().unwrap_or("see its texts");
        let from = one.repository.as_deref().unwrap_or("");
        writeln!(index, "| {} {} | {licence} | {} | {from} |", one.name, one.version, names.join(", "))?;
    }
    index +=
        "\nLibraries that are linked in and are no crates.\n\n| library | licence | text | from |\n|---|---|---|---|\n";
    for one in natives {
        let (key, licence, from) = (one.key(), one.licence, one.address);
        let name = one.text.file_name().unwrap_or_default();
        fs::create_dir_all(to.join(&key))?;
        fs::copy(&one.text, to.join(&key).join(name)).map_err(|error| format!("{}: {error}", one.text.display()))?;
        let version = one.version.as_deref().unwrap_or_default();
        writeln!(
            index,
            "| {} | {licence} | [{1}]({key}/{1}) | {from} |",
            format!("{} {version}", one.name).trim(),
            name.display()
        )?;
    }
    fs::create_dir_all(to)?;
    fs::copy(crate::root().join("LICENSE"), to.join("LICENSE"))?;
    fs::write(to.join("INDEX.md"), index)?;
    Ok(without)
}

/// The licence files in a crate's folder, by name, and the file that its manifest names.
fn texts(one: &Crate) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(&one.folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) && !name.ends_with(".RS") {
            found.push(path);
        }
    }
    found.extend(one.licence_file.iter().filter(|file| file.is_file()).cloned());
    found.sort();
    // The manifest may name a file elsewhere in the crate with the same name as one next to the
    // manifest.
    found.dedup_by(|a, b| a.file_name() == b.file_name());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn texts_lie_in_folders_of_their_crates() {
        let root = tempfile::tempdir().unwrap();
        let (with, without) = (root.path().join("with"), root.path().join("without"));
        fs::create_dir_all(with.join("src")).unwrap();
        fs::create_dir(&without).unwrap();
        for (file, text) in [("LICENSE-MIT", "MIT"), ("COPYING", "text"), ("src/lib.rs", ""), ("license.rs", "code")] {
            fs::write(with.join(file), text).unwrap();
        }
        let one = |name: &str, folder: &Path| Crate {
            name: name.into(),
            version: "1.0.0".into(),
            licence: Some("MIT".into()),
            description: None,
            repository: Some("https://example.org".into()),
            authors: vec!["A. Author".into()],
            folder: folder.to_owned(),
            licence_file: None,
            sha256: None,
            uses: BTreeSet::new(),
        };
        let all = [one("with", &with), one("without", &without)].map(|one| (one.key(), one));
        let crates = Crates { all: BTreeMap::from(all), program: "with-1.0.0".into() };
        let to = root.path().join("licences");
        let native = |name, version: Option<&str>| Native {
            name,
            version: version.map(str::to_owned),
            licence: "Zlib",
            address: "https://example.org",
            text: with.join("COPYING"),
        };
        let natives = [native("lib", Some("2.1")), native("other", None)];
        assert_eq!(copy(&crates, &natives, &to).unwrap(), 1);
        assert_eq!(fs::read_to_string(to.join("lib-2.1/COPYING")).unwrap(), "text");
        assert_eq!(fs::read_to_string(to.join("with-1.0.0/LICENSE-MIT")).unwrap(), "MIT");
        assert_eq!(fs::read_dir(to.join("with-1.0.0")).unwrap().count(), 2);
        let index = fs::read_to_string(to.join("INDEX.md")).unwrap();
        assert!(index.contains("| with 1.0.0 | MIT | [COPYING](with-1.0.0/COPYING), [LICENSE-MIT]"), "{index}");
        assert!(index.contains("| lib 2.1 | Zlib | [COPYING](lib-2.1/COPYING) | https://example.org |"), "{index}");
        assert!(index.contains("| other | Zlib | [COPYING](other/COPYING) |"), "{index}");
        assert!(index.contains("| without 1.0.0 | MIT | none in the crate; by A. Author |"), "{index}");
    }
}
