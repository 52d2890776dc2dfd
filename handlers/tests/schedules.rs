//! Schedules against torch and MONAI (golden cases), and the handlers that set the rate.

mod mock;

use std::fs;
use std::path::Path;

use hearth_engine::{Better, Engine};
use hearth_handlers::{
    CosineAnnealingWarmRestarts, LinearWarmupCosineAnnealingLr, LrSchedule, LrScheduleOptions, PlateauOptions,
    ReduceLrOnPlateau, Schedule, ScheduleConfig, StepBy, StepLr, build,
};
use mock::Trainer;
use safetensors::SafeTensors;
use serde_json::{Value, json};

struct Case {
    name: String,
    op: String,
    params: Value,
    call: Value,
    rtol: f64,
    atol: f64,
    /// One row per step, one column per base rate.
    rates: Vec<Vec<f64>>,
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/optim");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("schedule_")).collect();
    files.sort();
    files
        .iter()
        .map(|path| {
            let bytes = fs::read(path).unwrap();
            let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
            let case: Value = serde_json::from_str(&metadata.metadata().as_ref().unwrap()["case"]).unwrap();
            let file = SafeTensors::deserialize(&bytes).unwrap();
            let tensor = file.tensor("out.lr").unwrap();
            let values: Vec<f64> =
                tensor.data().chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
            Case {
                name: case["case"].as_str().unwrap().to_owned(),
                op: case["op"].as_str().unwrap().to_owned(),
                params: case["params"].clone(),
                call: case["call"].clone(),
                rtol: case["tolerance"]["rtol"].as_f64().unwrap(),
                atol: case["tolerance"]["atol"].as_f64().unwrap(),
                rates: values.chunks_exact(tensor.shape()[1]).map(<[f64]>::to_vec).collect(),
            }
        })
        .collect()
}

impl Case {
    fn compare(&self, step: usize, column: usize, rate: f64) {
        let wanted = self.rates[step][column];
        let close = (rate - wanted).abs() <= self.atol + self.rtol * wanted.abs();
        assert!(close, "{}: step {step} gives {rate}, not {wanted}", self.name);
    }

    fn bases(&self) -> Vec<f64> {
        self.call["base_lrs"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    }
}

#[test]
fn every_golden_schedule() {
    let mut closed_forms = 0;
    for case in cases().iter().filter(|case| case.op != "ReduceLROnPlateau") {
        let mut table = case.params.clone();
        let op = match case.op.as_str() {
            "monai.LinearLR" => "FinderLinear",
            "monai.ExponentialLR" => "FinderExponential",
            op => op,
        };
        table["name"] = json!(op);
        let schedule: ScheduleConfig = serde_json::from_value(table).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        for (column, base) in case.bases().into_iter().enumerate() {
            for step in 0..case.rates.len() {
                case.compare(step, column, schedule.at(base, step as u64));
            }
        }
        // A serialized schedule is read back unchanged.
        let text = toml::to_string(&schedule).unwrap();
        assert_eq!(toml::from_str::<ScheduleConfig>(&text).unwrap(), schedule, "{text}");
        closed_forms += 1;
    }
    assert_eq!(closed_forms, 14);
}

#[test]
fn the_golden_plateau() {
    let cases = cases();
    let case = cases.iter().find(|case| case.op == "ReduceLROnPlateau").unwrap();
    let options: PlateauOptions = serde_json::from_value(case.params.clone()).unwrap();
    let mut plateau = ReduceLrOnPlateau::new(options).unwrap();
    let mut rate = case.bases()[0];
    case.compare(0, 0, rate);
    for (step, metric) in case.call["metric"].as_array().unwrap().iter().enumerate() {
        rate = plateau.step(metric.as_f64().unwrap(), Better::Lower, rate).unwrap_or(rate);
        case.compare(step + 1, 0, rate);
    }
}

/// The table of the recipes: W = 100, T = 700, base 1e-4.
#[test]
fn linear_warmup_cosine_of_the_recipes() {
    let schedule =
        LinearWarmupCosineAnnealingLr { warmup_epochs: 100, max_epochs: 700, warmup_start_lr: 0.0, eta_min: 0.0 };
    let table = [(0, 0.0), (1, 1.0101e-6), (50, 5.0505e-5), (99, 1e-4), (100, 1e-4), (400, 5e-5), (699, 6.85e-10)];
    for (step, wanted) in table {
        let rate = schedule.at(1e-4, step);
        assert!((rate - wanted).abs() <= wanted * 1e-3 + 1e-18, "step {step}: {rate}");
    }
    // A warm-up of one step does not divide by zero.
    let short = LinearWarmupCosineAnnealingLr { warmup_epochs: 1, max_epochs: 3, warmup_start_lr: 0.01, eta_min: 0.0 };
    assert_eq!((short.at(0.1, 0), short.at(0.1, 1)), (0.01, 0.1));
}

fn step_handler(step_by: StepBy) -> LrSchedule {
    let schedule = ScheduleConfig::of("StepLR", &StepLr { step_size: 2, gamma: 0.5 }).unwrap();
    LrSchedule::new(LrScheduleOptions { schedule, step_by, base_lr: None }).unwrap()
}

#[test]
fn the_handler_sets_the_rate_of_each_epoch_or_iteration() {
    for (step_by, wanted) in [
        (StepBy::Epoch, [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05]),
        (StepBy::Iteration, [0.1, 0.1, 0.05, 0.05, 0.025, 0.025, 0.0125, 0.0125, 0.00625]),
    ] {
        let (mut engine, mut trainer) = (Engine::new("trainer"), Trainer::new(3));
        engine.add(step_handler(step_by)).unwrap();
        engine.run(&mut trainer, 3).unwrap();
        assert_eq!(trainer.rates, wanted, "{step_by:?}");
    }
}

#[test]
fn a_resumed_schedule_does_not_start_from_the_lowered_rate() {
    for step_by in [StepBy::Epoch, StepBy::Iteration] {
        let (mut engine, mut trainer) = (Engine::new("trainer"), Trainer::new(3));
        engine.add(step_handler(step_by)).unwrap();
        // In mid-epoch, where the resumed run has no `EpochStarted`.
        engine
            .on(hearth_engine::Event::IterationCompleted.once(7), |cx| {
                cx.host.interrupt("pause");
                Ok(())
            })
            .unwrap();
        engine.run(&mut trainer, 4).unwrap();
        let snapshot = engine.snapshot();
        engine.run(&mut trainer, 4).unwrap();

        let (mut other, mut rest) = (Engine::new("trainer"), Trainer::new(3));
        other.add(step_handler(step_by)).unwrap();
        other.restore(&snapshot).unwrap();
        // The optimizer's state was restored too.
        rest.learning_rate = trainer.rates[6];
        other.run(&mut rest, 4).unwrap();
        assert_eq!(rest.rates, trainer.rates[7..], "{step_by:?}");
    }
}

#[test]
fn the_plateau_handler_lowers_the_rate_and_resumes() {
    let toml = r#"metric = "dice"
        better = "higher"
        patience = 1
        factor = 0.5"#;
    let options = || toml::Value::Table(toml::from_str(toml).unwrap());
    let mut trainer = Trainer::new(1);
    // Better until epoch 3, then flat; not computed in epoch 5.
    trainer.metrics = |e| if e == 5 { vec![] } else { vec![("dice", e.min(3) as f64)] };
    let mut engine = Engine::new("trainer");
    engine.add_boxed(build("ReduceLROnPlateau", options(), "".as_ref()).unwrap()).unwrap();
    mock::checkpoints(&mut engine);
    engine.run(&mut trainer, 9).unwrap();
    // Values without improvement: epochs 4 and 6 (falls after it), 7 and 8 (falls again).
    assert_eq!(trainer.rates, [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.025]);
    assert!(trainer.log_text().contains("dice no longer improves: learning rate 0.1 -> 0.05"));

    let (_, snapshot) = trainer.saved.lock().unwrap()[3].clone();
    let mut rest = Trainer::new(1);
    rest.metrics = trainer.metrics;
    let mut other = Engine::new("trainer");
    other.add_boxed(build("ReduceLROnPlateau", options(), "".as_ref()).unwrap()).unwrap();
    other.restore(&snapshot).unwrap();
    other.run(&mut rest, 9).unwrap();
    assert_eq!(rest.rates, trainer.rates[4..]);
}

#[test]
fn schedules_that_make_no_sense() {
    for (text, says) in [
        ("name = \"StepLR\"\nstep_size = 0", "`step_size` is 0"),
        ("name = \"ExponentialLR\"\ngamma = -0.1", "`gamma` is -0.1"),
        ("name = \"CosineAnnealingLR\"\nT_max = 0", "`T_max` is 0"),
        ("name = \"LinearWarmupCosineAnnealingLR\"\nwarmup_epochs = 5\nmax_epochs = 5", "nothing is left"),
        ("name = \"WarmupCosineSchedule\"\nwarmup_steps = 9\nt_total = 5", "nothing is left"),
        ("name = \"MultiStepLR\"\nmilestones = [5, 3]", "must rise"),
        ("name = \"LinearLR\"\nstart_factor = nan", "`start_factor` is NaN"),
        ("name = \"FinderLinear\"\nend_lr = 1.0\nnum_iter = 1", "2 or more"),
    ] {
        let error = toml::from_str::<ScheduleConfig>(text).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    for text in
        ["name = \"StepLR\"", "name = \"Steplr\"", "name = \"StepLR\"\nstep_size = 1\ngama = 1.0", "step_size = 1"]
    {
        assert!(toml::from_str::<ScheduleConfig>(text).is_err(), "{text}");
    }
    // Extreme values yield finite rates.
    let far = CosineAnnealingWarmRestarts { t_0: 1, t_mult: 3, eta_min: 0.0 };
    assert!(far.at(0.1, u64::MAX).is_finite());
    assert!(CosineAnnealingWarmRestarts { t_0: 1, t_mult: 1, eta_min: 0.0 }.at(0.1, u64::MAX).is_finite());
}

/// Recorded from torch 2.15.
#[test]
fn one_cycle_is_torchs() {
    let check = |options: &str, expected: &[f64]| {
        let schedule: ScheduleConfig =
            toml::from_str(&format!("name = \"OneCycleLR\"\nmax_lr = 0.5\n{options}")).unwrap();
        for (step, expected) in expected.iter().enumerate() {
            let rate = schedule.at(7.0, step as u64);
            assert!((rate - expected).abs() < 1e-11, "{options}: {rate} for {expected} at {step}");
        }
        assert_eq!(schedule.at(7.0, 1000), schedule.at(7.0, expected.len() as u64 - 1), "stays where it ended");
    };
    let rates =
        [0.02, 0.409637552446, 0.485970888694, 0.405872826975, 0.277992007061, 0.141530499104, 0.0383207969171, 2e-06];
    check("total_steps = 8", &rates);
    let rates = [0.05, 0.254545454545, 0.459090909091, 0.41675, 0.3126875, 0.208625, 0.1045625, 0.0005];
    let linear = "anneal_strategy = \"linear\"\npct_start = 0.4\ndiv_factor = 10.0\nfinal_div_factor = 100.0";
    check(&format!("total_steps = 8\n{linear}"), &rates);
    let rates = [
        0.02,
        0.325679117617,
        0.464052112575,
        0.082637859867,
        0.0191721958038,
        0.0146011903123,
        0.00796664332549,
        0.00224466280425,
        2e-06,
    ];
    check("total_steps = 9\nthree_phase = true", &rates);
    let wrong = toml::from_str::<ScheduleConfig>("name = \"OneCycleLR\"\nmax_lr = 0.5\ntotal_steps = 1");
    assert!(wrong.unwrap_err().to_string().contains("total_steps"));
}
