//! Dropout: its rate, its scale, and draws that depend only on seed, step, pass and layer.

use burn::module::Module;
use burn::tensor::Device;
use hearth_nn::layers::{ConfigError, Dropout, DropoutClock, DropoutSpec};
use hearth_nn::networks::{Network, UNetConfig};

use crate::{draw, values};

#[test]
fn the_mean_stays_and_the_rate_is_met() -> Result<(), ConfigError> {
    let device = Device::default().autodiff();
    let layer = Dropout::new("here", 0.3, &DropoutClock::default())?;
    let x = draw([1, 4, 32, 32, 32], 1, &device) * 0.0 + 1.0;
    let y = values(layer.forward(x));
    let zeros = y.iter().filter(|v| **v == 0.0).count() as f64 / y.len() as f64;
    let mean = y.iter().map(|v| f64::from(*v)).sum::<f64>() / y.len() as f64;
    assert!((zeros - 0.3).abs() < 5e-3, "{zeros}");
    assert!((mean - 1.0).abs() < 1e-2, "{mean}");
    assert!(y.iter().all(|v| *v == 0.0 || (*v - 1.0 / 0.7).abs() < 1e-6));
    assert!(Dropout::new("here", 1.5, &DropoutClock::default()).is_err());
    Ok(())
}

#[test]
fn a_step_draws_the_same_masks_again() -> Result<(), ConfigError> {
    let device = Device::default().autodiff();
    let config = UNetConfig { dropout: 0.4.into(), ..UNetConfig::new(3, 1, 2, &[4, 8], &[2]) };
    let (a, b) = (config.init(&device, 0)?, config.init(&device, 0)?);
    let x = draw([1, 1, 8, 8, 8], 1, &device);
    let run = |net: &hearth_nn::networks::UNet, seed, step| {
        net.set_draw(seed, step);
        values(net.forward(x.clone()))
    };
    let first = run(&a, 5, 17);
    assert_eq!(first, run(&a, 5, 17));
    assert_eq!(first, run(&b, 5, 17));
    assert_ne!(first, run(&a, 5, 18));
    assert_ne!(first, run(&a, 6, 17));
    // A second pass within the step has different draws.
    run(&a, 5, 17);
    assert_ne!(first, values(a.forward(x.clone())));
    let plain = draw([1, 1, 8, 8, 8], 1, &device.clone().inner());
    let without = UNetConfig { dropout: 0.0.into(), ..config }.init(&device, 0)?;
    assert_eq!(values(a.valid().forward(plain.clone())), values(without.valid().forward(plain)));
    Ok(())
}

/// As in PyTorch, dropped values are replaced by one value, and mean and variance of normal numbers
/// are preserved.
#[test]
fn alpha_dropout_keeps_mean_and_variance() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::default().autodiff();
    let spec: DropoutSpec = serde_json::from_str(r#"["AlphaDropout", {"p": 0.3}]"#)?;
    let layer = Dropout::of("here", &spec, &DropoutClock::default())?;
    let key = hearth_kernels::counter_rng::Key::new(3);
    let normal: Vec<f32> = (0..64 * 64 * 64).map(|i| key.normal(i) as f32).collect();
    let x = burn::tensor::Tensor::<1>::from_floats(normal.as_slice(), &device).reshape([1, 1, 64, 64, 64]);
    let y: Vec<f64> = values(layer.forward(x)).into_iter().map(f64::from).collect();
    // a = 1 / sqrt(0.7 (1 + 0.3 alpha^2)), computed by hand with alpha = 1.7580993408473766.
    let (scale, dropped) = (0.860_909, -0.860_909 * 0.7 * 1.758_099_340_847_376_6);
    let gone = y.iter().filter(|v| (*v - dropped).abs() < 1e-4).count() as f64 / y.len() as f64;
    assert!((gone - 0.3).abs() < 6e-3, "{gone}");
    let kept = f64::from(normal[0]) * scale + 0.3 * scale * 1.758_099_340_847_376_6;
    assert!((y[0] - kept).abs() < 1e-4 || (y[0] - dropped).abs() < 1e-4, "{} {kept}", y[0]);
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    let variance = y.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / y.len() as f64;
    assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    let of = |text: &str| -> Result<Dropout, Box<dyn std::error::Error>> {
        Ok(Dropout::of("here", &serde_json::from_str(text)?, &DropoutClock::default())?)
    };
    assert!(
        of("0.5").is_ok() && of("\"dropout\"").is_ok() && of(r#"["dropout", {"p": 0.1, "inplace": true}]"#).is_ok()
    );
    for (text, word) in [
        ("\"dropuot\"", "dropout, alphadropout"),
        (r#"["dropout", {"q": 0.1}]"#, "no argument `q`"),
        (r#"["alphadropout", {"p": 1.5}]"#, "[0, 1]"),
    ] {
        let error = of(text).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains(word), "{text}: {error}");
    }
    Ok(())
}
