//! The numbers and texts of a batch's cases, which handlers can read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hearth_data::{Batch, ImageInfo, affine};
use hearth_engine::HostError;

/// Numbers and texts of the current batch. A property of an image is named by the image's key, a
/// dot and the property: `image.spacing`.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    numbers: BTreeMap<String, Vec<f64>>,
    lists: BTreeMap<String, Vec<Arc<[f64]>>>,
    texts: BTreeMap<String, Vec<String>>,
    /// The properties of the images, by the names of their tensors.
    images: Vec<BTreeMap<String, ImageInfo>>,
}

/// A property's name, and the function that reads it.
type Known<T> = (&'static str, fn(&ImageInfo) -> T);

/// The numbers that every image has.
const OF_IMAGES: [Known<Vec<f64>>; 4] = [
    ("affine", |info| info.affine.iter().flatten().copied().collect()),
    ("original_affine", |info| info.meta.original_affine.iter().flatten().copied().collect()),
    ("original_shape", |info| info.meta.original_shape.iter().map(|length| *length as f64).collect()),
    ("spacing", |info| affine::spacing(&info.affine).to_vec()),
];

/// The texts that every image has.
const WORDS_OF_IMAGES: [Known<String>; 2] = [
    ("path", |info| info.meta.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()),
    ("stored_type", |info| info.meta.stored_type.clone()),
];

impl Facts {
    /// Takes the facts out of a batch. `name` renames keys as for the tensors.
    pub fn take(batch: &mut Batch, name: impl Fn(&str) -> String) -> Self {
        let renamed = |images: BTreeMap<String, ImageInfo>| {
            images.into_iter().map(|(key, info)| (name(&key), info)).collect::<BTreeMap<_, _>>()
        };
        Self {
            numbers: batch.numbers.clone(),
            lists: batch.lists.clone(),
            texts: std::mem::take(&mut batch.texts),
            images: std::mem::take(&mut batch.images).into_iter().map(renamed).collect(),
        }
    }

    /// Sets the numbers of each case under a name.
    pub fn insert_numbers(&mut self, name: &str, numbers: Vec<Vec<f64>>) {
        self.numbers.remove(name);
        self.lists.insert(name.to_owned(), numbers.into_iter().map(Arc::from).collect());
    }

    /// The numbers of each case.
    pub fn numbers(&self, name: &str) -> Result<Vec<Vec<f64>>, HostError> {
        if let Some(numbers) = self.numbers.get(name) {
            return Ok(numbers.iter().map(|number| vec![*number]).collect());
        }
        if let Some(lists) = self.lists.get(name) {
            return Ok(lists.iter().map(|list| list.to_vec()).collect());
        }
        self.of_images(name, &OF_IMAGES).ok_or_else(|| unknown("numbers", name, &self.number_names()))
    }

    /// The text of each case.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, HostError> {
        let found = self.texts.get(name).cloned().or_else(|| self.of_images(name, &WORDS_OF_IMAGES));
        found.ok_or_else(|| unknown("texts", name, &self.text_names()))
    }

    /// The names that [`numbers`](Self::numbers) knows.
    pub fn number_names(&self) -> Vec<String> {
        let plain = self.numbers.keys().chain(self.lists.keys()).cloned();
        plain.chain(self.image_names(&OF_IMAGES)).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The names that [`texts`](Self::texts) knows.
    pub fn text_names(&self) -> Vec<String> {
        let names = self.texts.keys().cloned().chain(self.image_names(&WORDS_OF_IMAGES));
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn of_images<T>(&self, name: &str, known: &[Known<T>]) -> Option<Vec<T>> {
        let (key, what) = name.rsplit_once('.')?;
        let (_, of) = known.iter().find(|(word, _)| *word == what)?;
        // A batch without cases has no image.
        let all = self.images.iter().map(|images| images.get(key).map(of)).collect::<Option<Vec<T>>>()?;
        (!all.is_empty()).then_some(all)
    }

    fn image_names<T>(&self, known: &[Known<T>]) -> Vec<String> {
        let keys = self.images.first().into_iter().flat_map(BTreeMap::keys);
        keys.flat_map(|key| known.iter().map(move |(word, _)| format!("{key}.{word}"))).collect()
    }
}

fn unknown(what: &str, name: &str, known: &[String]) -> HostError {
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    HostError::new(format!("the batch has no {what} `{name}`; there are: {known}"))
}
