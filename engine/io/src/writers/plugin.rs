//! [`PluginWriter`]: a writer of a plugin, `mine.Xyz`.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_image::Image;
use hearth_registry::component::texts::{Abilities, WriteAnswer, WriteCall};
use hearth_registry::component::{self, Component, ComponentKind, HostArray};
use hearth_registry::{Fault, Node};

use super::WriteError;

/// Writes images by a plugin. It is selected by name, never by a file's ending.
#[derive(Clone)]
pub struct PluginWriter {
    name: String,
    component: Arc<dyn Component>,
    endings: Vec<String>,
    /// The endings of the files next to each result.
    sides: Vec<String>,
}

impl fmt::Debug for PluginWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginWriter").field("name", &self.name).field("endings", &self.endings).finish_non_exhaustive()
    }
}

impl PluginWriter {
    /// Finds the writer of this name, `PLUGIN.NAME`, with the defaults of its options.
    ///
    /// # Errors
    /// If the plugin has no such writer, or the writer names no ending.
    pub fn find(name: &str) -> Result<Self, Fault> {
        let component = component::find(ComponentKind::Writer, name, &Node::empty())?;
        let wrong = |what: String| Fault::new(format!("{name}: {what}"));
        let answer = component.call("abilities", &[], "", None).map_err(|why| wrong(component::reports(&why)))?;
        let Abilities { endings, sides, .. } = serde_json::from_str(&answer.text)
            .map_err(|error| wrong(format!("the plugin answers {:?}: {error}", answer.text)))?;
        match endings.iter().chain(&sides).find(|ending| !ending.starts_with('.') || ending.contains(['/', '\\'])) {
            Some(ending) => Err(wrong(format!("the ending {ending:?} of the plugin does not start with a dot"))),
            None if endings.is_empty() => Err(wrong("the plugin names no ending of its files".to_owned())),
            None => Ok(Self { name: name.to_owned(), component, endings, sides }),
        }
    }

    /// The endings of its files, with the dot.
    pub fn endings(&self) -> &[String] {
        &self.endings
    }

    /// Whether a file of this name is one of its own.
    pub fn fits(&self, path: &Path) -> bool {
        let name = path.to_string_lossy().to_lowercase();
        self.endings.iter().any(|ending| name.ends_with(&ending.to_lowercase()))
    }

    /// The names of the files that it writes next to one of this name.
    pub fn side_names(&self, name: &str) -> Vec<String> {
        let lower = name.to_lowercase();
        let own = self.endings.iter().filter(|ending| lower.ends_with(&ending.to_lowercase()));
        let stem = own.max_by_key(|ending| ending.len()).and_then(|ending| name.get(..name.len() - ending.len()));
        self.sides.iter().map(|side| format!("{}{side}", stem.unwrap_or(name))).collect()
    }

    /// Refuses to replace an existing file: for [`write`](Self::write).
    ///
    /// # Errors
    /// Always.
    pub fn kept(file: &Path) -> Result<(), String> {
        Err(format!("{} exists already; remove it, or give another name", file.display()))
    }

    /// Writes an image; `path` and the files next to it get their names only when all are complete. `path`
    /// and its [side files](Self::side_names) are replaced, an existing file that the plugin did not
    /// announce if `others` allows it. Returns the files.
    ///
    /// # Errors
    /// If the plugin reports one, does not write all files that it announces, or would replace another file.
    pub fn write(
        &self,
        path: &Path,
        image: &Image,
        case: &str,
        others: &dyn Fn(&Path) -> Result<(), String>,
    ) -> Result<Vec<PathBuf>, WriteError> {
        let failed =
            |what: String| WriteError::Format { path: path.to_owned(), what: format!("{}: {what}", self.name) };
        let io = |source| WriteError::Io { path: path.to_owned(), source };
        if !self.fits(path) {
            return Err(failed(format!("expected a name that ends in {}", self.endings.join(" or "))));
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(failed("expected the name of a file".to_owned()));
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let folder = folder.canonicalize().map_err(io)?;
        let scratch = hearth_files::Scratch::new_in(&folder, "writer").map_err(io)?;
        let Some(unfinished) = scratch.path().join(name).to_str().map(str::to_owned) else {
            return Err(failed("a path that is not Unicode cannot be passed to it".to_owned()));
        };
        let [channels, x, y, z] = image.data.dims();
        let array = HostArray { shape: vec![channels, x, y, z], values: image.to_vec().into(), affine: image.affine };
        let text = serde_json::to_string(&WriteCall { path: unfinished, case: case.to_owned() });
        let text = text.map_err(|error| failed(error.to_string()))?;
        let answer = self.component.call("write", &[array], &text, None);
        let answer = answer.map_err(|why| failed(component::reports(&why)))?;
        if !answer.text.is_empty() {
            serde_json::from_str::<WriteAnswer>(&answer.text)
                .map_err(|error| failed(format!("the plugin answers {:?}: {error}", answer.text)))?;
        }
        let mut made = Vec::new();
        for entry in std::fs::read_dir(scratch.path()).map_err(io)? {
            made.push(entry.map_err(io)?.file_name());
        }
        made.sort();
        if !made.iter().any(|file| file == name) {
            return Err(failed("the plugin did not write the file".to_owned()));
        }
        let announced = self.side_names(&name.to_string_lossy());
        if let Some(lacking) = announced.iter().find(|side| !made.iter().any(|file| file == side.as_str())) {
            return Err(failed(format!("the plugin did not write {lacking}, which it announces next to each file")));
        }
        let known = |file: &OsString| file == name || announced.iter().any(|side| file == side.as_str());
        for file in made.iter().filter(|file| !known(file) && folder.join(file).symlink_metadata().is_ok()) {
            others(&path.with_file_name(file)).map_err(failed)?;
        }
        for file in &made {
            std::fs::rename(scratch.path().join(file), folder.join(file)).map_err(io)?;
        }
        Ok(made.into_iter().map(|file| path.with_file_name(file)).collect())
    }
}
