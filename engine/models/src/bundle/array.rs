//! Arrays of a config's expressions: any number of axes, on the host.

use std::path::Path;

use burn::tensor::{DType, Device, Tensor, TensorData};
use hearth_bundle::{Value, slice_places};
use hearth_data::readers::read_array;
use hearth_data::{Affine, Image, Meta, host_device};
use hearth_nn::pytorch::{OpenOptions, StateDict};
use safetensors::Dtype;
use safetensors::tensor::SafeTensors;

use crate::bundle::networks::is_safetensors;
use hearth_recipe::{Context, Outcome, RecipeError};

/// An array, the last axis the fastest.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
    /// The grid and file of the image from which it was made, as in MONAI's tensors.
    pub like: Option<(Affine, Meta)>,
}

impl Array {
    pub fn new(shape: Vec<usize>, values: Vec<f32>) -> Self {
        Array { shape, values, like: None }
    }

    /// Converts a batch of 2-D or 3-D images.
    pub fn of_batch(batch: Tensor<5>, spatial_dims: usize) -> Self {
        let shape = batch.dims()[..2 + spatial_dims].to_vec();
        let values = batch.cast(DType::F32).into_data().iter::<f32>().collect();
        Array::new(shape, values)
    }

    /// Converts to a batch of images `[batch, channel, x, y, z]`, with `z = 1` for four axes.
    ///
    /// # Errors
    /// Another number of axes.
    pub fn batch(&self, device: &Device) -> Outcome<Tensor<5>> {
        let shape = match self.shape[..] {
            [b, c, x, y] => [b, c, x, y, 1],
            [b, c, x, y, z] => [b, c, x, y, z],
            _ => {
                let what = "expected [batch, channel, x, y], or z besides";
                return Err(RecipeError::new(format!("a tensor of shape {:?}: {what}", self.shape)));
            }
        };
        Ok(Tensor::from_data(TensorData::new(self.values.clone(), shape), device))
    }

    /// Converts to an image `[channel, x, y, z]`: the first axis holds the channels, unless the
    /// array has no more axes than the grid of its image.
    ///
    /// # Errors
    /// A number of axes that no image has.
    pub fn image(&self) -> Outcome<Image> {
        let no_channel = self.like.as_ref().is_some_and(|(_, meta)| meta.spatial_dims >= self.shape.len());
        let (shape, flat) = match (&self.shape[..], no_channel) {
            ([x, y], _) => ([1, *x, *y, 1], true),
            ([x, y, z], true) => ([1, *x, *y, *z], false),
            ([c, x, y], false) => ([*c, *x, *y, 1], true),
            ([c, x, y, z], _) => ([*c, *x, *y, *z], false),
            _ => return Err(RecipeError::new(format!("an array of shape {:?} is no image", self.shape))),
        };
        let mut image = Image::from_values(self.values.clone(), shape, hearth_data::affine::IDENTITY, &host_device());
        if let Some((affine, meta)) = &self.like {
            (image.affine, image.meta) = (*affine, meta.clone());
        }
        Ok(image.with_spatial_dims(if flat { 2 } else { 3 }))
    }

    /// Evaluates `array[index]`: integers, slices, `...`, and tuples of them.
    ///
    /// # Errors
    /// An index beyond an axis, or of another kind.
    pub fn index(&self, index: &Value) -> Outcome<Self> {
        let wrong = |what: String| RecipeError::new(format!("an array of shape {:?} {what}", self.shape));
        let given: Vec<Value> = match index {
            Value::Tuple(items) => items.to_vec(),
            other => vec![other.clone()],
        };
        let is_rest = |value: &Value| matches!(value, Value::Name(name) if &**name == "Ellipsis");
        let named = given.iter().filter(|value| !is_rest(value)).count();
        if named > self.shape.len() {
            return Err(wrong(format!("has fewer axes than the {named} of the index")));
        }
        // The selected indices of each axis, and whether the axis stays.
        let mut axes: Vec<(Vec<usize>, bool)> = Vec::new();
        let whole = |axis: usize| ((0..self.shape[axis]).collect::<Vec<_>>(), true);
        for value in &given {
            let axis = axes.len();
            if is_rest(value) {
                axes.extend((axis..axis + self.shape.len() - named).map(whole));
                continue;
            }
            let Some(length) = self.shape.get(axis).copied() else { return Err(wrong("has too long an index".into())) };
            match value {
                Value::Slice(start, end, step) => axes.push((slice_places(length, *start, *end, *step)?, true)),
                value => {
                    let at = value.as_int().ok_or_else(|| wrong(format!("is indexed by {}", value.kind())))?;
                    let place = usize::try_from(if at < 0 { at + length as i64 } else { at }).ok();
                    let place = place.filter(|place| *place < length);
                    let place = place.ok_or_else(|| wrong(format!("has no index {at} of axis {axis}")))?;
                    axes.push((vec![place], false));
                }
            }
        }
        axes.extend((axes.len()..self.shape.len()).map(whole));
        let mut starts = vec![0];
        for ((places, _), length) in axes.iter().zip(&self.shape) {
            starts = starts.iter().flat_map(|start| places.iter().map(move |place| start * length + place)).collect();
        }
        let shape = axes.iter().filter(|(_, stays)| *stays).map(|(places, _)| places.len()).collect();
        let values = starts.into_iter().map(|at| self.values[at]).collect();
        Ok(Array { shape, values, like: self.like.clone() })
    }

    /// Evaluates `array.transpose(1, 0)`.
    ///
    /// # Errors
    /// An array without exactly two axes.
    pub fn transpose(&self) -> Outcome<Self> {
        let [rows, columns] = self.shape[..] else {
            let what = "only the transpose of two axes is computed";
            return Err(RecipeError::new(format!("an array of shape {:?}: {what}", self.shape)));
        };
        let values = (0..columns).flat_map(|j| (0..rows).map(move |i| self.values[i * columns + j])).collect();
        Ok(Array { shape: vec![columns, rows], values, like: self.like.clone() })
    }

    /// `visualize_2d_image` of the bundles' scripts: converts rows of grey values to 8-bit RGB.
    /// Values below 0 become 0, and the largest value becomes white, unless all are below 0.1.
    ///
    /// # Errors
    /// An array without exactly two axes.
    pub fn picture(&self) -> Outcome<Self> {
        let [rows, columns] = self.shape[..] else {
            return Err(RecipeError::new(format!("an array of shape {:?} is no picture of rows", self.shape)));
        };
        let most = self.values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let scale = if most > 0.1 { most } else { 1.0 };
        let grey = |value: f32| (255.0 * (value.max(0.0) / scale)).trunc();
        let values = self.values.iter().flat_map(|value| [grey(*value); 3]).collect();
        Ok(Array::new(vec![rows, columns, 3], values))
    }

    /// Converts rows of RGB to an image, whose first axis is the width.
    ///
    /// # Errors
    /// An array of another shape.
    pub fn of_pixels(&self) -> Outcome<Image> {
        let [rows, columns, 3] = self.shape[..] else {
            let what = "expected [row, column, 3]";
            return Err(RecipeError::new(format!("a picture of shape {:?}: {what}", self.shape)));
        };
        let pixel = |c: usize, x: usize, y: usize| self.values[(y * columns + x) * 3 + c];
        let values = (0..3).flat_map(|c| (0..columns).flat_map(move |x| (0..rows).map(move |y| pixel(c, x, y))));
        let shape = [3, columns, rows, 1];
        let image = Image::from_values(values.collect(), shape, hearth_data::affine::IDENTITY, &host_device());
        Ok(image.with_spatial_dims(2))
    }

    /// Reads a NumPy file (`.npy`, `.npz`), or the only tensor in a PyTorch dictionary or a
    /// safetensors file.
    ///
    /// # Errors
    /// A file that is missing, damaged, or holds several tensors.
    pub fn read(path: &Path) -> Outcome<Self> {
        let doing = || format!("cannot read the array {}", path.display());
        let name = path.to_string_lossy().to_lowercase();
        if name.ends_with(".npy") || name.ends_with(".npz") {
            let (shape, values) = read_array(path).while_doing(doing)?;
            return Ok(Array::new(shape, values));
        }
        let bytes = match is_safetensors(path).while_doing(doing)? {
            true => hearth_files::read(path).while_doing(doing)?,
            false => {
                let file = StateDict::open(path, &OpenOptions::default()).while_doing(doing)?;
                file.to_bytes().while_doing(doing)?
            }
        };
        let file = SafeTensors::deserialize(&bytes).map_err(RecipeError::from_error).while_doing(doing)?;
        let tensors = file.tensors();
        let [(_, view)] = &tensors[..] else {
            let what = format!("it holds {} tensors; expected one", tensors.len());
            return Err(RecipeError::new(what).context(doing()));
        };
        let bytes = view.data();
        let values = match view.dtype() {
            Dtype::F32 => bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            Dtype::F64 => bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b) as f32).collect(),
            Dtype::F16 => bytes.as_chunks::<2>().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()).collect(),
            other => {
                let what = format!("its values are of type {other:?}; expected real numbers");
                return Err(RecipeError::new(what).context(doing()));
            }
        };
        Ok(Array::new(view.shape().to_vec(), values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(shape: &[usize]) -> Array {
        let count: usize = shape.iter().product();
        Array::new(shape.to_vec(), (0..count).map(|value| value as f32).collect())
    }

    fn tuple(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Tuple(items.into_iter().collect())
    }

    #[test]
    fn indices_are_those_of_numpy() {
        // numpy.arange(24).reshape(2, 3, 4)
        let array = counted(&[2, 3, 4]);
        let rest = || Value::Name("Ellipsis".into());
        let back = || Value::Slice(None, None, Some(-1));
        for (index, shape, values) in [
            (Value::Int(1), vec![3, 4], (12..24).collect::<Vec<i32>>()),
            (tuple([Value::Int(0), Value::Int(-1), rest()]), vec![4], vec![8, 9, 10, 11]),
            (tuple([rest(), Value::Int(0)]), vec![2, 3], vec![0, 4, 8, 12, 16, 20]),
            (tuple([Value::Int(1), rest(), Value::Int(2)]), vec![3], vec![14, 18, 22]),
            (tuple([Value::Int(0), back(), Value::Slice(Some(1), Some(3), None)]), vec![3, 2], vec![9, 10, 5, 6, 1, 2]),
        ] {
            let got = array.index(&index).expect("an index");
            assert_eq!((got.shape, got.values), (shape, values.iter().map(|v| *v as f32).collect()), "{index:?}");
        }
        for (index, part) in [
            (Value::Int(2), "has no index 2 of axis 0"),
            (tuple([Value::Int(0), Value::Int(0), Value::Int(0), Value::Int(0)]), "fewer axes"),
            (Value::text("image"), "indexed by a text"),
        ] {
            let error = array.index(&index).expect_err("no index").line();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(counted(&[2, 3]).transpose().expect("two axes").values, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }

    #[test]
    fn pictures_are_those_of_the_script() {
        // numpy: visualize_2d_image(numpy.array([[-1, 0.5], [2, 1.3]], 'float32'))[..., 0] is [[0, 63], [255, 165]]
        let picture = Array::new(vec![2, 2], vec![-1.0, 0.5, 2.0, 1.3]).picture().expect("rows");
        assert_eq!(
            picture.index(&tuple([Value::Name("Ellipsis".into()), Value::Int(1)])).expect("green").values,
            [0.0, 63.0, 255.0, 165.0]
        );
        // Below 0.1 nothing is scaled.
        assert_eq!(Array::new(vec![1, 1], vec![0.05]).picture().expect("rows").values, [12.0; 3]);
        let image = picture.of_pixels().expect("a picture");
        assert_eq!((image.data.dims(), &image.to_vec()[..4]), ([3, 2, 2, 1], &[0.0, 255.0, 63.0, 165.0][..]));
    }
}
