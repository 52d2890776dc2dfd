//! Latent diffusion: the sampling steps as MONAI recorded them, noise from the user, and mistakes.

use std::error::Error;
use std::path::Path;

use hearth_data::read_image;
use hearth_models::bundle::{Bundle, RunOptions, Told, needs, run};
use hearth_models::writers::VolumeFormat;
use safetensors::tensor::SafeTensors;
use serde_json::{Value, json};

use crate::replay::{all_weights, copy, floats, stored};

type Tested<T = ()> = Result<T, Box<dyn Error>>;

const VOLUME: &str = "brats_mri_generative_diffusion";
const SLICE: &str = "brats_mri_axial_slices_generative_diffusion";

/// A recorded case with its weights, in a temporary folder.
fn prepared(name: &str) -> Tested<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    copy(&stored().join(name), folder.path())?;
    all_weights(&stored().join(name), folder.path())?;
    Ok(folder)
}

/// The events and files of a run.
#[derive(Default)]
struct Ran {
    latents: Vec<Vec<f32>>,
    output: Vec<f32>,
    notes: Vec<String>,
    /// The content of the only file.
    file: Vec<u8>,
}

fn sampled(folder: &Path, overrides: &[(&str, &str)]) -> Result<Ran, String> {
    let overrides = overrides.iter().map(|(id, value)| ((*id).to_owned(), (*value).to_owned())).collect();
    let config_files = vec!["configs/inference.json".to_owned(), "configs/replay.json".to_owned()];
    let options = RunOptions { config_files, overrides, overwrite: true, ..RunOptions::default() };
    let mut ran = Ran::default();
    let mut tell = |told: Told<'_>| match told {
        Told::Denoised { done, latent, .. } => {
            ran.latents.push(latent.clone().into_data().iter::<f32>().collect());
            assert_eq!(ran.latents.len(), done);
        }
        Told::Case(seen) => ran.output = seen.output.clone().into_data().iter::<f32>().collect(),
        Told::Note(note) => ran.notes.push(note),
        _ => {}
    };
    let bundle = Bundle::open(folder).map_err(|fault| fault.to_string())?;
    let report = run(&bundle, &options, &mut tell).map_err(|error| error.line())?;
    assert_eq!((report.cases, report.written.len()), (1, 1));
    ran.file = std::fs::read(&report.written[0]).map_err(|error| error.to_string())?;
    Ok(ran)
}

fn assert_close(got: &[f32], wanted: &[f32], what: &str) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    let most = wanted.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let apart = got.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / most;
    assert!(apart < 1e-4, "{what}: differs by {apart:.2e} of its largest value");
}

#[test]
fn each_step_of_the_denoising_is_that_of_monai() -> Tested {
    for (name, steps) in [(VOLUME, 4), (SLICE, 5)] {
        let folder = prepared(name)?;
        let ran = sampled(folder.path(), &[])?;
        assert_eq!(ran.latents.len(), steps, "{name}");
        let bytes = std::fs::read(stored().join(name).join("expected/tensors.safetensors"))?;
        let tensors = SafeTensors::deserialize(&bytes)?;
        for (step, latent) in ran.latents.iter().enumerate() {
            let wanted = floats(&tensors.tensor(&format!("latent.{step}"))?);
            assert_close(latent, &wanted, &format!("{name}: step {step}"));
        }
    }
    Ok(())
}

/// `--format` of a config that runs as it is: the voxels are those of the file that the config names.
#[test]
fn a_volume_is_saved_in_the_requested_format() -> Tested {
    let folder = prepared(VOLUME)?;
    let config_files = vec!["configs/inference.json".to_owned(), "configs/replay.json".to_owned()];
    let saved = |format: Option<VolumeFormat>| -> Result<std::path::PathBuf, String> {
        let options = RunOptions { config_files: config_files.clone(), format, ..RunOptions::default() };
        let bundle = Bundle::open(folder.path()).map_err(|fault| fault.to_string())?;
        let report = run(&bundle, &options, &mut |_| {}).map_err(|error| error.line())?;
        report.written.into_iter().next().ok_or_else(|| "nothing was written".to_owned())
    };
    let refused = saved(Some(VolumeFormat::Png)).err().ok_or("a volume became a picture")?;
    assert!(refused.contains("--format") && refused.contains("volumes"), "{refused}");
    let before = walk(&folder.path().join("output"));
    assert_eq!(before, 0, "it is refused before the sampling");
    let (own, nrrd) = (saved(None)?, saved(Some(VolumeFormat::Nrrd))?);
    assert!(own.to_string_lossy().ends_with(".nii.gz") && nrrd.to_string_lossy().ends_with(".nrrd"), "{nrrd:?}");
    let (own, nrrd) = (read_image(&own)?, read_image(&nrrd)?);
    assert_eq!((own.shape(), own.to_vec()), (nrrd.shape(), nrrd.to_vec()));
    Ok(())
}

#[test]
fn noise_is_drawn_by_the_seed_or_read_from_a_file() -> Tested {
    let folder = prepared(SLICE)?;
    let recorded = sampled(folder.path(), &[])?;
    // A path instead of the item, for both kinds of files.
    let npy = std::fs::read(folder.path().join("noise.npy"))?;
    let values = &npy[npy.len() - 4 * 16 * 24..];
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![1, 1, 16, 24], values)?;
    std::fs::write(folder.path().join("noise.pt"), safetensors::serialize([("noise", view)], None)?)?;
    for given in ["noise.npy", "noise.pt", "$torch.load('noise.pt')"] {
        let ran = sampled(folder.path(), &[("noise", given)])?;
        assert_eq!(ran.latents, recorded.latents, "{given}");
        assert_eq!(ran.file, recorded.file, "{given}");
    }
    // Draws of Hearth's generator are the same each time, are reported, and follow the seed.
    let drawn = ("noise", "$torch.randn([1]+@latent_shape).to(@device)");
    let (first, again) = (sampled(folder.path(), &[drawn])?, sampled(folder.path(), &[drawn])?);
    assert_eq!(first.latents, again.latents);
    assert!(first.notes.iter().any(|note| note.contains("Hearth's own generator") && note.contains("seed 0")));
    assert!(recorded.notes.iter().all(|note| !note.contains("generator")), "{:?}", recorded.notes);
    let seeded = [drawn, ("initialize", "['$monai.utils.set_determinism(seed=7)']")];
    assert_ne!(first.latents, sampled(folder.path(), &seeded)?.latents);
    Ok(())
}

#[test]
fn networks_of_monai_generative_and_the_zoos_earlier_config_give_the_same() -> Tested {
    let folder = prepared(SLICE)?;
    let recorded = sampled(folder.path(), &[])?;
    let path = folder.path().join("configs/inference.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    for (id, class) in [("autoencoder_def", "AutoencoderKL"), ("network_def", "DiffusionModelUNet")] {
        let table = config[id].as_object_mut().ok_or("no table")?;
        table.insert("_target_".to_owned(), format!("generative.networks.nets.{class}").into());
        let channels = table.remove("channels").ok_or("no channels")?;
        table.insert("num_channels".to_owned(), channels);
        table.retain(|key, _| key != "include_fc" && key != "use_combined_linear");
    }
    config["noise_scheduler"]["_target_"] = "generative.networks.schedulers.DDIMScheduler".into();
    // The config of the zoo before its sampler wrote files itself.
    config["sample"] = "$@inferer.sampling_fn(@noise, @autoencoder, @diffusion, @noise_scheduler)".into();
    config["generated_image_np"] = "$@sample[0,0].cpu().numpy().transpose(1, 0)[::-1, ::-1]".into();
    config["img_pil"] = "$Image.fromarray(visualize_2d_image(@generated_image_np), 'RGB')".into();
    config["run"] = json!(["$@create_output_dir", "$@img_pil.save(@output_dir+'/synimg_'+@output_postfix+'.png')"]);
    std::fs::write(&path, config.to_string())?;
    let path = folder.path().join("configs/replay.json");
    let overlay = std::fs::read_to_string(&path)?.replace("_def::channels", "_def::num_channels");
    std::fs::write(&path, overlay)?;
    let ran = sampled(folder.path(), &[])?;
    assert_eq!(ran.latents, recorded.latents);
    assert_eq!((ran.output, ran.file), (recorded.output, recorded.file));
    Ok(())
}

/// The zoo's overlay for TensorRT, which only makes the networks faster.
#[test]
fn networks_for_tensorrt_are_the_networks() -> Tested {
    let folder = prepared(SLICE)?;
    let recorded = sampled(folder.path(), &[])?;
    let path = folder.path().join("configs/replay.json");
    let mut overlay: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    overlay["+imports"] = json!(["$from monai.networks import trt_compile"]);
    overlay["diffusion"] = "$trt_compile(@network_def.to(@device), @load_diffusion_path)".into();
    overlay["autoencoder"] = "$trt_compile(@autoencoder_def.to(@device), @load_autoencoder_path)".into();
    std::fs::write(&path, overlay.to_string())?;
    let ran = sampled(folder.path(), &[])?;
    assert_eq!((ran.latents, ran.file), (recorded.latents, recorded.file));
    Ok(())
}

#[test]
fn what_does_not_fit_is_told_before_a_step_is_done() -> Tested {
    let folder = prepared(VOLUME)?;
    for (overrides, parts) in [
        (
            &[("noise", "$torch.randn(1, 4, 4, 8)")][..],
            &["network_def", "[1, 4, 4, 8]", "[batch, channel, x, y, z]"][..],
        ),
        (&[("noise", "$torch.randn(1, 4, 5, 8, 4)")], &["network_def", "noise does not fit"]),
        (&[("noise", "$torch.randn(1, 3, 4, 8, 4)")], &["network_def", "noise does not fit"]),
        (&[("noise", "nowhere.npy")], &["nowhere.npy is missing"]),
        (&[("noise", "LICENSE")], &["cannot read the array", "LICENSE"]),
        (&[("noise", "$torch.randn(0, 4)")], &["torch.randn with invalid sizes"]),
        (&[("noise", "$@noise_scheduler")], &["a DDIMScheduler stands where a tensor is computed"]),
        (&[("set_timesteps", "$@noise_scheduler.set_timesteps(1001)")], &["noise_scheduler", "1001"]),
        (&[("set_timesteps", "$@noise_scheduler.set_timesteps(0)")], &["noise_scheduler", "no step"]),
        (&[("noise_scheduler::beta_startt", "0.1")], &["noise_scheduler", "beta_startt"]),
        (&[("noise_scheduler::_target_", "PNDMScheduler")], &["noise_scheduler", "not supported"]),
        (&[("diffusion", "$@autoencoder")], &["autoencoder_def", "is no DiffusionModelUNet"]),
        (&[("saver::output_ext", ".dcm")], &["saver", ".dcm"]),
        (&[("load_diffusion_path", "models/none.pt")], &["models/none.pt", "nothing is fetched"]),
        (
            &[("run", "['$@inferer.run(@noise, @autoencoder, @diffusion, @noise_scheduler, @saver, @noise)']")],
            &["conditioning"],
        ),
        (
            &[("run", "['$@inferer.run(@noise, @autoencoder, @diffusion, @noise_scheduler, \"x.jpg\")']")],
            &["x.jpg", "PNG"],
        ),
    ] {
        let error = sampled(folder.path(), overrides).err().ok_or_else(|| format!("{overrides:?} ran"))?;
        for part in parts {
            assert!(error.contains(part), "{overrides:?}: {part:?} is not in: {error}");
        }
        let written = walk(&folder.path().join("output"));
        assert!(written == 0, "{overrides:?}: {written} files were written");
    }
    Ok(())
}

#[test]
fn images_are_no_input_of_a_sampling() -> Tested {
    let folder = prepared(VOLUME)?;
    let config_files = vec!["configs/inference.json".to_owned(), "configs/replay.json".to_owned()];
    let images = vec!["t1.nii.gz".to_owned()];
    let options = RunOptions { config_files, images, ..RunOptions::default() };
    let error = run(&Bundle::open(folder.path())?, &options, &mut |_| {}).err().ok_or("it ran")?.line();
    assert!(error.contains("inferer") && error.contains("leave out those that are given"), "{error}");
    Ok(())
}

/// The number of files below a folder.
fn walk(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { 1 }).sum()
}

#[test]
fn their_configs_lack_nothing_but_files() -> Tested {
    for (name, config) in [
        (VOLUME, "inference"),
        (SLICE, "inference"),
        ("brats_mri_generative_diffusion-autoencoder", "inference_autoencoder"),
        ("brats_mri_axial_slices_generative_diffusion-autoencoder", "inference_autoencoder"),
    ] {
        let bundle = Bundle::open(&stored().join(name))?;
        let options = RunOptions { config_files: vec![config.to_owned()], ..RunOptions::default() };
        let all = needs(&bundle, &options).map_err(|error| error.line())?;
        let found = all.first().ok_or("no config")?;
        assert!(found.is_supported(), "{name}: {:?}", found.missing);
        let missing: Vec<String> = found.missing.iter().map(ToString::to_string).collect();
        assert!(missing.iter().any(|line| line.contains("model_autoencoder.pt")), "{name}: {missing:?}");
        assert!(found.parts.iter().all(|part| part.here), "{name}: {:?}", found.parts);
    }
    Ok(())
}

/// MONAI's autoencoder draws its latent image, even if it only processes an image.
#[test]
fn a_reconstruction_is_drawn_and_told() -> Tested {
    let name = "brats_mri_axial_slices_generative_diffusion-autoencoder";
    let folder = prepared(name)?;
    let output = |seed: i64| -> Tested<Vec<f32>> {
        let config_files = vec!["configs/inference_autoencoder.json".to_owned(), "configs/replay.json".to_owned()];
        let seed = format!("['$monai.utils.set_determinism(seed={seed})']");
        let overrides = vec![("initialize".to_owned(), seed)];
        let options = RunOptions { config_files, overrides, overwrite: true, ..RunOptions::default() };
        let mut output = Vec::new();
        let mut tell = |told: Told<'_>| {
            if let Told::Case(seen) = told {
                output = seen.output.clone().into_data().iter::<f32>().collect();
            }
        };
        let report = run(&Bundle::open(folder.path())?, &options, &mut tell).map_err(|error| error.line())?;
        assert_eq!(report.written.len(), 2);
        Ok(output)
    };
    // As recorded: a deviation of exp(-15) has no visible effect.
    assert_close(&output(1)?, &output(2)?, "without a deviation");
    // With a deviation of 1 the result depends on the seed.
    let path = folder.path().join("weights_autoencoder.json");
    let rules = std::fs::read_to_string(&path)?.replace("-30.0", "0.0");
    std::fs::write(&path, rules)?;
    all_weights(folder.path(), folder.path())?;
    let (one, two) = (output(1)?, output(2)?);
    let apart = one.iter().zip(&two).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart > 0.01, "{apart}");
    assert_eq!(one, output(1)?);
    Ok(())
}
