//! Schedulers of diffusion models compared with MONAI, sampling, and weights in the older layout.

use burn::tensor::{Device, Tensor};
use hearth_nn::diffusion::{
    DDIMScheduler, DDPMScheduler, LatentDiffusionInferer, NoiseScheduler, NoiseSchedulerConfig, Sampling, Step,
    from_old_layout, noise, sample,
};
use hearth_nn::networks::{AutoencoderKLConfig, DiffusionModelUNetConfig, Network, PerLevel};
use hearth_nn::weights;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::monai_record::recorded;
use crate::{assert_close, batch, clients, draw, values};

/// Reads a case and prints the results of MONAI's scheduler.
const SCRIPT: &str = r"
import json, sys, warnings
warnings.simplefilter('ignore')
import torch
import monai.networks.schedulers as schedulers
case = json.load(open(sys.argv[1]))
params = dict(case['params'])
scheduler = getattr(schedulers, params.pop('name'))(**params)
scheduler.set_timesteps(case['steps'])
tensor = lambda name: torch.tensor(case[name]).reshape(1, -1, 2, 2)
noise = tensor('noise')
torch.randn = lambda *args, **kwargs: noise
steps = []
for timestep in case['at']:
    before, image = scheduler.step(tensor('predicted'), timestep, tensor('x'))
    steps.append([before.flatten().tolist(), image.flatten().tolist()])
at = torch.tensor(case['at'][:1])
print(json.dumps({
    'timesteps': scheduler.timesteps.tolist(),
    'left': scheduler.alphas_cumprod[::100].tolist(),
    'steps': steps,
    'noisy': scheduler.add_noise(tensor('x'), noise, at).flatten().tolist(),
    'velocity': scheduler.get_velocity(tensor('x'), noise, at).flatten().tolist(),
}))
";

/// MONAI's results for a case.
#[derive(Serialize, Deserialize)]
struct Answer {
    timesteps: Vec<usize>,
    left: Vec<f32>,
    steps: Vec<[Vec<f32>; 2]>,
    noisy: Vec<f32>,
    velocity: Vec<f32>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    made_with: String,
    /// BLAKE3 hash of MONAI's input, and its results.
    cases: Vec<(String, Answer)>,
}

const RECORD: &str = "schedulers.json";

fn cases() -> Vec<(Value, usize)> {
    let zoo = |name: &str, more: Value| {
        let mut params = json!({"name": name, "schedule": "scaled_linear_beta", "beta_start": 0.0015,
            "beta_end": 0.0195, "clip_sample": false});
        params.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
        params
    };
    vec![
        (zoo("DDIMScheduler", json!({})), 50),
        (zoo("DDPMScheduler", json!({})), 1000),
        (json!({"name": "DDIMScheduler"}), 7),
        (
            json!({"name": "DDIMScheduler", "set_alpha_to_one": false, "steps_offset": 3, "prediction_type": "sample"}),
            30,
        ),
        (
            zoo(
                "DDIMScheduler",
                json!({"prediction_type": "v_prediction", "clip_sample": true, "clip_sample_max": 0.2}),
            ),
            9,
        ),
        (json!({"name": "DDIMScheduler", "schedule": "cosine", "s": 0.01, "num_train_timesteps": 400}), 20),
        (json!({"name": "DDIMScheduler", "schedule": "sigmoid_beta", "sig_range": 5.0}), 10),
        (json!({"name": "DDPMScheduler", "variance_type": "fixed_large", "prediction_type": "v_prediction"}), 250),
        (json!({"name": "DDPMScheduler", "variance_type": "learned", "prediction_type": "sample"}), 1000),
        (json!({"name": "DDPMScheduler", "variance_type": "learned_range"}), 1000),
    ]
}

const SHAPE: [usize; 5] = [1, 2, 2, 2, 1];

/// Image, prediction (with a variance if one is learned) and noise.
fn inputs(params: &Value) -> [Vec<f32>; 3] {
    let device = Device::default();
    let learned = params["variance_type"].as_str().is_some_and(|variance| variance.starts_with("learned"));
    let mut predicted = values(draw(SHAPE, 12, &device));
    if learned {
        // A variance is positive.
        predicted.extend(values(draw(SHAPE, 13, &device).abs()));
    }
    [values(draw(SHAPE, 11, &device)), predicted, values(draw(SHAPE, 14, &device) * 2.0)]
}

/// The first, a middle and the last time step.
fn at(params: &Value) -> Vec<usize> {
    let last = params["num_train_timesteps"].as_u64().unwrap_or(1000) as usize - 1;
    vec![last, last / 3, params["steps_offset"].as_u64().unwrap_or(0) as usize]
}

/// MONAI's input as JSON.
fn question(params: &Value, steps: usize) -> String {
    let [x, predicted, noise] = inputs(params);
    json!({"params": params, "steps": steps, "at": at(params), "x": x, "predicted": predicted, "noise": noise})
        .to_string()
}

fn assert_answer(params: &Value, steps: usize, answer: &Answer) {
    let config: NoiseSchedulerConfig = serde_json::from_value(params.clone()).expect("a scheduler");
    let scheduler = config.build().expect("sound options");
    let [x, predicted, noise] = inputs(params);
    let channels = predicted.len() / 4;
    let [x, noise] = [batch(&x, SHAPE), batch(&noise, SHAPE)];
    let predicted = batch(&predicted, [1, channels, 2, 2, 1]);
    let levels = scheduler.levels().expect("sound options");
    assert_eq!(scheduler.timesteps(steps).expect("steps"), answer.timesteps, "{params}");
    let left: Vec<f32> = levels.alphas_cumprod.iter().step_by(100).copied().collect();
    assert_close(&left, &answer.left, 2e-6);
    for (timestep, [before, image]) in at(params).into_iter().zip(&answer.steps) {
        let at = Step { timestep, num_inference_steps: steps };
        let [got, own] =
            scheduler.step(&levels, at, predicted.clone(), x.clone(), &mut || noise.clone()).expect("a step");
        let scale = image.iter().chain(before).fold(1.0_f32, |largest, v| largest.max(v.abs()));
        assert_close(&values(got), before, 1e-5 * scale);
        assert_close(&values(own), image, 1e-5 * scale);
    }
    let first = &at(params)[..1];
    assert_close(&values(levels.add_noise(x.clone(), noise.clone(), first)), &answer.noisy, 1e-5);
    assert_close(&values(levels.velocity(x, noise, first)), &answer.velocity, 1e-5);
}

#[test]
fn schedulers_do_what_monai_did() {
    let text = std::fs::read_to_string(recorded(RECORD)).expect("the record");
    let record: Record = serde_json::from_str(&text).expect("a record");
    let cases = cases();
    assert_eq!(record.cases.len(), cases.len());
    for ((params, steps), (asked, answer)) in cases.iter().zip(&record.cases) {
        let hash = blake3::hash(question(params, *steps).as_bytes()).to_string();
        assert_eq!(hash, *asked, "MONAI was asked something else. {}", clients::how_to_record("hearth-nn"));
        assert_answer(params, *steps, answer);
    }
}

#[test]
fn live_schedulers() {
    const MODULES: &[&str] = &["monai", "torch"];
    let Some(client) = clients::find(MODULES, "schedulers_do_what_monai_did") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("case.json");
    let mut said = Vec::new();
    for (params, steps) in cases() {
        let question = question(&params, steps);
        std::fs::write(&file, &question).expect("a file");
        let answer: Answer = serde_json::from_str(&client.run(SCRIPT, [&file])).expect("an answer");
        said.push((blake3::hash(question.as_bytes()).to_string(), answer, params, steps));
    }
    if clients::recording() {
        let cases = said.iter().map(|(hash, answer, ..)| {
            let copy = serde_json::to_value(answer).and_then(serde_json::from_value).expect("an answer");
            (hash.clone(), copy)
        });
        let record = Record { made_with: client.versions(), cases: cases.collect() };
        let text = serde_json::to_string(&record).expect("JSON");
        std::fs::write(recorded(RECORD), text + "\n").expect("written");
    }
    for (_, answer, params, steps) in said {
        assert_answer(&params, steps, &answer);
    }
}

/// With a network that knows the image, every sampling ends at the image.
#[test]
fn a_network_that_knows_the_image_finds_it() {
    let device = Device::default();
    let image = draw([1, 1, 4, 4, 2], 5, &device);
    let start = noise(image.dims(), 3, 0, &device);
    for scheduler in [
        &DDIMScheduler::default() as &dyn NoiseScheduler,
        &DDPMScheduler { num_train_timesteps: 60, beta_end: Some(0.2), ..DDPMScheduler::default() },
    ] {
        let levels = scheduler.levels().expect("sound");
        let steps = if scheduler.name() == "DDIMScheduler" { 12 } else { 60 };
        let mut number = 0;
        let found = sample(scheduler, steps, start.clone(), 1, &mut |x, timestep| {
            number += 1;
            let left = f64::from(levels.left(timestep).expect("a level"));
            Ok((x - image.clone() * left.sqrt()) / (1.0 - left).sqrt())
        });
        assert_eq!(number, steps);
        assert_close(&values(found.expect("an image")), &values(image.clone()), 2e-3);
    }
}

#[test]
fn what_does_not_fit_is_told() {
    let bad = |text: &str| {
        let config: Result<NoiseSchedulerConfig, _> = toml::from_str(text);
        config.map(drop).expect_err(text).to_string()
    };
    assert!(bad("name = 'DDIMScheduler'\nbeta_end = 2.0").contains("beta_start, beta_end"));
    assert!(bad("name = 'DDPMScheduler'\nschedule = 'cosine'\nbeta_end = 0.1").contains("no such argument"));
    assert!(bad("name = 'DDIMScheduler'\nsteps_offset = 1000").contains("steps_offset"));
    assert!(bad("name = 'DDPMScheduler'\nnum_train_timesteps = 0").contains("num_train_timesteps"));
    assert!(DDIMScheduler::default().timesteps(1001).is_err());
    let x = Tensor::<5>::zeros([1, 1, 4, 4, 1], &Device::default());
    let error = sample(&DDIMScheduler::default(), 3, x, 0, &mut |x, _| Ok(x.narrow(2, 0, 2))).expect_err("a shape");
    assert!(error.to_string().contains("[1, 1, 2, 4, 1]"), "{error}");
}

fn small() -> (AutoencoderKLConfig, DiffusionModelUNetConfig) {
    let autoencoder = AutoencoderKLConfig::new(2).channels([4, 4]).attention_levels([false, true]).latent_channels(2);
    let diffusion = DiffusionModelUNetConfig::new(2, 2, 2).channels([4, 8]).attention_levels([false, true]);
    (
        autoencoder.num_res_blocks(PerLevel::All(1)).norm_num_groups(2),
        diffusion.num_res_blocks(PerLevel::All(1)).norm_num_groups(2).num_head_channels(PerLevel::All(4)),
    )
}

#[test]
fn latent_images_are_sampled_and_decoded() {
    let device = Device::default();
    let (autoencoder, diffusion) = small();
    let (autoencoder, diffusion) =
        (autoencoder.init(&device, 1).expect("sound"), diffusion.init(&device, 2).expect("sound"));
    let scheduler = DDIMScheduler { clip_sample: false, ..DDIMScheduler::default() };
    let sampling = Sampling { scheduler: &scheduler, num_inference_steps: 4, seed: 0 };
    let inferer = LatentDiffusionInferer { scale_factor: 2.0 };
    let start = noise([1, 2, 8, 8, 1], 7, 0, &device);
    let mut told = Vec::new();
    let image = inferer.sample(start.clone(), &autoencoder, &diffusion, sampling, &mut |step| told.push(step));
    assert_eq!((image.expect("an image").dims(), told), ([1, 1, 16, 16, 1], vec![0, 1, 2, 3]));
    let levels = scheduler.levels().expect("sound");
    let image = draw([1, 1, 16, 16, 1], 1, &device);
    let predicted = inferer.predict(image, &autoencoder, &diffusion, (&levels, start), &[500]);
    assert_eq!(predicted.expect("a prediction").dims(), [1, 2, 8, 8, 1]);
    let odd = noise([1, 2, 7, 8, 1], 7, 0, &device);
    assert!(inferer.sample(odd, &autoencoder, &diffusion, sampling, &mut |_| ()).is_err());
}

/// A file of MONAI Generative, with the keys that MONAI's `load_old_state_dict` expects.
fn old_file<N: Network>(net: &N, omit: &str) -> Vec<u8> {
    let bytes = weights::to_bytes(net).expect("weights");
    let file = SafeTensors::deserialize(&bytes).expect("whole");
    let views: Vec<(String, TensorView<'_>)> = file
        .tensors()
        .into_iter()
        .map(|(key, view)| {
            let old = key.replace(".attn.out_proj.", ".proj_attn.").replace(".attn.to_", ".to_");
            (old.replace("postconv", "conv"), view)
        })
        .filter(|(key, _)| omit.is_empty() || !key.contains(omit))
        .collect();
    safetensors::serialize(views, None).expect("a file")
}

#[test]
fn files_in_the_older_layout_load() {
    let device = Device::default();
    let (autoencoder, diffusion) = small();
    let (old, other) = (autoencoder.init(&device, 1).expect("sound"), autoencoder.init(&device, 2).expect("sound"));
    let x = draw([1, 1, 16, 16, 1], 1, &device);
    let file = from_old_layout(&other, &old_file(&old, "")).expect("a file");
    let (loaded, _) = weights::from_bytes(other.clone(), &file).expect("every key");
    assert_close(&values(loaded.forward(x.clone())), &values(old.forward(x.clone())), 0.0);
    // A missing projection is the identity, as in a network without one.
    let file = from_old_layout(&other, &old_file(&old, "proj_attn")).expect("a file");
    let (identity, _) = weights::from_bytes(other, &file).expect("every key");
    let plain = autoencoder.include_fc(false).init(&device, 3).expect("sound");
    let file = from_old_layout(&plain, &old_file(&old, "")).expect("a file");
    let (plain, _) = weights::from_bytes(plain, &file).expect("every key");
    assert_close(&values(identity.forward(x.clone())), &values(plain.forward(x)), 1e-5);

    let (old, other) = (diffusion.init(&device, 1).expect("sound"), diffusion.init(&device, 2).expect("sound"));
    let file = from_old_layout(&other, &old_file(&old, "")).expect("a file");
    let (loaded, _) = weights::from_bytes(other.clone(), &file).expect("every key");
    let own = weights::to_bytes(&old).expect("weights");
    assert_eq!(weights::to_bytes(&loaded).expect("weights"), own);
    assert_eq!(from_old_layout(&other, &own).expect("a file"), own, "a file in the present layout stays");
    assert!(from_old_layout(&other, &own[..30]).is_err());
}
