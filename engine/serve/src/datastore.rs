//! A folder of images and labels: [`Datastore`].
//!
//! Files are laid out as in MONAI Label's local datastore, so that both servers can use the same
//! folder: `NAME.nii.gz`, `labels/TAG/NAME.nii.gz`, and `datastore_v2.json` with the facts about each.
//! The files are the source of truth: a file that is copied into the folder is found at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::ServeError;
use crate::folder::{Entry as Kind, Folder};
use crate::names::{check_id, split};

/// The file with the facts about images and labels.
const INDEX: &str = "datastore_v2.json";
/// The folder of labels.
const LABELS: &str = "labels";
/// The tag of labels that a person has approved.
pub const FINAL: &str = "final";
/// The tag of labels that a model made.
pub const ORIGINAL: &str = "original";
/// File extensions of images.
const IMAGES: [&str; 9] = [".seg.nrrd", ".nii.gz", ".nii", ".nrrd", ".mha", ".mgz", ".mgh", ".dcm", ".zip"];

/// A file of an image or label, as `datastore_v2.json` has it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Entry {
    #[serde(default)]
    info: Map<String, Value>,
    #[serde(default)]
    ext: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Object {
    #[serde(default)]
    image: Entry,
    #[serde(default)]
    labels: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Index {
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    objects: BTreeMap<String, Object>,
}

/// An error of the datastore.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A name that is not allowed as a file name.
    #[error("{0}")]
    Name(String),
    /// An image or label that does not exist.
    #[error("{0}")]
    Absent(String),
    /// A file that is not an image.
    #[error("{0}")]
    Kind(String),
    /// A link in the place of a file or folder.
    #[error("{0}")]
    Link(String),
    /// The disk failed.
    #[error("the datastore cannot be used: {0}")]
    Disk(#[from] io::Error),
}

/// An open file of the datastore.
#[derive(Debug)]
pub struct Stored {
    /// Its name, with the extension.
    pub name: String,
    /// Its content.
    pub file: File,
}

/// A folder of images and labels. Links in it are refused: they could lead to any file.
#[derive(Debug)]
pub struct Datastore {
    root: Folder,
    /// Locked while the index is changed.
    index: Mutex<Index>,
}

impl Datastore {
    /// Opens a folder, and creates it if it is missing.
    pub fn open(path: &Path) -> Result<Self, ServeError> {
        std::fs::create_dir_all(path).map_err(|error| ServeError::file("make the datastore", path, error))?;
        let opening = |error| ServeError::file("open the datastore", path, error);
        let real = path.canonicalize().map_err(opening)?;
        let root = Folder::open(&real).map_err(opening)?;
        let reading = |error| ServeError::file("read", real.join(INDEX), error);
        let index = match root.file(INDEX) {
            Ok(file) => serde_json::from_reader(BufReader::new(file))
                .map_err(|error| reading(io::Error::new(io::ErrorKind::InvalidData, error)))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Index { name: real.file_name().unwrap_or_default().to_string_lossy().into_owned(), ..Index::default() }
            }
            Err(error) => return Err(reading(error)),
        };
        Ok(Self { root, index: Mutex::new(index) })
    }

    /// The folders of labels by tag.
    fn tags(&self) -> Result<Vec<(String, Folder)>, StoreError> {
        let Some(labels) = self.labels()? else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for (tag, kind) in labels.entries()? {
            if kind == Kind::Folder
                && check_id("tag", &tag).is_ok()
                && let Some(folder) = labels.folder(&tag)?
            {
                all.push((tag, folder));
            }
        }
        Ok(all)
    }

    fn labels(&self) -> Result<Option<Folder>, StoreError> {
        self.root.folder(LABELS).map_err(|error| link_or(&error, LABELS).unwrap_or(error.into()))
    }

    /// The current content: the files of the folder, with the facts from the index.
    fn found(&self) -> Result<Index, StoreError> {
        let known = self.index.lock().unwrap_or_else(|held| held.into_inner());
        let mut objects = BTreeMap::new();
        for (id, ext) in files(&self.root)? {
            let info = known.objects.get(&id).map(|object| object.image.info.clone()).unwrap_or_default();
            objects.insert(id, Object { image: Entry { info, ext }, labels: BTreeMap::new() });
        }
        for (tag, folder) in self.tags()? {
            for (id, ext) in files(&folder)? {
                let info = known.objects.get(&id).and_then(|object| object.labels.get(&tag));
                let info = info.map(|entry| entry.info.clone()).unwrap_or_default();
                if let Some(object) = objects.get_mut(&id) {
                    object.labels.insert(tag.clone(), Entry { info, ext });
                }
            }
        }
        Ok(Index { objects, ..known.clone() })
    }

    /// The numbers of images, of approved ones, and of labels by tag.
    pub fn status(&self) -> Result<Value, StoreError> {
        let found = self.found()?;
        let mut tags: BTreeMap<&str, u64> = BTreeMap::new();
        for tag in found.objects.values().flat_map(|object| object.labels.keys()) {
            *tags.entry(tag).or_default() += 1;
        }
        let done = found.objects.values().filter(|object| object.labels.contains_key(FINAL)).count();
        Ok(json!({"total": found.objects.len(), "completed": done, "label_tags": tags}))
    }

    /// All content, in the form of `datastore_v2.json`.
    pub fn all(&self) -> Result<Value, StoreError> {
        let Index { name, description, objects } = self.found()?;
        Ok(json!({
            "name": name, "description": description, "images_dir": ".", "labels_dir": LABELS, "objects": objects,
        }))
    }

    /// Pairs of an image and its approved label, as paths in the folder.
    pub fn pairs(&self) -> Result<Value, StoreError> {
        let found = self.found()?;
        let pairs = found.objects.iter().filter_map(|(id, object)| {
            let label = object.labels.get(FINAL)?;
            let image = format!("{id}{}", object.image.ext);
            Some(json!({"image": image, "label": format!("{LABELS}/{FINAL}/{id}{}", label.ext)}))
        });
        Ok(pairs.collect())
    }

    /// An image.
    pub fn image(&self, id: &str) -> Result<Stored, StoreError> {
        check_id("image", id).map_err(StoreError::Name)?;
        stored(&self.root, id)?.ok_or_else(|| StoreError::Absent(format!("there is no image {id:?}")))
    }

    /// The facts about an image.
    pub fn image_info(&self, id: &str) -> Result<Value, StoreError> {
        self.image(id)?;
        let known = self.index.lock().unwrap_or_else(|held| held.into_inner());
        Ok(Value::Object(known.objects.get(id).map(|object| object.image.info.clone()).unwrap_or_default()))
    }

    /// The folder of the labels with a tag.
    fn of_tag(&self, tag: &str) -> Result<Option<Folder>, StoreError> {
        let Some(labels) = self.labels()? else { return Ok(None) };
        labels.folder(tag).map_err(|error| link_or(&error, tag).unwrap_or(error.into()))
    }

    /// A label.
    pub fn label(&self, id: &str, tag: &str) -> Result<Stored, StoreError> {
        check_id("image", id).and_then(|()| check_id("tag", tag)).map_err(StoreError::Name)?;
        let found = self.of_tag(tag)?.map(|folder| stored(&folder, id)).transpose()?.flatten();
        found.ok_or_else(|| StoreError::Absent(format!("there is no label {tag:?} of the image {id:?}")))
    }

    /// Adds an image, or replaces it.
    pub fn add_image(&self, id: &str, from: &Path, info: Map<String, Value>) -> Result<(), StoreError> {
        check_id("image", id).map_err(StoreError::Name)?;
        let ext = put(&self.root, id, from)?;
        self.change(|index| index.objects.entry(id.to_owned()).or_default().image = Entry { info, ext })
    }

    /// Adds a label of an image, or replaces it.
    pub fn add_label(&self, id: &str, tag: &str, from: &Path, info: Map<String, Value>) -> Result<(), StoreError> {
        check_id("tag", tag).map_err(StoreError::Name)?;
        self.image(id)?;
        let made = self.root.made(LABELS).and_then(|labels| labels.made(tag));
        let folder = made.map_err(|error| link_or(&error, tag).unwrap_or(error.into()))?;
        let ext = put(&folder, id, from)?;
        self.change(|index| {
            index.objects.entry(id.to_owned()).or_default().labels.insert(tag.to_owned(), Entry { info, ext });
        })
    }

    /// Removes an image with its labels.
    pub fn remove_image(&self, id: &str) -> Result<(), StoreError> {
        let name = self.image(id)?.name;
        for (_, folder) in self.tags()? {
            if let Some(label) = stored(&folder, id)? {
                folder.remove(&label.name)?;
            }
        }
        self.root.remove(&name)?;
        self.change(|index| drop(index.objects.remove(id)))
    }

    /// Removes a label.
    pub fn remove_label(&self, id: &str, tag: &str) -> Result<(), StoreError> {
        let name = self.label(id, tag)?.name;
        if let Some(folder) = self.of_tag(tag)? {
            folder.remove(&name)?;
        }
        self.change(|index| {
            index.objects.get_mut(id).and_then(|object| object.labels.remove(tag));
        })
    }

    /// Images without an approved label, by name.
    pub fn open_images(&self) -> Result<Vec<String>, StoreError> {
        let found = self.found()?;
        let open = found.objects.into_iter().filter(|(_, object)| !object.labels.contains_key(FINAL));
        Ok(open.map(|(id, _)| id).collect())
    }

    /// Changes the index, and writes the whole file.
    fn change(&self, change: impl FnOnce(&mut Index)) -> Result<(), StoreError> {
        let mut index = self.index.lock().unwrap_or_else(|held| held.into_inner());
        change(&mut index);
        let text = serde_json::to_vec_pretty(&*index).map_err(io::Error::other)?;
        self.root.replace(INDEX, |file| file.write_all(&text))?;
        Ok(())
    }
}

/// The error for a link in the place of a folder.
fn link_or(error: &io::Error, name: &str) -> Option<StoreError> {
    (error.kind() == io::ErrorKind::NotADirectory)
        .then(|| StoreError::Link(format!("{name} in the datastore is a link or a file, expected a folder")))
}

/// Stems and extensions of the images in a folder; of two with the same stem, the first.
fn files(folder: &Folder) -> io::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for (name, kind) in folder.entries()? {
        let (stem, end) = split(&name);
        if kind == Kind::File && IMAGES.contains(&end) && check_id("image", stem).is_ok() {
            found.entry(stem.to_owned()).or_insert_with(|| end.to_owned());
        }
    }
    Ok(found)
}

/// The file of an image or label.
fn stored(folder: &Folder, id: &str) -> Result<Option<Stored>, StoreError> {
    let mut link = None;
    for (name, kind) in folder.entries()? {
        let (stem, end) = split(&name);
        if stem != id || !IMAGES.contains(&end) {
            continue;
        }
        if kind == Kind::File {
            let file = folder.file(&name)?;
            return Ok(Some(Stored { name, file }));
        }
        link = Some(name);
    }
    match link {
        Some(name) => Err(StoreError::Link(format!("{name} in the datastore is not a file: links are not followed"))),
        None => Ok(None),
    }
}

/// Copies a file into a folder under a name, and removes others of that name. Returns the extension.
fn put(folder: &Folder, id: &str, from: &Path) -> Result<String, StoreError> {
    let name = from.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let (_, end) = split(&name);
    if !IMAGES.contains(&end) {
        let known = IMAGES.join(", ");
        return Err(StoreError::Kind(format!("a file with the end {end:?} is not stored, expected one of {known}")));
    }
    let mut source = File::open(from)?;
    folder.replace(&format!("{id}{end}"), |file| io::copy(&mut source, file).map(|_| ()))?;
    for other in IMAGES.iter().filter(|other| **other != end) {
        match folder.remove(&format!("{id}{other}")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(end.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn images_and_labels_are_kept_as_monai_label_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let upload = folder.path().join("upload.nii.gz");
        fs::write(&upload, "image").unwrap();
        let root = folder.path().join("store");
        let store = Datastore::open(&root).unwrap();
        store.add_image("spleen_1", &upload, Map::new()).unwrap();
        fs::write(root.join("copied.nrrd"), "x").unwrap();
        assert_eq!(store.status().unwrap(), json!({"total": 2, "completed": 0, "label_tags": {}}));
        let info = json!({"params": {"label_names": {"spleen": 1}}}).as_object().unwrap().clone();
        store.add_label("spleen_1", FINAL, &upload, info).unwrap();
        assert_eq!(fs::read(root.join("labels/final/spleen_1.nii.gz")).unwrap(), b"image");
        assert_eq!(store.status().unwrap(), json!({"total": 2, "completed": 1, "label_tags": {"final": 1}}));
        assert_eq!(store.open_images().unwrap(), ["copied"]);

        // Another server finds the same content.
        let again = Datastore::open(&root).unwrap().all().unwrap();
        assert_eq!(again["objects"]["spleen_1"]["labels"]["final"]["info"]["params"]["label_names"]["spleen"], 1);
        assert_eq!(again["objects"]["copied"]["image"]["ext"], ".nrrd");
        assert_eq!(
            store.pairs().unwrap(),
            json!([{"image": "spleen_1.nii.gz", "label": "labels/final/spleen_1.nii.gz"}])
        );
        store.remove_image("spleen_1").unwrap();
        assert!(!root.join("labels/final/spleen_1.nii.gz").exists());
        assert!(matches!(store.image("spleen_1"), Err(StoreError::Absent(_))));
    }

    #[test]
    fn names_stay_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let upload = folder.path().join("upload.nii.gz");
        fs::write(&upload, "image").unwrap();
        let store = Datastore::open(&folder.path().join("store")).unwrap();
        for bad in ["../upload", "..", "/etc/passwd", "a/b", ".a", ""] {
            assert!(matches!(store.add_image(bad, &upload, Map::new()), Err(StoreError::Name(_))), "{bad:?}");
            assert!(matches!(store.image(bad), Err(StoreError::Name(_))), "{bad:?}");
        }
        store.add_image("a", &upload, Map::new()).unwrap();
        assert!(matches!(store.add_label("a", "../x", &upload, Map::new()), Err(StoreError::Name(_))));
        let text = folder.path().join("a.txt");
        fs::write(&text, "x").unwrap();
        assert!(matches!(store.add_image("b", &text, Map::new()), Err(StoreError::Kind(_))));
        assert!(matches!(store.label("a", "final"), Err(StoreError::Absent(_))));
    }

    #[cfg(unix)]
    #[test]
    fn links_in_the_folder_are_refused() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("outside")).unwrap();
        for name in ["outside/secret.nii.gz", "outside/a.nii.gz", "upload.nii.gz"] {
            fs::write(at(name), "secret").unwrap();
        }
        let store = Datastore::open(&at("store")).unwrap();
        store.add_image("a", &at("upload.nii.gz"), Map::new()).unwrap();
        symlink(at("outside/secret.nii.gz"), at("store/b.nii.gz")).unwrap();
        fs::create_dir_all(at("store/labels")).unwrap();
        symlink(at("outside"), at("store/labels/final")).unwrap();
        let is_refused = |result: Result<(), StoreError>| matches!(result, Err(StoreError::Link(_)));
        assert!(is_refused(store.image("b").map(|_| ())), "an image");
        assert!(is_refused(store.label("a", FINAL).map(|_| ())), "a label in a folder");
        assert!(is_refused(store.add_label("a", FINAL, &at("upload.nii.gz"), Map::new())), "a new label");
        assert!(is_refused(store.remove_image("b")) && is_refused(store.remove_label("a", FINAL)));
        assert_eq!(store.status().unwrap(), json!({"total": 1, "completed": 0, "label_tags": {}}));
        store.remove_image("a").unwrap();
        for name in ["outside/secret.nii.gz", "outside/a.nii.gz"] {
            assert_eq!(fs::read(at(name)).unwrap(), b"secret", "{name}");
        }
        fs::remove_file(at("store/datastore_v2.json")).unwrap();
        symlink(at("outside/secret.nii.gz"), at("store/datastore_v2.json")).unwrap();
        assert!(Datastore::open(&at("store")).is_err(), "an index");
    }

    #[test]
    fn a_damaged_index_is_an_error_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(INDEX), "{").unwrap();
        assert!(Datastore::open(folder.path()).is_err());
        assert_eq!(fs::read(folder.path().join(INDEX)).unwrap(), b"{");
    }
}
