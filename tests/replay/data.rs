//! Splitting, collation and decollation.

use std::collections::BTreeMap;

use hearth::data::{
    Batch, Image, ImageInfo, Meta, PartitionOptions, Sample, Value as Entry, affine, collate, decollate,
    partition_dataset, partition_ratios,
};
use hearth_tests::golden::{Array, Case, Miss, Outcome};
use serde_json::Value;

use super::device::device;

/// Replays one case of splitting or collation.
pub fn replay(case: &Case) -> Outcome {
    match case.op.as_str() {
        "partition_dataset" => partition(case),
        "list_data_collate" => stack(case),
        "decollate_batch" => unstack(case),
        "iter_patch" | "iter_patch_position" | "iter_patch_slices" => super::patches::replay(case),
        other => Err(Miss::unsupported(format!("op {other}"))),
    }
}

fn partition(case: &Case) -> Outcome {
    case.only_params(&["ratios", "num_partitions", "shuffle", "seed", "drop_last", "even_divisible"])?;
    let n = case.call["n"].as_u64().unwrap_or(0) as usize;
    let flag = |name: &str| case.params[name].as_bool().unwrap_or(false);
    let options = PartitionOptions {
        shuffle: flag("shuffle"),
        seed: case.params["seed"].as_u64().unwrap_or(0) as u32,
        drop_last: flag("drop_last"),
        even_divisible: flag("even_divisible"),
    };
    let parts = match &case.params["ratios"] {
        Value::Null => partition_dataset(n, case.params["num_partitions"].as_u64().unwrap_or(0) as usize, options)?,
        ratios => partition_ratios(n, &serde_json::from_value::<Vec<f64>>(ratios.clone())?, options)?,
    };
    let expected: Vec<Vec<usize>> = serde_json::from_value(case.record["expected"]["parts"].clone())?;
    let mut check = case.check();
    check.equal("parts", &expected, &parts);
    check.outcome()
}

/// Entries `in.KEY.INDEX`.
fn entries(case: &Case) -> BTreeMap<usize, BTreeMap<&str, &Array>> {
    let mut out: BTreeMap<usize, BTreeMap<&str, &Array>> = BTreeMap::new();
    for (name, array) in &case.tensors {
        let parts: Vec<&str> = name.split('.').collect();
        if let ["in", key, index] = parts[..]
            && let Ok(index) = index.parse()
        {
            out.entry(index).or_default().insert(key, array);
        }
    }
    out
}

fn stack(case: &Case) -> Outcome {
    let mut samples = Vec::new();
    for (index, arrays) in entries(case) {
        let mut sample = Sample::new(format!("case {index}"));
        for (key, array) in arrays {
            sample = sample.with_image(key, any_image(array)?);
        }
        for (key, value) in case.call["scalars"][index].as_object().into_iter().flatten() {
            let value = match value {
                Value::Number(number) => Entry::Number(number.as_f64().unwrap_or(f64::NAN)),
                Value::String(text) => Entry::Text(text.clone()),
                other => return Err(Miss::unsupported(format!("the value {other}"))),
            };
            sample = sample.with(key, value);
        }
        samples.push(sample);
    }
    let batch = collate(samples)?;
    let mut check = case.check();
    for (name, expected) in case.tensors.iter().filter(|(name, _)| name.starts_with("out.")) {
        let key = &name["out.".len()..];
        if let Some(numbers) = batch.numbers.get(key) {
            check.close(name, &[numbers.len()], numbers);
            continue;
        }
        let values: Vec<f32> =
            batch.tensor(key)?.clone().try_into_vec_as().map_err(|e| Miss::failed(format!("{e:?}")))?;
        let dims = batch.tensor(key)?.dims();
        check.close_f32(name, &dims[..expected.shape.len().min(5)], &values);
    }
    for (key, expected) in case.record["expected"].as_object().into_iter().flatten() {
        let expected: Vec<String> = serde_json::from_value(expected.clone())?;
        check.equal(key, &Some(&expected), &batch.texts.get(key));
    }
    check.outcome()
}

fn unstack(case: &Case) -> Outcome {
    let mut batch = Batch::default();
    for (name, array) in &case.tensors {
        let Some(key) = name.strip_prefix("in.") else { continue };
        let count = array.shape[0];
        batch.cases = (0..count).map(|i| format!("case {i}")).collect();
        batch.images.resize_with(count, BTreeMap::new);
        for images in &mut batch.images {
            images.insert(key.to_owned(), ImageInfo { affine: affine::IDENTITY, meta: Meta::default() });
        }
        let shape: [usize; 5] = std::array::from_fn(|a| array.shape.get(a).copied().unwrap_or(1));
        let data = hearth_tensor(array.f32(), shape);
        batch.tensors.insert(key.to_owned(), data);
    }
    for (key, list) in case.call["scalars"].as_object().into_iter().flatten() {
        batch.texts.insert(key.clone(), serde_json::from_value(list.clone())?);
    }
    let texts = batch.texts.clone();
    let samples = decollate(batch)?;
    let mut check = case.check();
    for (i, sample) in samples.iter().enumerate() {
        for key in sample.values.keys().filter(|k| matches!(sample.values[*k], Entry::Image(_))) {
            let name = format!("out.{key}.{i}");
            let expected = case.array(&name)?;
            let image = sample.image(key)?;
            check.close_f32(&name, &image.data.dims()[..expected.shape.len()], &image.to_vec());
        }
        for (key, list) in &texts {
            match sample.values.get(key) {
                Some(Entry::Text(text)) => check.equal(key, &list[i], text),
                other => check.problem(format!("{key}: {other:?}")),
            }
        }
    }
    check.outcome()
}

fn hearth_tensor(values: Vec<f32>, shape: [usize; 5]) -> burn::tensor::Tensor<5> {
    burn::tensor::Tensor::from_data(burn::tensor::TensorData::new(values, shape), &device())
}

/// An array of up to four axes, the missing ones 1.
fn any_image(array: &Array) -> Result<Image, Miss> {
    if array.shape.len() > 4 {
        return Err(Miss::unsupported(format!("an array of shape {:?}", array.shape)));
    }
    let shape: [usize; 4] = std::array::from_fn(|a| array.shape.get(a).copied().unwrap_or(1));
    Ok(Image::from_values(array.f32(), shape, affine::IDENTITY, &device()))
}
