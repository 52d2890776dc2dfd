//! Files that do not match, and invalid files.

use burn::module::Module;
use burn::tensor::Device;
use hearth_nn::layers::awaiting_weights;
use hearth_nn::networks::{Network, UNet, UNetConfig};
use hearth_nn::optim::Gradients;
use hearth_nn::weights::{self, WeightsError};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::{assert_close, draw, values};

fn unet(channels: &[usize], norm: &str) -> UNet {
    let config = UNetConfig {
        num_res_units: 1,
        norm: Some(norm.into()),
        ..UNetConfig::new(2, 1, 2, channels, &vec![2; channels.len() - 1])
    };
    config.init(&Device::default(), 1).expect("a network")
}

#[test]
fn a_file_gives_the_network_back() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("network.safetensors");
    let net = unet(&[4, 8], "batch");
    weights::save(&net, &path)?;
    let other = UNetConfig { norm: Some("batch".into()), num_res_units: 1, ..UNetConfig::new(2, 1, 2, &[4, 8], &[2]) };
    let (loaded, report) = weights::load(other.init(&Device::default(), 99)?, &path)?;
    assert!(report.is_complete() && report.loaded > 20);
    let x = draw([1, 1, 8, 8, 1], 1, &Device::default());
    assert_eq!(values(net.forward(x.clone())), values(loaded.forward(x)));
    // Saving again gives the same file.
    assert_eq!(weights::to_bytes(&loaded)?, std::fs::read(&path)?);
    Ok(())
}

/// A network with deferred weights equals any other, with loaded weights and with its own.
#[test]
fn a_network_that_awaits_weights_is_as_any_other() -> Result<(), Box<dyn std::error::Error>> {
    let build = || unet(&[4, 8], "batch");
    let drawn = weights::to_bytes(&build())?;
    assert_eq!(weights::to_bytes(&awaiting_weights(build))?, drawn, "its own, when they are used");
    assert_eq!(weights::to_bytes(&build())?, drawn, "and the next one is drawn at once");

    let config = UNetConfig { norm: Some("batch".into()), num_res_units: 1, ..UNetConfig::new(2, 1, 2, &[4, 8], &[2]) };
    let other = config.init(&Device::default().autodiff(), 99)?;
    let bytes = weights::to_bytes(&other)?;
    let (loaded, report) =
        weights::from_bytes(awaiting_weights(|| config.init(&Device::default().autodiff(), 1))?, &bytes)?;
    assert!(report.is_complete());
    assert_eq!(weights::to_bytes(&loaded)?, bytes);
    // It can be trained, and switched to evaluation mode and back.
    let x = draw([1, 1, 8, 8, 1], 1, &Device::default()).autodiff();
    let gradients = |net: &UNet| Gradients::of(net, &net.forward(x.clone()).sum());
    let (of_loaded, of_other) = (gradients(&loaded.valid().train()), gradients(&other));
    assert!(!of_other.is_empty() && of_loaded.len() == of_other.len());
    assert!(
        of_other
            .iter()
            .all(|(path, gradient)| { of_loaded.get(path).is_some_and(|found| found.to_data() == gradient.to_data()) })
    );

    // A weight that is missing in the file keeps the network's own value.
    let file = SafeTensors::deserialize(&bytes)?;
    let lacking = "model.0.conv.unit0.conv.weight";
    let some: Vec<_> = file.tensors().into_iter().filter(|(name, _)| name != lacking).collect();
    let some = safetensors::serialize(some, None)?;
    let (awaited, _) = weights::import_partial(awaiting_weights(build), &some)?;
    let (at_once, report) = weights::import_partial(build(), &some)?;
    assert_eq!(report.missing, [lacking]);
    assert_eq!(weights::to_bytes(&awaited)?, weights::to_bytes(&at_once)?);
    Ok(())
}

#[test]
fn keys_and_shapes_are_those_of_a_state_dict() {
    let bytes = weights::to_bytes(&unet(&[4, 8], "batch")).expect("weights");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let shape = |name: &str| file.tensor(name).unwrap_or_else(|_| panic!("{name}")).shape().to_vec();
    assert_eq!(shape("model.0.conv.unit0.conv.weight"), [4, 1, 3, 3]);
    assert_eq!(shape("model.1.submodule.residual.weight"), [8, 4, 1, 1]);
    assert_eq!(shape("model.2.0.conv.weight"), [12, 2, 3, 3]);
    assert_eq!(shape("model.2.1.conv.unit0.conv.bias"), [2]);
    assert_eq!(shape("model.0.conv.unit0.adn.N.num_batches_tracked"), [0_usize; 0]);
    assert_eq!(file.tensor("model.0.conv.unit0.adn.N.num_batches_tracked").expect("counter").dtype(), Dtype::I64);
}

#[test]
fn another_networks_weights_are_reported_key_by_key() {
    let bytes = weights::to_bytes(&unet(&[4, 8], "batch")).expect("weights");
    let Err(error) = weights::from_bytes(unet(&[4, 6, 8], "instance"), &bytes) else {
        panic!("another network's weights were taken");
    };
    let text = error.to_string();
    assert!(text.lines().count() <= 12, "{text}");
    assert!(text.contains("wrong shape") && text.contains("more"), "{text}");
    let WeightsError::Misfit { report, .. } = error else { panic!("{text}") };
    assert!(report.missing.iter().any(|key| key == "model.1.submodule.0.conv.unit0.conv.weight"));
    assert!(report.unexpected.iter().any(|key| key == "model.0.conv.unit0.adn.N.running_mean"));
    assert!(report.misfits.iter().any(|key| key.starts_with("model.2.0.conv.weight")), "{:?}", report.misfits);
}

/// Type, shape and bytes of a stored tensor.
type Stored = (Dtype, Vec<usize>, Vec<u8>);

fn rewritten(change: impl Fn(&str, Dtype, Vec<usize>, Vec<u8>) -> Option<Stored>) -> Vec<u8> {
    let bytes = weights::to_bytes(&unet(&[4, 8], "batch")).expect("weights");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let kept: Vec<(String, Stored)> = file
        .tensors()
        .into_iter()
        .filter_map(|(name, view)| {
            let changed = change(&name, view.dtype(), view.shape().to_vec(), view.data().to_vec())?;
            Some((name, changed))
        })
        .collect();
    let views = kept.iter().map(|(name, (dtype, shape, data))| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), data).expect("a whole tensor"))
    });
    safetensors::serialize(views, None).expect("serializes")
}

#[test]
fn half_precision_files_are_widened() {
    let half = rewritten(|_, dtype, shape, data| match dtype {
        Dtype::F32 => {
            let floats = data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            Some((Dtype::F16, shape, floats.flat_map(|v| half::f16::from_f32(v).to_le_bytes()).collect()))
        }
        other => Some((other, shape, data)),
    });
    let (loaded, _) = weights::from_bytes(unet(&[4, 8], "batch"), &half).expect("f16 weights");
    let x = draw([1, 1, 8, 8, 1], 1, &Device::default());
    let expected = values(unet(&[4, 8], "batch").forward(x.clone()));
    assert_close(&values(loaded.forward(x)), &expected, 5e-3);
}

#[test]
fn files_without_counters_load_and_files_with_integers_do_not() {
    let old = rewritten(|name, dtype, shape, data| (!name.ends_with("tracked")).then_some((dtype, shape, data)));
    assert!(weights::from_bytes(unet(&[4, 8], "batch"), &old).is_ok());
    let integers = rewritten(|name, dtype, shape, data| {
        Some((if name.ends_with("N.weight") { Dtype::I32 } else { dtype }, shape, data))
    });
    let error = weights::from_bytes(unet(&[4, 8], "batch"), &integers).expect_err("integers for scales");
    assert!(error.to_string().contains("I32"), "{error}");
}

#[test]
fn damaged_and_missing_files_are_errors() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = weights::to_bytes(&unet(&[4, 8], "batch"))?;
    for cut in [0, 7, 100, bytes.len() - 1] {
        assert!(matches!(weights::from_bytes(unet(&[4, 8], "batch"), &bytes[..cut]), Err(WeightsError::Format { .. })));
    }
    let mut huge = bytes.clone();
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(weights::from_bytes(unet(&[4, 8], "batch"), &huge), Err(WeightsError::Format { .. })));
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("nothing.safetensors");
    let error = weights::load(unet(&[4, 8], "batch"), &path).expect_err("no such file");
    assert!(error.to_string().contains("nothing.safetensors"), "{error}");
    Ok(())
}
