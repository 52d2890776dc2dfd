//! Steps within steps (`OneOf`, `SomeOf`, `RandomOrder`) and mixtures of batches: faults with their
//! key and line, keys, draws, what a chain knows of them, inverses.

use hearth_image::{Image, affine, host_device};
use hearth_transforms::transforms::*;
use hearth_transforms::{DrawKey, Effect, Pipeline, RecipeOptions, Sample, Transform, Value, tiny};

fn fault(text: &str) -> String {
    Pipeline::from_toml(text).expect_err("refused").to_string()
}

fn pipeline(text: &str) -> Pipeline {
    Pipeline::from_toml(text).unwrap_or_else(|fault| panic!("{fault}"))
}

/// A chain of one choice of these steps.
fn choice(name: &str, steps: &str) -> String {
    format!("[[transforms]]\nname = '{name}'\ntransforms = [\n{steps}\n]\n")
}

#[test]
fn faults_of_inner_steps_have_their_key_and_line() {
    let text = choice("OneOf", "{ name = 'RandFlip', keys = 'image' },\n{ name = 'Flip', keys = 'image', axis = 0 }");
    let found = fault(&text);
    assert!(found.contains("transforms:5:") && found.contains("unknown key \"axis\""), "{found}");
    let found = fault(&choice("SomeOf", "{ name = 'RandFlap', keys = 'image' }"));
    assert!(found.contains(":4:") && found.contains("did you mean \"RandFlip\""), "{found}");
    // Found when the chain is checked, not when the table is read.
    let text =
        choice("RandomOrder", "{ name = 'Flip', keys = 'image' },\n{ name = 'RandFlip', keys = 'image', prob = 2.0 }");
    let found = fault(&text);
    assert!(
        found.contains(":5:") && found.contains("transforms.1.prob") && found.contains("not a probability"),
        "{found}"
    );
    let loads = "[[transforms]]\nname = 'LoadImage'\nkeys = 'image'\n";
    let found = fault(&format!("{loads}{}", choice("OneOf", "{ name = 'RandFlip', keys = ['image', 'lable'] }")));
    assert!(found.contains(":7:") && found.contains("\"lable\""), "{found}");
}

#[test]
fn invalid_choices_are_refused() {
    let flips = "{ name = 'Flip', keys = 'image' }, { name = 'RandFlip', keys = 'image' }";
    for (name, more, expected) in [
        ("OneOf", "weights = [1.0]", "1 entries for 2 transforms"),
        ("OneOf", "weights = [1.0, -0.5]", "-0.5 is not a weight"),
        ("OneOf", "weights = [0, 0]", "expected at least one above 0"),
        ("OneOf", "keys = 'image'", "unknown key \"keys\""),
        ("SomeOf", "num_transforms = [1, 3]", "not a range within 0 to 2"),
        ("SomeOf", "num_transforms = [2, 1]", "not a range within 0 to 2"),
        ("SomeOf", "num_transforms = [0, 1, 2]", "has 3 numbers"),
        ("SomeOf", "weights = [1, 0]", "1 are above 0, but up to 2"),
    ] {
        let found = fault(&format!("{}{more}\n", choice(name, flips)));
        assert!(found.contains(expected), "{name} {more}: {found}");
    }
    assert!(fault(&choice("OneOf", "")).contains("names no transform"));
    let found = fault(&choice("OneOf", "{ name = 'LoadImage', keys = 'image' }"));
    assert!(found.contains("validation and prediction omit random steps"), "{found}");
}

#[test]
fn a_choice_is_random_and_its_keys_are_those_of_its_steps() {
    let text = format!(
        "[[transforms]]\nname = 'Flip'\nkeys = 'image'\n{}",
        choice("OneOf", "{ name = 'Flip', keys = 'image' }, { name = 'Flip', keys = 'label' }")
    );
    let steps = pipeline(&text);
    assert_eq!((steps.split(), steps.without_random().len()), (1, 1));
    // A key that only a step within a step within a step names exists.
    let nested = choice("SomeOf", "{ name = 'OneOf', transforms = [{ name = 'Flip', keys = 'other' }] }");
    assert!(Pipeline::from_toml(&nested).is_ok());
    // Both the table of an inner step and the chain know `allow_missing_keys`.
    let only = Sample::new("case").with_image("image", tiny::line([1.0, 2.0]));
    let strict = pipeline(&choice("RandomOrder", "{ name = 'Flip', keys = ['image', 'label'] }"));
    let error = strict.run(only.clone(), DrawKey::new(0, 0, 0)).expect_err("no label").to_string();
    assert!(error.contains("(RandomOrder): Flip: no value `label`"), "{error}");
    let inner = "{ name = 'Flip', keys = ['image', 'label'], allow_missing_keys = true }";
    let made = pipeline(&choice("RandomOrder", inner)).run(only, DrawKey::new(0, 0, 0)).expect("one key");
    assert_eq!(made[0].image("image").expect("an image").to_vec(), [2.0, 1.0]);
}

#[test]
fn values_are_known_after_a_choice_only_if_every_choice_has_them() {
    let copies = |names: &str| format!("{{ name = 'CopyItems', keys = 'image', names = '{names}' }}");
    let uses = |key: &str| format!("[[transforms]]\nname = 'Flip'\nkeys = '{key}'\n");
    let loads = "[[transforms]]\nname = 'LoadImage'\nkeys = ['image', 'label']\n";
    let made = |name: &str, steps: &[String], more: &str, used: &str| {
        Pipeline::from_toml(&format!("{loads}{}{more}{}", choice(name, &steps.join(",\n")), uses(used))).is_ok()
    };
    let (a, b) = (copies("a"), copies("b"));
    assert!(made("OneOf", &[a.clone(), a.clone()], "", "a"));
    assert!(!made("OneOf", &[a.clone(), b.clone()], "", "a"));
    assert!(made("RandomOrder", &[a.clone(), b.clone()], "", "b"));
    assert!(!made("SomeOf", &[a.clone(), b.clone()], "num_transforms = 1\n", "b"));
    // A step that removes a value is before one that uses it in some order.
    let (drops, flips) = ("{ name = 'DeleteItems', keys = 'label' }", "{ name = 'Flip', keys = 'label' }");
    let steps = [drops.to_owned(), flips.to_owned()];
    assert!(!made("RandomOrder", &steps, "", "image"));
    assert!(made("OneOf", &steps, "", "image") && !made("OneOf", &steps, "", "label"));
}

#[test]
fn a_chain_knows_the_effect_of_a_choice() {
    let effect = |step: &dyn Transform| step.effect();
    let (flip, scale) = (|| Flip::new("image"), || ScaleIntensity::new("image"));
    let crop = |size: i64| RandSpatialCrop::new("image", [size; 3]);
    let eight = Effect::Sizes { key: "transforms", size: vec![8; 3] };
    assert_eq!(effect(&OneOf::new((scale(), scale()))), Effect::Values);
    assert_eq!(effect(&OneOf::new((flip(), scale()))), Effect::Moves);
    assert_eq!(effect(&OneOf::new((crop(8), crop(8)))), eight);
    assert_eq!(effect(&OneOf::new((crop(8), crop(4)))), Effect::Regrids);
    assert_eq!(effect(&OneOf::new((crop(8), flip()))), Effect::Regrids);
    assert_eq!(effect(&RandomOrder::new((crop(8), flip()))), eight);
    assert_eq!(effect(&SomeOf::new((crop(8), crop(8))).num_transforms([0, 2])), Effect::Regrids);
    assert_eq!(effect(&SomeOf::new((crop(8), crop(8))).num_transforms([1, 2])), eight);
    let lazy = |step: &dyn Transform| (step.is_lazy(), step.through_host(), step.maps_labels());
    assert_eq!(lazy(&RandomOrder::new((flip(), flip()))), (true, false, false));
    assert_eq!(lazy(&RandomOrder::new((flip(), MedianSmooth::new("image")))), (false, true, false));
    let maps = MapLabelValue::new("label", [1.0], [2.0]);
    assert_eq!(lazy(&OneOf::new((flip(), maps))), (false, false, true));
}

#[test]
fn each_step_of_a_choice_has_draws_of_its_own() {
    let noise = || RandGaussianNoise::new("image").prob(1.0);
    let draw = || DrawKey::new(5, 0, 0).draw("case", 0, 0);
    let zeros = || Sample::new("case").with_image("image", tiny::image([1, 4, 4, 4], [0.0; 64]));
    let made = |order: &[usize]| {
        let step = SomeOf::new((noise(), noise())).replace(true);
        let made = step.apply_in_order(zeros(), order, &draw()).expect("noise");
        made[0].image("image").expect("an image").to_vec()
    };
    assert_eq!(made(&[0]), made(&[0]));
    assert_eq!(made(&[0]), made(&[1]), "the draws belong to the turn");
    let twice = made(&[0, 1]);
    assert!(made(&[0]).iter().zip(&twice).any(|(once, twice)| (2.0 * once - twice).abs() > 0.01));
    assert!(SomeOf::new(noise()).apply_in_order(zeros(), &[1], &draw()).is_err());
}

#[test]
fn crops_within_a_choice_make_several_samples() {
    let steps =
        (RandSpatialCropSamples::new("image", [2, 2, 2], 3), RandSpatialCropSamples::new("image", [2, 2, 2], 2));
    let chain = Pipeline::new(RandomOrder::new(steps)).expect("sound");
    let ramp = Sample::new("case").with_image("image", tiny::ramp([1, 6, 6, 6]));
    let made = chain.run(ramp, DrawKey::new(1, 0, 0)).expect("crops");
    assert_eq!(made.len(), 6);
}

#[test]
fn the_inverse_undoes_what_was_chosen() {
    let chain = pipeline(&choice(
        "SomeOf",
        "{ name = 'RandFlip', keys = 'image', prob = 1.0, spatial_axis = 0 },
         { name = 'RandRotate90', keys = 'image', prob = 1.0 },
         { name = 'RandSpatialCrop', keys = 'image', roi_size = [3, 3, 3] }",
    ));
    for epoch in 0..8 {
        let ramp = tiny::ramp([1, 5, 4, 3]);
        let sample = Sample::new("case").with_image("image", ramp.clone());
        let made = chain.run(sample, DrawKey::new(2, epoch, 0)).expect("a sample");
        let made = made[0].image("image").expect("an image");
        let back = chain.invert(made.clone(), made, true).expect("inverted");
        assert_eq!((back.shape(), back.affine), (ramp.shape(), ramp.affine));
        let (back, ramp) = (back.to_vec(), ramp.to_vec());
        assert!(back.iter().zip(&ramp).all(|(back, value)| back == value || *back == 0.0));
        assert_eq!(back.iter().filter(|value| **value > 0.0).count().min(26), 26);
    }
}

#[test]
fn a_choice_keeps_its_probabilities_where_keys_are_dropped() {
    let text = format!(
        "{}weights = [1, 1]\n",
        choice("OneOf", "{ name = 'Flip', keys = ['image', 'label'] }, { name = 'Flip', keys = 'label' }")
    );
    let document = hearth_registry::Document::parse("recipe", &text).expect("TOML");
    let tables = document.find("transforms").items();
    let with = |keys: &[&str]| {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        Pipeline::from_nodes_with(tables, &RecipeOptions::default().keys(keys)).expect("sound")
    };
    let chain = with(&["image"]);
    let flipped = (0..400).filter(|epoch| {
        let sample = Sample::new("case").with_image("image", tiny::line([1.0, 2.0]));
        let made = chain.run(sample, DrawKey::new(0, *epoch, 0)).expect("a sample");
        made[0].image("image").expect("an image").to_vec() == [2.0, 1.0]
    });
    // Half, with a standard deviation of 10.
    assert!((150..250).contains(&flipped.count()));
    assert!(with(&["other"]).is_empty());
}

/// Two channels of each of three entries.
fn batch() -> Sample {
    let values = (0..48).map(|value| (value * value % 31) as f32).collect();
    let image = Image::from_values(values, [6, 2, 2, 2], affine::IDENTITY, &host_device());
    Sample::new("the batch of a").with_image("image", image.clone()).with_image("label", image)
}

#[test]
fn a_batch_is_mixed_with_one_draw_for_all_keys() {
    for step in ["MixUp", "CutMix", "CutOut"] {
        let chain = pipeline(&format!("[[transforms]]\nname = '{step}'\nkeys = ['image', 'label']\n"));
        let mixes = |epoch: u64| {
            let made = chain.run_batch(batch(), 3, DrawKey::new(0, epoch, 0)).expect("a batch");
            let values = |key: &str| made[0].image(key).expect("an image").to_vec();
            assert_eq!(values("image"), values("label"), "{step}");
            values("image")
        };
        assert!(mixes(0) == mixes(0) && mixes(0) != mixes(1), "{step}");
        assert!(chain.steps()[0].is_random() && chain.steps()[0].mixes_cases());
        let error = chain.run(batch(), DrawKey::new(0, 0, 0)).expect_err("a single case").to_string();
        assert!(error.contains("batch = true"), "{error}");
        let sized = pipeline(&format!("[[transforms]]\nname = '{step}'\nkeys = 'image'\nbatch_size = 4\n"));
        let error = sized.run_batch(batch(), 3, DrawKey::new(0, 0, 0)).expect_err("three").to_string();
        assert!(error.contains("3 entries") && error.contains("`batch_size`"), "{error}");
        assert!(chain.run_batch(batch(), 4, DrawKey::new(0, 0, 0)).is_err(), "6 channels of 4 entries");
    }
}

#[test]
fn a_batch_within_a_choice_is_mixed_too() {
    let inner = choice("OneOf", "{ name = 'Range', range = 'mix', transform = { name = 'CutOut', keys = 'image' } }");
    let chain = pipeline(&inner);
    assert!(chain.steps()[0].mixes_cases());
    let cut = (0..20).any(|epoch| {
        let made = chain.run_batch(batch(), 3, DrawKey::new(0, epoch, 0)).expect("a batch");
        let values = made[0].image("image").expect("an image").to_vec();
        values.iter().filter(|value| **value == 0.0).count() > 8
    });
    assert!(cut && matches!(batch().values["image"], Value::Image(_)));
}

#[test]
fn labels_of_cut_mix_are_keys() {
    let known = "[[transforms]]\nname = 'LoadImage'\nkeys = ['image', 'label']\n";
    let step =
        |labels: &str| format!("{known}[[transforms]]\nname = 'CutMix'\nkeys = 'image'\nlabel_keys = '{labels}'\n");
    assert!(Pipeline::from_toml(&step("label")).is_ok());
    assert!(fault(&step("lable")).contains("\"lable\""));
    // They exist in a chain that reads no files: that of whole batches.
    assert!(Pipeline::from_toml(step("label").trim_start_matches(known)).is_ok());
    assert!(fault(&step("image")).contains("is in `keys` too"));
    assert!(fault("[[transforms]]\nname = 'MixUp'\nkeys = 'image'\nalpha = 0\n").contains("not above 0"));
}
