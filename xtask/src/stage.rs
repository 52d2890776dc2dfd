//! The installation layout as a folder: `bin`, `lib/hearth/plugins`, `share/hearth`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::archive::entries;
use crate::build::Release;
use crate::crates::Crates;
use crate::{Dist, Outcome, licences, natives, output_of, root, sbom};

/// The plugins with separate libraries next to the program.
const PLUGINS: [&str; 5] = ["checkpoint", "ensemble", "nvtx", "stats", "validation"];

/// Shells, and the name of a program's completion file for each.
const SHELLS: [(&str, &str); 3] = [("bash", "hearth"), ("zsh", "_hearth"), ("fish", "hearth.fish")];

/// The folder of an installation.
pub struct Stage {
    root: PathBuf,
}

impl Stage {
    /// Fills the folder with the results of the build.
    pub fn new(folder: &Path, built: &Path, args: &Dist, release: &Release, crates: &Crates) -> Outcome<Self> {
        let stage = Self { root: folder.to_owned() };
        stage.strip(built)?;
        stage.described()?;
        if !args.without_sources {
            stage.sources()?;
        }
        stage.documents()?;
        let share = stage.share();
        let natives = natives::of_program(args.features, args.glibc.as_deref(), crates)?;
        let without = licences::copy(crates, &natives, &share.join("licences"))?;
        println!("{} crates, {without} of them without a licence text", crates.all.len());
        let sbom = serde_json::to_string_pretty(&sbom::document(crates, &natives, release))?;
        fs::write(share.join("sbom.cdx.json"), sbom + "\n")?;
        Ok(stage)
    }

    /// The program and the libraries of its plugins.
    pub fn binaries(&self) -> Outcome<Vec<PathBuf>> {
        let plugins = self.root.join("lib/hearth/plugins");
        let libraries = entries(&plugins)?.into_iter().map(|file| plugins.join(file));
        Ok([self.program()].into_iter().chain(libraries).collect())
    }

    fn program(&self) -> PathBuf {
        self.root.join("bin/hearth")
    }

    fn share(&self) -> PathBuf {
        self.root.join("share/hearth")
    }

    /// Copies the binaries without debugging symbols, which are three quarters of their size.
    fn strip(&self, built: &Path) -> Outcome {
        let plugins = self.root.join("lib/hearth/plugins");
        fs::create_dir_all(self.root.join("bin"))?;
        fs::create_dir_all(&plugins)?;
        let mut files = vec![(built.join("hearth"), self.program())];
        for name in PLUGINS {
            let file = format!("libhearth_{name}.so");
            // Cargo leaves the library of a dependency only in `deps`.
            let places = [built.join(&file), built.join("deps").join(&file)];
            let newest = places
                .iter()
                .filter(|path| path.is_file())
                .max_by_key(|path| path.metadata().and_then(|about| about.modified()).ok());
            let library = newest.ok_or_else(|| format!("{file} is not in {}", built.display()))?;
            files.push((library.clone(), plugins.join(&file)));
        }
        for (from, to) in files {
            output_of(Command::new("strip").args(["--strip-unneeded", "-o"]).arg(&to).arg(&from))?;
        }
        Ok(())
    }

    /// Writes the files that the program generates about itself.
    fn described(&self) -> Outcome {
        let share = self.share();
        output_of(Command::new(self.program()).args(["man", "--out"]).arg(share.join("man/man1")))?;
        fs::create_dir_all(share.join("completions"))?;
        for (shell, file) in SHELLS {
            let script = output_of(Command::new(self.program()).args(["completions", shell]))?;
            fs::write(share.join("completions").join(file), script)?;
        }
        Ok(())
    }

    /// Writes the SDK, and every crate that a plugin is built from.
    fn sources(&self) -> Outcome {
        let example = self.root.join("example");
        let mut command = Command::new(self.program());
        output_of(command.args(["plugin", "new", "example", "--vendored", "--out"]).arg(&example))?;
        let sdk = self.share().join("sdk");
        fs::rename(example.join("sdk"), &sdk)?;
        fs::rename(example.join("vendor"), sdk.join("vendor"))?;
        fs::remove_dir_all(&example)?;
        let header = output_of(Command::new(self.program()).args(["plugin", "header"]))?;
        fs::write(sdk.join("hearth_plugin.h"), header)?;
        Ok(())
    }

    /// Copies the documentation from the repository; the pages of the apps are placed below it, where
    /// its links lead.
    fn documents(&self) -> Outcome {
        let doc = self.share().join("doc");
        for folder in ["", "guide", "plugins", "reference"] {
            let from = root().join("docs").join(folder);
            fs::create_dir_all(doc.join(folder))?;
            for entry in fs::read_dir(&from)? {
                let path = entry?.path();
                if path.extension().is_some_and(|end| end == "md") {
                    let text = fs::read_to_string(&path)?.replace("](../apps/", "](apps/");
                    fs::write(doc.join(folder).join(path.file_name().unwrap_or_default()), text)?;
                }
            }
        }
        for file in ["README.md", "CHANGELOG.md"] {
            fs::copy(root().join(file), doc.join(file))?;
        }
        for app in fs::read_dir(root().join("apps"))? {
            let app = app?;
            let page = app.path().join("README.md");
            if page.is_file() {
                let to = doc.join("apps").join(app.file_name());
                fs::create_dir_all(&to)?;
                fs::write(to.join("README.md"), fs::read_to_string(page)?.replace("](../../docs/", "](../../"))?;
            }
        }
        Ok(())
    }
}
