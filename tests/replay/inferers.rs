//! Inferers, with a convolution as the network.

use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, module};
use hearth::nn::inferers::{
    BlendMode, InferError, Inferer, PatchInferer, SimpleInferer, SliceInferer, SlidingWindowInferer,
    compute_importance_map, dense_patch_slices,
};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::batch::{shape_of, tensor, values};

/// Replays one inferer.
pub fn replay(case: &Case) -> Outcome {
    match case.op.as_str() {
        "SimpleInferer" => {
            case.only_params(&[])?;
            let predictor = Predictor::new(case)?;
            let x = tensor(case.array("in.x")?, &Device::default())?;
            let y = SimpleInferer::default().infer(x, &|x| predictor.conv(x))?;
            let mut check = case.check();
            check.close("out.y", &shape_of(&y, predictor.dims + 2), &values(y));
            check.outcome()
        }
        "SlidingWindowInferer" => scan::<SlidingWindowInferer>(case, case.params.clone()),
        "sliding_window_inference" => scan::<SlidingWindowInferer>(case, case.call.clone()),
        "SliceInferer" => scan::<SliceInferer>(case, case.params.clone()),
        "PatchInferer" => scan::<PatchInferer>(case, patches(&case.params)?),
        "compute_importance_map" => importance_map(case),
        "dense_patch_slices" => slices(case),
        other => Err(Miss::unsupported(format!("op {other}"))),
    }
}

/// Options without an effect on the result here: a cache, a bar, the device of tensors.
const NO_EFFECT: [&str; 6] = ["cache_roi_weight_map", "progress", "device", "sw_device", "cpu_thresh", "with_coord"];

/// An inferer for networks with one output or several.
trait Scans: Inferer + DeserializeOwned {
    fn all(&self, x: Tensor<5>, net: &dyn Fn(Tensor<5>) -> Vec<Tensor<5>>) -> Result<Vec<Tensor<5>>, InferError>;
}

macro_rules! scans {
    ($inferer:ty) => {
        impl Scans for $inferer {
            fn all(
                &self,
                x: Tensor<5>,
                net: &dyn Fn(Tensor<5>) -> Vec<Tensor<5>>,
            ) -> Result<Vec<Tensor<5>>, InferError> {
                self.infer_all(x, net)
            }
        }
    };
}

scans!(PatchInferer);
scans!(SliceInferer);
scans!(SlidingWindowInferer);

/// The only merger, and no other processing.
fn patches(params: &Value) -> Result<Value, Miss> {
    let mut params = params.clone();
    let map = params.as_object_mut().ok_or_else(|| Miss::unsupported("parameters"))?;
    map.retain(|_, value| !value.is_null());
    // A queue of patches has no effect on the result.
    map.remove("buffer_size");
    match map.remove("merger_cls").as_ref().map(|name| name.as_str().unwrap_or_default().to_owned()) {
        Some(other) if other != "AvgMerger" => return Err(Miss::unsupported(format!("merger_cls {other}"))),
        _ => {}
    }
    if let Some(inner) = map.get("splitter").and_then(|splitter| splitter.get("params")).cloned() {
        map.insert("splitter".to_owned(), inner);
        if let Some(splitter) = map.get_mut("splitter").and_then(Value::as_object_mut) {
            // A `pad_mode` of null has a meaning; these do not.
            splitter.retain(|name, value| !(value.is_null() && ["filter_fn", "device"].contains(&name.as_str())));
        }
    }
    Ok(params)
}

fn scan<I: Scans>(case: &Case, mut options: Value) -> Outcome {
    if let Some(map) = options.as_object_mut() {
        if map.get("with_coord") == Some(&json!(true)) {
            return Err(Miss::unsupported("positions of windows for the predictor"));
        }
        NO_EFFECT.iter().for_each(|name| drop(map.remove(*name)));
        map.retain(|_, value| !value.is_null());
        // MONAI's None is -1 in this project.
        let lengths = map.get_mut("roi_size").and_then(Value::as_array_mut).into_iter().flatten();
        lengths.filter(|length| length.is_null()).for_each(|length| *length = json!(-1));
    }
    let input = case.array("in.x")?;
    let x = tensor(input, &Device::default())?;
    let predictor = Predictor::new(case)?;
    let inferer: I = serde_json::from_value(options).map_err(|e| Miss::unsupported(format!("options: {e}")))?;
    let mut check = case.check();
    let rank = input.shape.len();
    if predictor.pooled {
        let outputs = inferer.all(x, &|x| {
            let y = predictor.conv(x);
            vec![y.clone(), predictor.pool(y)]
        })?;
        for (i, y) in outputs.into_iter().enumerate() {
            check.close(&format!("out.y{i}"), &shape_of(&y, rank), &values(y));
        }
    } else {
        let y = inferer.infer(x, &|x| predictor.conv(x))?;
        check.close("out.y", &shape_of(&y, rank), &values(y));
    }
    check.outcome()
}

/// `y = convolution with weight.conv.*`, and optionally its average pooling by 2.
struct Predictor {
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    padding: [usize; 3],
    dims: usize,
    pooled: bool,
}

impl Predictor {
    fn new(case: &Case) -> Result<Self, Miss> {
        let device = Device::default();
        let record = &case.record["predictor"];
        let pooled = match record["kind"].as_str() {
            Some("conv") => false,
            Some("conv_and_pooled") => true,
            _ => return Err(Miss::unsupported(format!("predictor {record}"))),
        };
        let array = case.array("weight.conv.weight")?;
        let dims = array.shape.len() - 2;
        let mut padding = [0; 3];
        padding.iter_mut().zip(&array.shape[2..]).for_each(|(p, k)| *p = k / 2);
        let bias = case.find("weight.conv.bias").map(|bias| Tensor::from_floats(bias.f32().as_slice(), &device));
        Ok(Predictor { weight: tensor(array, &device)?, bias, padding, dims, pooled })
    }

    fn conv(&self, x: Tensor<5>) -> Tensor<5> {
        let options = ConvOptions::new([1; 3], self.padding, [1; 3], 1);
        module::conv3d(x, self.weight.clone(), self.bias.clone(), options)
    }

    fn pool(&self, y: Tensor<5>) -> Tensor<5> {
        // PyTorch drops the last element if the number is odd.
        let [b, c, dx, dy, dz] = y.dims();
        let (dx, dy, dz) = (dx / 2 * 2, dy / 2 * 2, if self.dims == 2 { dz } else { dz / 2 * 2 });
        let y = y.slice([0..b, 0..c, 0..dx, 0..dy, 0..dz]);
        if self.dims == 2 {
            return y.reshape([b, c, dx / 2, 2, dy / 2 * 2]).mean_dim(3).reshape([b, c, dx / 2, dy / 2, 2]).mean_dim(4);
        }
        let y = y.reshape([b * c, dx / 2, 2, dy, dz]).mean_dim(2).reshape([b * c, dx / 2, dy / 2, 2, dz]).mean_dim(3);
        y.reshape([b * c, dx / 2, dy / 2, dz / 2, 2]).mean_dim(4).reshape([b, c, dx / 2, dy / 2, dz / 2])
    }
}

fn importance_map(case: &Case) -> Outcome {
    case.only_params(&["patch_size", "mode", "sigma_scale"])?;
    let patch = lengths(&case.params["patch_size"])?;
    let mode: BlendMode = match &case.params["mode"] {
        Value::Null => BlendMode::default(),
        mode => serde_json::from_value(mode.clone()).map_err(|e| Miss::unsupported(format!("mode: {e}")))?,
    };
    let sigma: Vec<f64> = match &case.params["sigma_scale"] {
        Value::Null => vec![0.125; patch.len()],
        Value::Array(each) => each.iter().filter_map(Value::as_f64).collect(),
        all => vec![all.as_f64().ok_or_else(|| Miss::unsupported(format!("sigma_scale {all}")))?; patch.len()],
    };
    let mut check = case.check();
    check.close_f32("out.map", &patch, &compute_importance_map(&patch, mode, &sigma));
    check.outcome()
}

fn slices(case: &Case) -> Outcome {
    case.only_params(&["image_size", "patch_size", "scan_interval", "return_slice"])?;
    let of = |name: &str| lengths(&case.params[name]);
    let windows = dense_patch_slices(&of("image_size")?, &of("patch_size")?, &of("scan_interval")?);
    let mut check = case.check();
    let expected = match &case.record["expected"] {
        Value::Object(map) if map.len() == 1 => map.values().next().cloned().unwrap_or_default(),
        other => other.clone(),
    };
    check.equal("windows", &expected, &json!(windows));
    check.outcome()
}

fn lengths(value: &Value) -> Result<Vec<usize>, Miss> {
    let numbers = value.as_array().map(|all| all.iter().map(|n| n.as_u64().map(|n| n as usize)).collect());
    numbers.flatten().ok_or_else(|| Miss::unsupported(format!("sizes {value}")))
}
