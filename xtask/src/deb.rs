//! The Debian package: an `ar` archive of two compressed tar archives (deb(5)).

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::archive::{entries, gz, tar};
use crate::build::{Features, Release};
use crate::{Needs, Outcome, libraries};

/// Writes the package of a staged installation; returns its file.
pub fn write(stage: &Path, out: &Path, features: Features, needs: &Needs, release: &Release) -> Outcome<PathBuf> {
    let architecture = match release.target.split('-').next() {
        Some("x86_64") => "amd64",
        Some("aarch64") => "arm64",
        other => return Err(format!("Debian has no name for {other:?}").into()),
    };
    let package = match features.feature() {
        None => "hearth".to_owned(),
        Some(feature) => format!("hearth-{feature}"),
    };
    let name = format!("{package}_{}_{architecture}", release.version);
    let tree = out.join(format!("{name}.tree"));
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    lay_out(stage, &tree, &package)?;
    let size =
        entries(&tree)?.iter().map(|path| tree.join(path).metadata().map_or(0, |about| about.len())).sum::<u64>();
    let control = control(&package, architecture, size.div_ceil(1024), needs, features, release)?;
    let meta = tree.with_extension("control");
    fs::create_dir_all(&meta)?;
    fs::write(meta.join("control"), control)?;
    let compressed =
        |folder: &Path| -> Outcome<Vec<u8>> { Ok(tar(folder, ".", release.time, gz(Vec::new()))?.finish()?) };
    let parts = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", compressed(&meta)?),
        ("data.tar.gz", compressed(&tree)?),
    ];
    fs::remove_dir_all(&tree)?;
    fs::remove_dir_all(&meta)?;
    let file = out.join(format!("{name}.deb"));
    fs::write(&file, ar(&parts, release.time)?)?;
    Ok(file)
}

/// Copies the files to the places that Debian requires. The program still finds its own files relative
/// to itself.
fn lay_out(stage: &Path, tree: &Path, package: &str) -> Outcome {
    let share = stage.join("share/hearth");
    let doc = format!("usr/share/doc/{package}");
    let places = [
        (stage.join("bin/hearth"), "usr/bin/hearth".to_owned()),
        (stage.join("lib/hearth"), "usr/lib/hearth".to_owned()),
        (share.join("sdk"), "usr/share/hearth/sdk".to_owned()),
        (share.join("doc"), doc.clone()),
        (share.join("licences"), format!("{doc}/licences")),
        (share.join("licences/LICENSE"), format!("{doc}/copyright")),
        (share.join("sbom.cdx.json"), format!("{doc}/sbom.cdx.json")),
        (share.join("completions/hearth"), "usr/share/bash-completion/completions/hearth".to_owned()),
        (share.join("completions/_hearth"), "usr/share/zsh/vendor-completions/_hearth".to_owned()),
        (share.join("completions/hearth.fish"), "usr/share/fish/vendor_completions.d/hearth.fish".to_owned()),
    ];
    for (from, to) in places.into_iter().filter(|(from, _)| from.exists()) {
        copy(&from, &tree.join(to))?;
    }
    let pages = tree.join("usr/share/man/man1");
    fs::create_dir_all(&pages)?;
    for page in entries(&share.join("man/man1"))? {
        let mut compressed = gz(Vec::new());
        compressed.write_all(&fs::read(share.join("man/man1").join(&page))?)?;
        fs::write(pages.join(format!("{}.gz", page.display())), compressed.finish()?)?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Outcome {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for path in entries(from)? {
            let (from, to) = (from.join(&path), to.join(&path));
            if from.is_dir() { fs::create_dir_all(to)? } else { fs::copy(from, to).map(drop)? }
        }
    } else {
        fs::create_dir_all(to.parent().unwrap_or(Path::new("")))?;
        fs::copy(from, to)?;
    }
    Ok(())
}

fn control(
    package: &str,
    architecture: &str,
    size: u64,
    needs: &Needs,
    features: Features,
    release: &Release,
) -> Outcome<String> {
    let mut packages: Vec<String> = libraries::packages(&needs.libraries)?.into_iter().map(str::to_owned).collect();
    if let (Some((major, minor)), Some(libc)) = (needs.glibc, packages.iter_mut().find(|package| *package == "libc6")) {
        *libc = format!("libc6 (>= {major}.{minor})");
    }
    // The loader library is opened at run time.
    if features == Features::Vulkan {
        packages.push("libvulkan1".into());
    }
    let packages = packages.join(", ");
    // Only one of them can be installed: each contains the program.
    let others: Vec<&str> = ["hearth", "hearth-vulkan", "hearth-cuda", "hearth-rocm"]
        .into_iter()
        .filter(|other| *other != package)
        .collect();
    let others = others.join(", ");
    Ok(format!(
        "Package: {package}\nVersion: {}\nArchitecture: {architecture}\nMaintainer: Hearth <hearth@localhost>\n\
         Installed-Size: {size}\nDepends: {packages}\nSuggests: openmpi-bin | mpich\n\
         Conflicts: {others}\nReplaces: {others}\nSection: science\nPriority: optional\n\
         Description: train, evaluate and run medical-imaging networks\n \
         The program hearth trains, evaluates and runs networks on medical images, on\n \
         the processor or on a GPU. This package computes on: {features}.\n",
        release.version
    ))
}

/// An `ar` archive.
fn ar(parts: &[(&str, Vec<u8>)], time: u64) -> Outcome<Vec<u8>> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, bytes) in parts {
        writeln!(out, "{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`", 0, 0, "100644", bytes.len())?;
        out.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn ar_reads_what_is_written() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a.deb");
        fs::write(&file, ar(&[("debian-binary", b"2.0\n".to_vec()), ("odd", b"123".to_vec())], 0).unwrap()).unwrap();
        let said = Command::new("ar").arg("p").arg(&file).output().unwrap();
        assert_eq!(said.stdout, b"2.0\n123");
    }
}
