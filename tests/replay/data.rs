//! Splitting, sampling, caches, collation and decollation.

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth::data::{
    Batch, CacheDataset, CacheOptions, Dataset, DistributedSampler, GridPatchDataset, Image, ImageInfo, Item, Meta,
    PartitionOptions, Pipeline, Sample, Sampler, SmartCacheDataset, SmartCacheOptions, Value as Entry, affine, collate,
    decollate, pad_collate, partition_dataset, partition_dataset_classes, partition_ratios, partition_ratios_classes,
    resample_datalist, select_cross_validation_folds, spatial::PadMode, transforms::PadMethod,
};
use hearth_tests::golden::{Array, Case, Miss, Outcome};
use serde_json::Value;

use super::device::device;

/// Replays one case of the data family.
pub fn replay(case: &Case) -> Outcome {
    match case.op.as_str() {
        "partition_dataset" => partition(case),
        "partition_dataset_classes" => partition_classes(case),
        "resample_datalist" => resample(case),
        "select_cross_validation_folds" => folds(case),
        "DistributedSampler" => distributed(case),
        "CacheDataset" => cached(case),
        "SmartCacheDataset" => smart(case),
        "GridPatchDataset" => grid_patches(case),
        "list_data_collate" | "pad_list_data_collate" => stack(case),
        "decollate_batch" => unstack(case),
        "iter_patch" | "iter_patch_position" | "iter_patch_slices" => super::patches::replay(case),
        other => Err(Miss::unsupported(format!("op {other}"))),
    }
}

fn flag(case: &Case, name: &str, default: bool) -> bool {
    case.params[name].as_bool().unwrap_or(default)
}

fn seed(case: &Case) -> u32 {
    case.params["seed"].as_u64().unwrap_or(0) as u32
}

fn length(case: &Case) -> usize {
    case.call["n"].as_u64().unwrap_or(0) as usize
}

/// A recorded answer that is not a tensor.
fn answer<T: serde::de::DeserializeOwned>(case: &Case, key: &str) -> Result<T, Miss> {
    Ok(serde_json::from_value(case.record["expected"][key].clone())?)
}

fn dealing(case: &Case) -> Result<PartitionOptions, Miss> {
    case.only_params(&["ratios", "num_partitions", "shuffle", "seed", "drop_last", "even_divisible"])?;
    Ok(PartitionOptions {
        shuffle: flag(case, "shuffle", false),
        seed: seed(case),
        drop_last: flag(case, "drop_last", false),
        even_divisible: flag(case, "even_divisible", false),
    })
}

fn partition(case: &Case) -> Outcome {
    let (n, options) = (length(case), dealing(case)?);
    let parts = match &case.params["ratios"] {
        Value::Null => partition_dataset(n, case.params["num_partitions"].as_u64().unwrap_or(0) as usize, options)?,
        ratios => partition_ratios(n, &serde_json::from_value::<Vec<f64>>(ratios.clone())?, options)?,
    };
    let mut check = case.check();
    check.equal("parts", &answer::<Vec<Vec<usize>>>(case, "parts")?, &parts);
    check.outcome()
}

fn partition_classes(case: &Case) -> Outcome {
    let options = dealing(case)?;
    let classes: Vec<i64> = serde_json::from_value(case.call["classes"].clone())?;
    let count = case.params["num_partitions"].as_u64().unwrap_or(0) as usize;
    let parts = match &case.params["ratios"] {
        Value::Null => partition_dataset_classes(&classes, count, options)?,
        ratios => partition_ratios_classes(&classes, &serde_json::from_value::<Vec<f64>>(ratios.clone())?, options)?,
    };
    let mut check = case.check();
    check.equal("parts", &answer::<Vec<Vec<usize>>>(case, "parts")?, &parts);
    check.outcome()
}

fn resample(case: &Case) -> Outcome {
    case.only_params(&["factor", "random_pick", "seed"])?;
    let factor = case.params["factor"].as_f64().unwrap_or(f64::NAN);
    let items = resample_datalist(length(case), factor, flag(case, "random_pick", false), seed(case))?;
    let mut check = case.check();
    check.equal("items", &answer(case, "items")?, &items);
    check.outcome()
}

fn folds(case: &Case) -> Outcome {
    case.only_params(&["folds"])?;
    let partitions: Vec<Vec<i64>> = serde_json::from_value(case.call["partitions"].clone())?;
    let folds = match &case.params["folds"] {
        Value::Number(fold) => vec![fold.as_i64().unwrap_or(i64::MAX)],
        many => serde_json::from_value(many.clone())?,
    };
    let items = select_cross_validation_folds(&partitions, &folds)?;
    let mut check = case.check();
    check.equal("items", &answer(case, "items")?, &items);
    check.outcome()
}

fn distributed(case: &Case) -> Outcome {
    case.only_params(&["num_replicas", "even_divisible", "drop_last", "shuffle"])?;
    if flag(case, "shuffle", false) {
        return Err(Miss::unsupported("PyTorch's permutations"));
    }
    let ranks = case.params["num_replicas"].as_u64().unwrap_or(0) as usize;
    let mut check = case.check();
    for rank in 0..ranks {
        let sampler = DistributedSampler::new(length(case), ranks, rank)?
            .shuffle(false)
            .drop_last(flag(case, "drop_last", false))
            .even_divisible(flag(case, "even_divisible", true))?;
        let expected = &case.record["expected"]["ranks"][rank];
        check.equal("indices", &serde_json::from_value(expected["indices"].clone())?, &sampler.order(0));
        check.equal("length", &serde_json::from_value(expected["length"].clone())?, &sampler.len());
    }
    check.outcome()
}

/// The cases 0..n, and a pipeline that does not change them.
fn numbers(case: &Case) -> Result<(Vec<Item>, Arc<Pipeline>), Miss> {
    let items = (0..length(case)).map(|i| Item::new(i.to_string())).collect();
    Ok((items, Arc::new(Pipeline::new(())?)))
}

fn cached(case: &Case) -> Outcome {
    case.only_params(&["cache_num", "cache_rate"])?;
    let (items, pipeline) = numbers(case)?;
    let options = CacheOptions {
        num: case.params["cache_num"].as_u64().map(|n| n as usize),
        rate: case.params["cache_rate"].as_f64().unwrap_or(1.0),
        ..CacheOptions::default()
    };
    let dataset = CacheDataset::new(items, pipeline, options)?;
    let kept: Vec<usize> = (0..dataset.len()).filter(|i| dataset.is_cached(*i)).collect();
    let mut check = case.check();
    check.equal("cache_num", &answer(case, "cache_num")?, &dataset.cached());
    check.equal("cached", &answer(case, "cached")?, &kept);
    check.equal("length", &answer(case, "length")?, &dataset.len());
    check.outcome()
}

fn smart(case: &Case) -> Outcome {
    case.only_params(&["cache_num", "cache_rate", "replace_rate", "shuffle", "seed"])?;
    let (items, pipeline) = numbers(case)?;
    let options = SmartCacheOptions {
        num: case.params["cache_num"].as_u64().map(|n| n as usize),
        rate: case.params["cache_rate"].as_f64().unwrap_or(1.0),
        replace_rate: case.params["replace_rate"].as_f64().unwrap_or(0.1),
        // The recorded cases are not shuffled.
        shuffle: flag(case, "shuffle", false),
        shuffle_seed: seed(case),
        ..SmartCacheOptions::default()
    };
    let dataset = SmartCacheDataset::new(items, pipeline, options)?;
    let mut epochs = Vec::new();
    for epoch in 1..=case.call["epochs"].as_u64().unwrap_or(0) {
        dataset.begin_epoch(epoch);
        let mut names = Vec::new();
        for index in 0..dataset.len() {
            names.extend(dataset.get(index, epoch)?.into_iter().map(|sample| sample.case));
        }
        epochs.push(names.iter().filter_map(|name| name.parse().ok()).collect());
    }
    let mut check = case.check();
    check.equal("epochs", &answer::<Vec<Vec<usize>>>(case, "epochs")?, &epochs);
    check.equal("length", &answer(case, "length")?, &dataset.len());
    check.outcome()
}

/// Images in memory as a data set.
struct Images(Vec<Image>);

impl Dataset for Images {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn case(&self, _: usize) -> &str {
        "image"
    }

    fn get(&self, index: usize, _: u64) -> Result<Vec<Sample>, hearth::data::DataError> {
        Ok(vec![Sample::new("image").with_image("image", self.0[index].clone())])
    }
}

fn grid_patches(case: &Case) -> Outcome {
    case.only_params(&["patch_size", "start_pos", "mode", "value", "constant_values", "with_coordinates"])?;
    let mut images = Vec::new();
    while let Some(array) = case.find(&format!("in.image{}", images.len())) {
        images.push(super::transforms_spatial::image(array, affine::IDENTITY)?);
    }
    let axes = images.first().map_or(0, |image| image.meta.spatial_dims);
    let grid = super::patches::grid(case, false)?;
    let dataset = GridPatchDataset::new(Arc::new(Images(images)), "image", &grid.patch_size)
        .start_pos(&grid.start_pos)
        .padding(super::patches::padding(case)?);
    let (mut values, mut coords, mut shape) = (Vec::new(), Vec::new(), vec![0]);
    for index in 0..dataset.len() {
        for patch in dataset.get(index, 0)? {
            let image = patch.image("image")?;
            shape[0] += 1;
            shape.truncate(1);
            shape.extend(&image.data.dims()[..=axes]);
            values.extend(image.to_vec());
            match patch.get("patch_coords")? {
                Entry::Numbers(numbers) => coords.extend_from_slice(numbers),
                other => return Err(Miss::failed(format!("patch_coords: {other:?}"))),
            }
        }
    }
    let mut check = case.check();
    check.close_f32("out.patches", &shape, &values);
    check.close("out.coords", &[shape[0], axes + 1, 2], &coords);
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
                Value::Bool(flag) => Entry::Number(f64::from(u8::from(*flag))),
                other => return Err(Miss::unsupported(format!("the value {other}"))),
            };
            sample = sample.with(key, value);
        }
        samples.push(sample);
    }
    let batch = if case.op == "pad_list_data_collate" {
        case.only_params(&["method", "mode", "value", "constant_values"])?;
        let word = |name: &str, default: &str| Value::from(case.params[name].as_str().unwrap_or(default));
        let value = case.params["value"].as_f64().or(case.params["constant_values"].as_f64()).unwrap_or(0.0);
        let unknown = |e: serde_json::Error| Miss::unsupported(e.to_string());
        let method: PadMethod = serde_json::from_value(word("method", "symmetric")).map_err(unknown)?;
        let mode: PadMode = serde_json::from_value(word("mode", "constant")).map_err(unknown)?;
        pad_collate(samples, method, mode, value as f32)?
    } else {
        collate(samples)?
    };
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
        if array.shape.len() == 1 {
            batch.numbers.insert(key.to_owned(), array.values.clone());
            continue;
        }
        for images in &mut batch.images {
            images.insert(key.to_owned(), ImageInfo { affine: affine::IDENTITY, meta: Meta::default() });
        }
        let shape: [usize; 5] = std::array::from_fn(|a| array.shape.get(a).copied().unwrap_or(1));
        let data = hearth_tensor(array.f32(), shape);
        batch.tensors.insert(key.to_owned(), data);
    }
    for (key, list) in case.call["scalars"].as_object().into_iter().flatten() {
        match serde_json::from_value::<Vec<f64>>(list.clone()) {
            Ok(numbers) => drop(batch.numbers.insert(key.clone(), numbers)),
            Err(_) => drop(batch.texts.insert(key.clone(), serde_json::from_value(list.clone())?)),
        }
    }
    let (texts, numbers) = (batch.texts.clone(), batch.numbers.clone());
    let samples = decollate(batch)?;
    let mut check = case.check();
    for (i, sample) in samples.iter().enumerate() {
        for key in sample.values.keys().filter(|k| matches!(sample.values[*k], Entry::Image(_))) {
            let name = format!("out.{key}.{i}");
            let expected = case.array(&name)?;
            let image = sample.image(key)?;
            check.close_f32(&name, &image.data.dims()[..expected.shape.len()], &image.to_vec());
        }
        for key in numbers.keys() {
            let got = match sample.values.get(key) {
                Some(Entry::Number(number)) => Some(*number),
                _ => None,
            };
            check.equal(key, &case.record["expected"]["items"][i][key].as_f64(), &got);
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
