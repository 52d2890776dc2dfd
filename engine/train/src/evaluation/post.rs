//! The steps on predictions and labels before metrics see them: [`Post`].

use std::fmt;
use std::sync::Arc;

use burn::tensor::Tensor;
use hearth_data::{Affine, Image, Pipeline, Sample, affine};
use hearth_engine::BoxError;
use hearth_nn::post::{Activations, AsDiscrete};
use hearth_registry::{Fault, Kind, Place, base_names, entry, read};

/// A post-processing step, on a batch `[B, C, X, Y, Z]`. In a recipe:
/// `{ name = "AsDiscrete", argmax = true, to_onehot = 2 }`.
///
/// MONAI decollates a batch into items first. `Activations` and `AsDiscrete` treat items alike, so
/// they work on the whole batch; [`Post::Transforms`] gets each item separately.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_data::{Image, affine};
/// # use hearth_train::Post;
/// let logits = Image::new(Tensor::zeros([3, 4, 4, 4], &Device::default()), affine::IDENTITY);
/// let labels = Post::finish(&Post::labels(), logits, "case_1")?;
/// assert_eq!(labels.data.dims(), [1, 4, 4, 4]);
/// # Ok::<(), hearth_engine::BoxError>(())
/// ```
pub enum Post {
    /// Sigmoid, softmax or another activation.
    Activations(Activations),
    /// Argmax, one-hot, threshold, rounding.
    AsDiscrete(AsDiscrete),
    /// Transforms of images, such as `KeepLargestConnectedComponent`, with the key [`Post::KEY`].
    /// Random ones are skipped.
    Transforms(Arc<Pipeline>),
    /// A function of your own.
    Custom(Box<dyn Fn(Tensor<5>) -> Result<Tensor<5>, BoxError> + Send>),
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Post::Activations(step) => step.fmt(f),
            Post::AsDiscrete(step) => step.fmt(f),
            Post::Transforms(steps) => steps.fmt(f),
            Post::Custom(_) => f.write_str("Custom"),
        }
    }
}

impl Kind for Post {
    const WORD: &'static str = "post-processing step";

    /// MONAI's dictionary transforms have names with `d`, `D` or `Dict` at the end.
    fn is_spelt(known: &str, written: &str) -> bool {
        base_names(written).contains(&known)
    }

    fn check(&self) -> Result<(), Fault> {
        match self {
            Post::Activations(step) => step.check().map_err(|error| Fault::new(error.to_string())),
            _ => Ok(()),
        }
    }

    fn place(&self) -> Option<Place> {
        Some(Place::AnyDevice)
    }
}

entry!(
    Post => Activations,
    example: "sigmoid = true",
    build: |node| Ok(Box::new(Post::Activations(read(node)?)))
);

entry!(
    Post => AsDiscrete,
    example: "argmax = true\nto_onehot = 2",
    build: |node| Ok(Box::new(Post::AsDiscrete(read(node)?)))
);

/// The properties of an item that [`Post::Transforms`] needs, apart from its values.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub case: String,
    pub affine: Affine,
}

impl Post {
    /// The `keys` of transforms in post-processing.
    pub const KEY: &str = "pred";

    /// The prediction's usual steps for exclusive classes: the class of the largest logit, one
    /// channel for each class.
    pub fn argmax(classes: usize) -> Vec<Post> {
        vec![Post::AsDiscrete(AsDiscrete::default().argmax(true).to_onehot(classes))]
    }

    /// The class of the largest logit, in one channel: a label map.
    pub fn labels() -> Vec<Post> {
        vec![Post::AsDiscrete(AsDiscrete::default().argmax(true))]
    }

    /// The label's usual step: one channel for each class.
    pub fn onehot(classes: usize) -> Vec<Post> {
        vec![Post::AsDiscrete(AsDiscrete::default().to_onehot(classes))]
    }

    /// The prediction's usual steps for one logit: sigmoid, then 1 where it is at least 0.5.
    pub fn sigmoid_threshold() -> Vec<Post> {
        vec![
            Post::Activations(Activations::default().sigmoid(true)),
            Post::AsDiscrete(AsDiscrete::default().threshold(0.5)),
        ]
    }

    /// Applies the steps to one image `[C, X, Y, Z]`, as validation does to an item of a batch.
    ///
    /// # Errors
    /// The error of the first step that fails.
    pub fn finish<'a>(steps: impl IntoIterator<Item = &'a Post>, image: Image, case: &str) -> Result<Image, BoxError> {
        let (items, dims) = ([Item { case: case.to_owned(), affine: image.affine }], image.meta.spatial_dims);
        let mut x: Tensor<5> = image.data.unsqueeze_dim(0);
        for step in steps {
            x = step.apply(x, dims, &items)?;
        }
        Ok(Image { data: x.squeeze_dim(0), ..image })
    }

    /// Applies the step. `items` are those of the batch, in its order; without them, an item has no
    /// name and voxels of 1 mm.
    pub(crate) fn apply(&self, x: Tensor<5>, spatial_dims: usize, items: &[Item]) -> Result<Tensor<5>, BoxError> {
        match self {
            Post::Activations(step) => Ok(step.apply(x)?),
            Post::AsDiscrete(step) => Ok(step.apply(x)?),
            Post::Transforms(steps) => each_item(steps, x, spatial_dims, items),
            Post::Custom(step) => step(x),
        }
    }
}

fn each_item(steps: &Pipeline, x: Tensor<5>, spatial_dims: usize, items: &[Item]) -> Result<Tensor<5>, BoxError> {
    let mut done: Vec<Tensor<5>> = Vec::with_capacity(x.dims()[0]);
    for index in 0..x.dims()[0] {
        let (case, affine) = match items.get(index) {
            Some(item) => (item.case.as_str(), item.affine),
            None => ("", affine::IDENTITY),
        };
        let data = x.clone().narrow(0, index, 1).squeeze_dim::<4>(0);
        let image = Image::new(data, affine).with_spatial_dims(spatial_dims);
        let mut made = steps.run_deterministic(Sample::new(case).with_image(Post::KEY, image))?;
        let (Some(mut sample), true) = (made.pop(), made.is_empty()) else {
            return Err("post-processing must return one result for each prediction".into());
        };
        let result = sample.take_image(Post::KEY)?.data;
        if let Some(first) = done.first().filter(|first| first.dims()[1..] != result.dims()) {
            let (found, expected) = (result.dims(), first.dims()[1..].to_vec());
            return Err(
                format!("post-processing returns shape {found:?} for one case, and {expected:?} for another").into()
            );
        }
        done.push(result.unsqueeze_dim(0));
    }
    Ok(Tensor::cat(done, 0))
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};
    use hearth_data::transforms::{KeepLargestConnectedComponent, ProbNMS, RemoveSmallObjects};
    use hearth_data::{Transform, affine};

    use super::*;

    fn batch(values: &[f32], shape: [usize; 5]) -> Tensor<5> {
        Tensor::from_data(TensorData::new(values.to_vec(), shape), &Device::flex())
    }

    fn transforms(step: impl Transform + 'static) -> Post {
        Post::Transforms(Pipeline::new(step).expect("a sound step").into())
    }

    #[test]
    fn each_item_is_transformed_by_itself_on_its_own_grid() {
        let x = batch(&[1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0], [2, 1, 1, 4, 1]);
        let keep = transforms(KeepLargestConnectedComponent::new(Post::KEY));
        let kept: Vec<f32> = keep.apply(x.clone(), 2, &[]).expect("kept").into_data().iter().collect();
        assert_eq!(kept, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
        let item = |case: &str, size: f64| {
            let mut affine = affine::IDENTITY;
            affine[1][1] = size;
            Item { case: case.to_owned(), affine }
        };
        let remove = transforms(RemoveSmallObjects::new(Post::KEY).min_size(4.0).by_measure(true));
        let items = [item("small", 2.0), item("large", 4.0)];
        let kept: Vec<f32> = remove.apply(x, 2, &items).expect("kept").into_data().iter().collect();
        // 4 mm^2 are two voxels of one and one of the other, and as much goes too.
        assert_eq!(kept, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn errors_say_which_case_and_what_is_no_image() {
        let x = batch(&[0.7; 8], [1, 1, 2, 4, 1]);
        let item = Item { case: "first".to_owned(), affine: affine::IDENTITY };
        let keep = transforms(KeepLargestConnectedComponent::new(Post::KEY).connectivity(3_usize));
        let text = keep.apply(x.clone(), 2, &[item]).expect_err("refused").to_string();
        assert!(text.contains("case first") && text.contains("connectivity 3 for 2 axes"), "{text}");
        let peaks = transforms(ProbNMS::new(Post::KEY, 2));
        let text = peaks.apply(x, 2, &[]).expect_err("refused").to_string();
        assert!(text.contains("`pred` is a list of numbers"), "{text}");
    }
}
