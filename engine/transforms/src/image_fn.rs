//! A closure as a transform: [`image_fn`].

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::sync::OnceLock;
use std::time::SystemTime;

use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use serde::Serialize;
use serde_json::json;

use crate::{Draw, Keys, Sample, Transform};

struct ImageFn<P, F> {
    name: &'static str,
    keys: Keys,
    parameters: P,
    change: F,
}

impl<P: fmt::Debug, F> fmt::Debug for ImageFn<P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name).field("keys", &self.keys).field("parameters", &self.parameters).finish()
    }
}

impl<P, F> Transform for ImageFn<P, F>
where
    P: Serialize + fmt::Debug + Send + Sync,
    F: Fn(&P, Image) -> Result<Image, TransformError> + Send + Sync,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for key in self.keys.iter() {
            sample.update(key, |image| (self.change)(&self.parameters, image))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)
    }

    fn describe(&self) -> serde_json::Value {
        json!({ "name": self.name, "keys": self.keys, "parameters": self.parameters, "program": program() })
    }
}

/// The hash of this program's file, which contains the code of its closures. Where the file cannot be
/// read, a word of this process: nothing is then cached for another one.
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let hash = || {
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(File::open(std::env::current_exe()?)?)?;
            std::io::Result::Ok(hasher.finalize().to_hex()[..16].to_owned())
        };
        hash().unwrap_or_else(|_| format!("{} {:?}", std::process::id(), SystemTime::now()))
    })
}

/// A transform that changes the image of each key by a closure of its parameters and the image.
///
/// The closure captures nothing: what it needs is a parameter, so that caches on a disk know it. They
/// also know the program's file, so that a changed closure is never given the images of an earlier one.
/// A transform that draws random numbers, reads other keys or changes labels implements
/// [`Transform`].
///
/// ```
/// use hearth_transforms::{image_fn, tiny};
///
/// let floor = image_fn("Floor", "image", 2.0, |least, image| Ok(image.map(|values| values.clamp_min(*least))));
/// assert_eq!(tiny::apply(floor, tiny::line([1.0, 5.0, 3.0]))?.to_vec(), [2.0, 5.0, 3.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
///
/// ```compile_fail
/// # use hearth_transforms::image_fn;
/// let least = std::env::args().count() as f64;
/// // `least` is captured: no cache would know it.
/// let floor = image_fn("Floor", "image", (), move |(), image| Ok(image.map(|values| values.clamp_min(least))));
/// ```
pub fn image_fn<P, F>(name: &'static str, keys: impl Into<Keys>, parameters: P, change: F) -> impl Transform + 'static
where
    P: Serialize + fmt::Debug + Send + Sync + 'static,
    F: Fn(&P, Image) -> Result<Image, TransformError> + Send + Sync + 'static,
{
    const {
        assert!(
            size_of::<F>() == 0,
            "the closure of `image_fn` captures a value, which caches would not know: give it as a parameter"
        );
    }
    ImageFn { name, keys: keys.into(), parameters, change }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pipeline;

    fn floor(key: &'static str, least: f64) -> impl Transform {
        image_fn("Floor", key, least, |least, image| Ok(image.map(|values| values.clamp_min(*least))))
    }

    #[test]
    fn caches_know_the_parameters_and_the_program() {
        let described = floor("image", 2.0).describe();
        assert_eq!(described, floor("image", 2.0).describe());
        for other in [floor("image", 3.0).describe(), floor("label", 2.0).describe()] {
            assert_ne!(described, other);
        }
        let file = std::env::current_exe().and_then(std::fs::read).expect("this program");
        assert_eq!(described["program"].as_str(), Some(&blake3::hash(&file).to_hex()[..16]));
    }

    #[test]
    fn a_key_that_does_not_exist_is_found_before_the_first_case() {
        let load = crate::transforms::LoadImage::new("image");
        let fault = Pipeline::new((load, floor("imge", 0.0))).expect_err("no such key").to_string();
        assert!(
            fault.contains("Floor") && fault.contains("imge") && fault.contains("did you mean \"image\"?"),
            "{fault}"
        );
    }
}
