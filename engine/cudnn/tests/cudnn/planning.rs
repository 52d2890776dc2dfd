//! Which engine is taken. The stand-in proposes four: 0 (tensor cores, not deterministic), 1 (tensor
//! cores, f32 rounded, 1 MiB of workspace), 2 (64 MiB), and 3 as a fallback.

use std::sync::Arc;

use hearth_cudnn::{Convolution, Element, Error, GpuDescription, Options, PlanCache, Target, Why, plan};

use crate::layers::cube;
use crate::stand_in::StandIn;

fn layer(element: Element) -> Convolution {
    Convolution { element, ..cube([1, 2, 2, 4, 3, 1]) }
}

fn taken(stand_in: &StandIn, element: Element, options: &Options) -> Result<i64, Error> {
    let target = Target::described(&stand_in.open(), &GpuDescription::default())?;
    plan(&target, &layer(element), options).map(|plan| plan.engine())
}

#[test]
fn engines_are_filtered_by_their_notes() {
    let stand_in = StandIn::new();
    let usual = Options::default();
    let tf32 = Options { tf32: true, ..usual };
    let any = Options { deterministic: false, tf32: true, ..usual };
    let small = Options { workspace_limit: 1 << 20, ..usual };
    for (element, options, engine) in [
        // f32 stays f32.
        (Element::F32, usual, 2),
        (Element::F32, small, 3),
        (Element::F32, tf32, 1),
        (Element::F32, any, 0),
        (Element::F32, Options { deterministic: false, ..usual }, 2),
        (Element::Bf16, usual, 1),
        (Element::F16, usual, 1),
        (Element::F16, any, 0),
        (Element::Bf16, small, 1),
        (Element::Bf16, Options { workspace_limit: (1 << 20) - 1, ..usual }, 3),
    ] {
        assert_eq!(taken(&stand_in, element, &options), Ok(engine), "{element:?} {options:?}");
    }
    stand_in.is_clean();
}

#[test]
fn a_plan_describes_its_engine() {
    let stand_in = StandIn::new();
    let target = Target::described(&stand_in.open(), &GpuDescription::default()).expect("a target");
    let made = plan(&target, &layer(Element::F32), &Options::default()).expect("a plan");
    assert_eq!((made.engine(), made.tensor_cores(), made.workspace_bytes()), (2, false, 64 << 20));
    assert_eq!(made.convolution(), &layer(Element::F32));
    let refused: Vec<_> = made.refused().iter().map(|refused| (refused.engine, refused.why.clone())).collect();
    assert_eq!(refused, [(Some(0), Why::Nondeterministic), (Some(1), Why::ReducedPrecision)]);
    let half = plan(&target, &layer(Element::F16), &Options::default()).expect("a plan");
    assert_eq!((half.tensor_cores(), half.workspace_bytes()), (true, 1 << 20));
    drop((target, made));
    // A plan keeps what it was made of.
    assert!(stand_in.count("created") > stand_in.count("destroyed"));
    drop(half);
    stand_in.is_clean();
}

#[test]
fn an_engine_that_refuses_is_followed_by_the_next() {
    let stand_in = StandIn::new();
    stand_in.tell("refuse", 0b0100);
    assert_eq!(taken(&stand_in, Element::F32, &Options::default()), Ok(3));
    stand_in.tell("refuse", 0b1110);
    let error = taken(&stand_in, Element::F32, &Options::default()).expect_err("no engine is left");
    let Error::NoPlan { gpu, convolution, refused } = &error else { panic!("{error}") };
    assert_eq!((gpu.as_str(), &**convolution, refused.len()), ("H100", &layer(Element::F32), 5));
    let text = "no engine on H100 for a convolution, 1 x 2 to 2 channels x 4x4x4, kernel 3x3x3, padding 1x1x1, \
                channels last, f32: engine 0: not deterministic; engine 1: reduced precision; engine 2: \
                CUDNN_STATUS_NOT_SUPPORTED (stand-in: an engine that refuses); 2 more";
    assert_eq!(error.to_string(), text);
    stand_in.is_clean();
}

#[test]
fn a_gpu_without_a_type_has_no_plan() {
    let stand_in = StandIn::new();
    let t4 = GpuDescription { name: "T4".into(), capability: (7, 5), ..GpuDescription::default() };
    let target = Target::described(&stand_in.open(), &t4).expect("a target");
    let error = plan(&target, &layer(Element::Bf16), &Options::default()).expect_err("no bf16");
    let Error::NoPlan { gpu, refused, .. } = &error else { panic!("{error}") };
    assert_eq!(gpu, "T4");
    assert!(refused.iter().all(|refused| refused.engine.is_none()), "{error}");
    assert!(plan(&target, &layer(Element::F16), &Options::default()).is_ok());
    drop(target);
    stand_in.is_clean();
}

#[test]
fn plans_are_kept_by_gpu_shape_and_options() {
    let stand_in = StandIn::new();
    let library = stand_in.open();
    let target = |name: &str, capability| {
        let gpu = GpuDescription { name: name.into(), capability, ..GpuDescription::default() };
        Target::described(&library, &gpu).expect("a target")
    };
    let (cache, usual) = (PlanCache::new(), Options::default());
    let (first, second, t4) = (target("first", (9, 0)), target("second", (9, 0)), target("T4", (7, 5)));
    assert!(cache.is_empty());
    let one = cache.get(&first, &layer(Element::Bf16), &usual).expect("a plan");
    let calls = stand_in.count("calls");
    let again = cache.get(&first, &layer(Element::Bf16), &usual).expect("a plan");
    assert!(Arc::ptr_eq(&one, &again));
    assert_eq!(stand_in.count("calls"), calls);
    let larger = Convolution { batch: 2, ..layer(Element::Bf16) };
    let options = Options { deterministic: false, ..usual };
    for (target, layer, options) in [
        (&second, &layer(Element::Bf16), usual),
        (&first, &larger, usual),
        (&first, &layer(Element::F16), usual),
        (&first, &layer(Element::Bf16), options),
    ] {
        let other = cache.get(target, layer, &options).expect("a plan");
        assert!(!Arc::ptr_eq(&one, &other));
    }
    assert_eq!(cache.len(), 5);
    // The lack of a plan is kept, a fault is not.
    assert!(matches!(cache.get(&t4, &layer(Element::Bf16), &usual), Err(Error::NoPlan { .. })));
    let calls = stand_in.count("calls");
    assert!(matches!(cache.get(&t4, &layer(Element::Bf16), &usual), Err(Error::NoPlan { .. })));
    assert_eq!((stand_in.count("calls"), cache.len()), (calls, 6));
    stand_in.tell("cudnnBackendCreateDescriptor", 1);
    assert!(matches!(cache.get(&t4, &layer(Element::F16), &usual), Err(Error::Call { .. })));
    assert!(cache.get(&t4, &layer(Element::F16), &usual).is_ok());
    drop((cache, one, again, first, second, t4));
    stand_in.is_clean();
}
