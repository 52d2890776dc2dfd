//! A case during processing: images and values by key, and MONAI's metadata.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::Tensor;
use hearth_bundle::Value as Given;
use hearth_data::{Draw, DrawKey, Image, Parts, Sample, Value, affine, host_device};

/// A case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub sample: Sample,
    /// The path of each file as written in the config.
    pub written: BTreeMap<PathBuf, String>,
    /// The NumPy type of the values of a key, if it is not float32.
    pub dtypes: BTreeMap<String, String>,
    /// The index in the list.
    pub index: usize,
    /// The seed of its random steps.
    pub seed: u64,
}

impl Case {
    /// Creates a case from an element of the data list.
    pub fn new(given: &Given, index: usize, folder: &Path) -> Self {
        let sample = Sample::new(index.to_string());
        let mut case = Case { sample, written: BTreeMap::new(), dtypes: BTreeMap::new(), index, seed: 0 };
        for (key, value) in given.as_dict().unwrap_or_default() {
            if let Some(key) = key.as_str() {
                let value = case.value(value, folder);
                case.sample.values.insert(key.to_owned(), value);
            }
        }
        let first = case.written.keys().next().map(|path| path.display().to_string());
        if let Some(first) = first {
            case.sample.case = first;
        }
        case
    }

    fn value(&mut self, given: &Given, folder: &Path) -> Value {
        let mut file = |text: &str| {
            let path = folder.join(text);
            self.written.insert(path.clone(), text.to_owned());
            path
        };
        if let Some(text) = given.as_str() {
            return Value::Path(file(text));
        }
        if let Some(number) = given.as_float() {
            return Value::Number(number);
        }
        let items = given.as_slice().unwrap_or_default();
        let texts: Option<Vec<&str>> = items.iter().map(Given::as_str).collect();
        match texts.filter(|texts| !texts.is_empty()) {
            Some(texts) => Value::Parts(Parts::new(texts.into_iter().map(file).collect())),
            None => {
                let mut numbers = Vec::new();
                flatten(given, &mut numbers);
                Value::Numbers(numbers.into())
            }
        }
    }

    /// The file of an image as written in the config.
    pub fn file_of(&self, key: &str) -> Option<String> {
        let path = match self.sample.values.get(key)? {
            Value::Image(image) => image.meta.path.clone()?,
            Value::Path(path) => path.clone(),
            Value::Parts(parts) => parts.files.first()?.clone(),
            _ => return None,
        };
        Some(self.written.get(&path).cloned().unwrap_or_else(|| path.display().to_string()))
    }

    /// Converts numbers to an image with one channel each, like an item of a batch.
    pub fn numbers_to_image(&mut self, key: &str) {
        let values: Vec<f32> = match self.sample.values.get(key) {
            Some(Value::Number(number)) => vec![*number as f32],
            Some(Value::Numbers(numbers)) => numbers.iter().map(|number| *number as f32).collect(),
            _ => return,
        };
        let count = values.len();
        let image = Image::from_values(values, [count, 1, 1, 1], affine::IDENTITY, &host_device());
        self.sample.values.insert(key.to_owned(), Value::Image(image.with_spatial_dims(2)));
    }

    /// The random draw of a step.
    pub fn draw(&self) -> Draw {
        DrawKey::new(self.seed, 0, 0).draw(&self.sample.case, 0, 0)
    }
}

fn flatten(given: &Given, out: &mut Vec<f64>) {
    match given.as_float() {
        Some(number) => out.push(number),
        None => given.as_slice().unwrap_or_default().iter().for_each(|item| flatten(item, out)),
    }
}

/// Converts an item of a network's output to an image, on the grid of the input image.
pub(crate) fn prediction(data: Tensor<4>, like: Option<&Image>) -> Image {
    match like {
        Some(image) => Image { data, affine: image.affine, meta: image.meta.clone() },
        None => Image::new(data, affine::IDENTITY),
    }
}
