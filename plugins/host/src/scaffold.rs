//! `hearth plugin new`: writes the crate of a plugin, with a test.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::c_project;
use crate::sdk_sources::{SOURCES, lock_file, manifest};
use crate::template::{Template, Texts};

/// The source of the SDK for the new crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SdkSource {
    /// The sources embedded in this host, written to the folder `sdk` of the crate.
    #[default]
    Vendored,
    /// The registry, with this version.
    Version(String),
    /// A folder: `plugins/sdk` of Hearth's sources.
    Path(PathBuf),
}

/// The reason why no crate was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScaffoldError {
    /// The name is not valid for a crate.
    #[error("`{name}` cannot be the name of a plugin: {why}")]
    Name {
        /// The name.
        name: String,
        /// The problem.
        why: &'static str,
    },
    /// The folder is not empty.
    #[error("{} exists already and is not empty", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The crate uses another SDK than its folder's.
    #[error("{}: the crate does not take `hearth-plugin` from its folder {SDK_FOLDER}; change that first", path.display())]
    NoSdk {
        /// Its manifest.
        path: PathBuf,
    },
    /// The embedded manifests of the SDK cannot be read.
    #[error("the sources of the SDK in this program are damaged; give a folder of them with --sdk")]
    Sources,
}

/// Names that cargo or Rust reserve.
const RESERVED: &[&str] = &[
    "alloc",
    "as",
    "async",
    "await",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "fn",
    "for",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "sdk",
    "super",
    "test",
    "trait",
    "true",
    "type",
    "union",
    "unsafe",
    "use",
    "vendor",
    "where",
    "while",
];

/// Writes the crate of a plugin called `name` to the folder `dir`, which is created; for a template
/// that is not in Rust, a project with a Makefile. Returns the files in order, without those of the
/// SDK.
///
/// # Errors
/// If the name is not valid for a crate, the folder is not empty, or a file cannot be written.
pub fn scaffold(dir: &Path, name: &str, template: Template, sdk: &SdkSource) -> Result<Vec<PathBuf>, ScaffoldError> {
    let bad_name = |why| Err(ScaffoldError::Name { name: name.to_owned(), why });
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || name.ends_with('-') || name.contains("--") {
        return bad_name("it must begin with a lower-case letter, with single dashes between its parts");
    }
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        return bad_name("use lower-case letters, digits and dashes");
    }
    if name.len() > 60 {
        return bad_name("it is longer than 60 letters");
    }
    if RESERVED.contains(&name) || name == "hearth-plugin" {
        return bad_name("the name is reserved");
    }
    if dir.exists() && fs::read_dir(dir).map_err(write_error(dir))?.next().is_some() {
        return Err(ScaffoldError::Exists { path: dir.to_owned() });
    }
    if let Some(files) = c_project::files(template, name) {
        return write(dir, &files);
    }
    let (dependency, lock) = match sdk {
        SdkSource::Vendored => {
            let texts = manifest().zip(lock_file()).ok_or(ScaffoldError::Sources)?;
            (format!("{{ path = \"{SDK_FOLDER}\" }}"), Some(texts))
        }
        SdkSource::Version(version) => (format!("\"{version}\""), None),
        SdkSource::Path(path) => {
            let path = path.canonicalize().map_err(write_error(path))?;
            (format!("{{ path = {} }}", toml::Value::from(path.to_string_lossy().into_owned())), None)
        }
    };
    let Texts { description, source, test, more } = template.texts();
    let fill = |text: &str| {
        text.replace("{{more}}\n", more)
            .replace("{{name}}", name)
            .replace("{{crate}}", &name.replace('-', "_"))
            .replace("{{Type}}", &type_name(name))
            .replace("{{library}}", &library_file(name))
            .replace("{{description}}", description)
            .replace("{{sdk}}", &dependency)
    };
    let mut files = vec![
        ("Cargo.toml".to_owned(), fill(include_str!("../template/Cargo.toml.in"))),
        ("src/lib.rs".to_owned(), fill(&source)),
        ("tests/rehearsal.rs".to_owned(), fill(&test)),
        ("README.md".to_owned(), fill(include_str!("../template/README.md.in"))),
        (".gitignore".to_owned(), "/target\n".to_owned()),
    ];
    let own = files.len();
    if let Some((manifest, lock)) = lock {
        files.push(("Cargo.lock".to_owned(), lock));
        files.extend(sdk_files(manifest));
    }
    let mut written = write(dir, &files)?;
    written.truncate(own);
    Ok(written)
}

/// Replaces the SDK in the folder of a crate that [`scaffold`] wrote with that of this host, for a
/// plugin that was built for another Hearth; in a project of another language, replaces the header.
/// Returns the replaced files.
///
/// # Errors
/// If the crate does not use the SDK in its folder `sdk`, or a file cannot be written.
pub fn update_sdk(dir: &Path) -> Result<Vec<PathBuf>, ScaffoldError> {
    let manifest = dir.join("Cargo.toml");
    if let (false, Some(updated)) = (manifest.exists(), c_project::update(dir)) {
        return updated;
    }
    let text = fs::read_to_string(&manifest).map_err(write_error(&manifest))?;
    if !text.contains(SDK_FOLDER) {
        return Err(ScaffoldError::NoSdk { path: manifest });
    }
    let files = sdk_files(crate::sdk_sources::manifest().ok_or(ScaffoldError::Sources)?);
    let folder = dir.join("sdk");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(write_error(&folder))?;
    }
    write(dir, &files)?;
    Ok(vec![folder])
}

/// The folder of the SDK in a crate.
const SDK_FOLDER: &str = "sdk/plugins/sdk";

/// The files of the SDK, for the folder `sdk`.
fn sdk_files(manifest: String) -> Vec<(String, String)> {
    let sources = SOURCES.iter().map(|(path, text)| (format!("sdk/{path}"), (*text).to_owned()));
    [("sdk/Cargo.toml".to_owned(), manifest)].into_iter().chain(sources).collect()
}

fn write_error(path: &Path) -> impl FnOnce(io::Error) -> ScaffoldError {
    let path = path.to_owned();
    move |source| ScaffoldError::Write { path, source }
}

/// Writes files and their folders; returns their paths.
pub(crate) fn write(dir: &Path, files: &[(String, String)]) -> Result<Vec<PathBuf>, ScaffoldError> {
    let mut written = Vec::new();
    for (file, text) in files {
        let path = dir.join(file);
        let folder = path.parent().unwrap_or(dir);
        fs::create_dir_all(folder).map_err(write_error(folder))?;
        fs::write(&path, text).map_err(write_error(&path))?;
        written.push(path);
    }
    Ok(written)
}

/// Cargo's file name for the library of a crate with this name.
pub fn library_file(name: &str) -> String {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    format!("{DLL_PREFIX}{}{DLL_SUFFIX}", name.replace('-', "_"))
}

/// The name of a type for a plugin name: `EarlyStop` for `early-stop`.
fn type_name(name: &str) -> String {
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    name.split('-').filter(|word| !word.is_empty()).map(capital).collect()
}
