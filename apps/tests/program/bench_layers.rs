//! `hearth bench layers`: what it computes, against the CPU in f32 and the count of operations.

use serde_json::Value;

use crate::common::succeed;

#[test]
fn layers_compute_what_their_line_says() {
    let said = succeed(&["bench", "layers", "--limit", "1", "--runs", "1", "--json"]);
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.len() >= 3, "a layer in three directions at least: {said}");
    for line in &lines {
        let layer: Vec<f64> = line["layer"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
        let [batch, input, output, edge, kernel, stride] = layer[..] else { panic!("{line}") };
        let flops = 2.0 * batch * input * output * (kernel * (edge / stride).ceil()).powi(3);
        let (us, tflops) = (line["us"].as_f64().unwrap(), line["tflops"].as_f64().unwrap());
        assert!((us * tflops * 1e6 / flops - 1.0).abs() < 0.05 + 0.001 / tflops, "{flops} operations: {line}");
        let bound = match line["name"].as_str() {
            Some("bf16") => 0.01,
            Some("fp16") => 0.002,
            _ => 1e-5,
        };
        if let Some(error) = line["error"].as_f64() {
            assert!(error < bound, "{line}");
        }
    }
    assert!(lines.iter().any(|line| line["error"].as_f64().is_some_and(|error| error > 0.0)), "bf16 rounds: {said}");
}
