//! Dropout: its rate, its scale, and draws that depend on seed, step, pass and layer alone.

use burn::module::Module;
use burn::tensor::Device;
use hearth_nn::layers::{ConfigError, Dropout, DropoutClock};
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
    let config = UNetConfig { dropout: 0.4, ..UNetConfig::new(3, 1, 2, &[4, 8], &[2]) };
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
    // A second pass within the step is not the first again.
    run(&a, 5, 17);
    assert_ne!(first, values(a.forward(x.clone())));
    let plain = draw([1, 1, 8, 8, 8], 1, &device.clone().inner());
    let without = UNetConfig { dropout: 0.0, ..config }.init(&device, 0)?;
    assert_eq!(values(a.valid().forward(plain.clone())), values(without.valid().forward(plain)));
    Ok(())
}
