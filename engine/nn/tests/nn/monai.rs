//! UNet compared with MONAI: our weights are loaded there, MONAI's weights are loaded here, and the
//! predictions are equal.

use hearth_nn::networks::UNetConfig;
use serde_json::json;

use crate::clients;
use crate::monai_record::{Case, MODULES, ask, replay};

const RECORD: &str = "unet.safetensors";

fn cases() -> Vec<Case> {
    let group = serde_json::from_str(r#"["group", {"num_groups": 2}]"#).expect("a layer");
    let affine = serde_json::from_str(r#"["instance", {"affine": true}]"#).expect("a layer");
    let leaky = serde_json::from_str(r#"["leakyrelu", {"negative_slope": 0.1}]"#).expect("a layer");
    let base = |dims, units| UNetConfig { num_res_units: units, ..UNetConfig::new(dims, 2, 4, &[4, 8, 12], &[2, 2]) };
    let configs = [
        base(3, 2),
        base(2, 0),
        UNetConfig { norm: Some("batch".into()), ..base(3, 2) },
        UNetConfig { norm: Some("batch".into()), bias: false, ..base(2, 1) },
        UNetConfig { norm: Some(group), act: Some("elu".into()), ..base(3, 1) },
        UNetConfig { norm: Some(affine), act: Some(leaky), adn_ordering: "AND".into(), ..base(3, 0) },
        UNetConfig { norm: None, act: None, dropout: 0.2.into(), ..base(2, 2) },
        UNetConfig { kernel_size: 5.into(), up_kernel_size: 5.into(), act: Some("mish".into()), ..base(3, 2) },
    ];
    let case = |config: &UNetConfig| {
        let depth = if config.spatial_dims == 2 { 1 } else { 8 };
        let mut options = serde_json::to_value(config).expect("JSON");
        options.as_object_mut().expect("a map").insert("name".to_owned(), json!("UNet"));
        Case::new(options, [2, config.in_channels, 8, 8, depth])
    };
    configs.iter().map(case).collect()
}

#[test]
fn unets_are_what_monai_said() {
    replay(&cases(), RECORD);
}

#[test]
fn live_unets() {
    let Some(client) = clients::find(MODULES, "unets_are_what_monai_said") else { return };
    ask(&client, &cases(), RECORD);
}
