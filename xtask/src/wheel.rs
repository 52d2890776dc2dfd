//! The wheel: `pip install` puts the program into the environment's `bin` (PEP 427, and PEP 600 for its
//! platform).

use std::fs::{self, File};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::Outcome;
use crate::archive::{entries, is_executable};
use crate::build::{Features, Release};

/// Writes the wheel of a staged installation; returns its file.
pub fn write(
    stage: &Path,
    out: &Path,
    features: Features,
    glibc: Option<(u32, u32)>,
    release: &Release,
) -> Outcome<PathBuf> {
    let name = match features.feature() {
        None => "hearth_imaging".to_owned(),
        Some(feature) => format!("hearth_imaging_{feature}"),
    };
    let arch = release.target.split('-').next().unwrap_or_default();
    let platform = match glibc {
        Some((major, minor)) if release.target.contains("linux") => format!("manylinux_{major}_{minor}_{arch}"),
        _ if release.target.contains("apple") => format!("macosx_11_0_{}", arch.replace("aarch64", "arm64")),
        _ => format!("linux_{arch}"),
    };
    let tag = format!("py3-none-{platform}");
    let distribution = format!("{name}-{}", release.version);
    let info = format!("{distribution}.dist-info");
    let mut parts: Vec<(String, Vec<u8>, bool)> = Vec::new();
    // Files outside of a Python package: `scripts` becomes `bin`, `data` the environment itself.
    for path in entries(stage)?.iter().filter(|path| stage.join(path).is_file()) {
        let place = match path.strip_prefix("bin") {
            Ok(script) => format!("{distribution}.data/scripts/{}", script.display()),
            // The sources of plugins need Cargo, and do not belong into Python environments.
            Err(_) if path.starts_with("share/hearth/sdk") => continue,
            Err(_) if path.starts_with("share/hearth/man") => {
                format!("{distribution}.data/data/share/{}", path.strip_prefix("share/hearth")?.display())
            }
            Err(_) => format!("{distribution}.data/data/{}", path.display()),
        };
        parts.push((place, fs::read(stage.join(path))?, is_executable(path)));
    }
    let readme = fs::read_to_string(crate::root().join("README.md"))?;
    let metadata = format!(
        "Metadata-Version: 2.1\nName: {}\nVersion: {}\nSummary: Train, evaluate and run medical-imaging networks\n\
         License: Apache-2.0\nRequires-Python: >=3.7\nDescription-Content-Type: text/markdown\n\n{readme}",
        name.replace('_', "-"),
        release.version
    );
    let wheel = format!("Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\nTag: {tag}\n");
    parts.push((format!("{info}/METADATA"), metadata.into_bytes(), false));
    parts.push((format!("{info}/WHEEL"), wheel.into_bytes(), false));
    let mut record = String::new();
    for (path, bytes, _) in &parts {
        record += &format!("{path},sha256={},{}\n", URL_SAFE_NO_PAD.encode(Sha256::digest(bytes)), bytes.len());
    }
    record += &format!("{info}/RECORD,,\n");
    parts.push((format!("{info}/RECORD"), record.into_bytes(), false));
    let file = out.join(format!("{distribution}-{tag}.whl"));
    File::create(&file)?.write_all(&zipped(&parts)?)?;
    Ok(file)
}

/// A zip archive whose files all have zip's earliest time.
fn zipped(parts: &[(String, Vec<u8>, bool)]) -> Outcome<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, bytes, executable) in parts {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(if *executable { 0o755 } else { 0o644 });
        zip.start_file(path.as_str(), options)?;
        zip.write_all(bytes)?;
    }
    Ok(zip.finish()?.into_inner())
}
