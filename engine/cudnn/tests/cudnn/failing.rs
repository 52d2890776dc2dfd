//! Each call of the library fails in turn: the error names it, and nothing is left.

use std::ptr;

use hearth_cudnn::{Activation, Convolution, Epilogue, Error, Fallback, Options, Status, plan};

use crate::executing::{Given, execute};
use crate::layers::cube;
use crate::stand_in::StandIn;

const FUNCTIONS: [&str; 9] = [
    "cudnnCreate",
    "cudnnDestroy",
    "cudnnSetStream",
    "cudnnBackendCreateDescriptor",
    "cudnnBackendDestroyDescriptor",
    "cudnnBackendSetAttribute",
    "cudnnBackendGetAttribute",
    "cudnnBackendFinalize",
    "cudnnBackendExecute",
];

/// Everything, from the handle to the result.
fn everything(stand_in: &StandIn) -> Result<i64, Error> {
    let epilogue = Some(Epilogue { bias: true, activation: Some(Activation::Relu) });
    let layer = Convolution { epilogue, ..cube([1, 2, 2, 3, 3, 1]) };
    let made = plan(&stand_in.target()?, &layer, &Options { workspace_limit: 1 << 20, ..Options::default() })?;
    execute(&made, &Given::drawn(&layer), ptr::null_mut())?;
    Ok(made.engine())
}

/// The results with each call of a function failing, until there is no such call.
fn each(function: &str, code: i64) -> Vec<Result<i64, Error>> {
    let stand_in = StandIn::new();
    stand_in.tell("code", code);
    let mut results = Vec::new();
    for call in 1.. {
        stand_in.tell(function, call);
        let result = everything(&stand_in);
        stand_in.is_clean();
        if stand_in.count(function) < call {
            assert_eq!(result, Ok(3), "{function}");
            break;
        }
        results.push(result);
    }
    assert!(!results.is_empty(), "{function} is never called");
    results
}

#[test]
fn each_call_that_fails_has_its_error() {
    for named in FUNCTIONS {
        let results = each(named, 4000);
        let failed = results.iter().filter(|result| result.is_err()).count();
        for result in &results {
            match result {
                Ok(engine) => assert_eq!(*engine, 3),
                Err(Error::Call { function, code: 4000, status: Status::Internal, text, .. }) => {
                    assert_eq!(
                        (*function, text.as_str()),
                        (named, format!("CUDNN_STATUS_INTERNAL_ERROR (stand-in: {named})").as_str())
                    );
                }
                // The last engine is refused, and none is left.
                Err(Error::NoPlan { refused, .. }) if named == "cudnnBackendFinalize" => {
                    assert!(refused.iter().any(|refused| refused.engine == Some(3)));
                }
                Err(other) => panic!("{named}: {other}"),
            }
        }
        let total = results.len();
        match named {
            // What cannot be destroyed is reported in the log alone.
            "cudnnDestroy" | "cudnnBackendDestroyDescriptor" => assert_eq!(failed, 0, "{named}"),
            // The plan of an engine that is refused, for its workspace, may fail as well.
            "cudnnBackendFinalize" => assert_eq!(failed, total - 1, "{named}"),
            _ => assert_eq!(failed, total, "{named}"),
        }
    }
}

#[test]
fn what_is_not_supported_ends_without_a_plan() {
    for named in ["cudnnBackendFinalize", "cudnnBackendSetAttribute", "cudnnBackendGetAttribute"] {
        for result in each(named, 3000) {
            match result {
                Ok(engine) => assert_eq!(engine, 3),
                Err(error @ (Error::NoPlan { .. } | Error::Call { status: Status::NotSupported, .. })) => {
                    let fallback = Fallback::from(error);
                    assert!(matches!(fallback, Fallback::NoPlan(_) | Fallback::Failed(_)), "{fallback}");
                }
                Err(other) => panic!("{named}: {other}"),
            }
        }
    }
}

#[test]
fn reasons_are_sorted_by_what_failed() {
    let stand_in = StandIn::new();
    stand_in.tell("version", 90_800);
    let error = everything_after_open(&stand_in);
    assert!(matches!(Fallback::from(error), Fallback::Library(Error::Old { .. })));
    stand_in.tell("version", 92_801);
    stand_in.tell("refuse", 0b1111);
    assert!(matches!(Fallback::from(everything_after_open(&stand_in)), Fallback::NoPlan(_)));
    stand_in.tell("refuse", 0);
    stand_in.tell("cudnnBackendExecute", 1);
    assert!(matches!(Fallback::from(everything_after_open(&stand_in)), Fallback::Failed(_)));
    stand_in.is_clean();
}

/// The error of the whole, with that of opening.
fn everything_after_open(stand_in: &StandIn) -> Error {
    match hearth_cudnn::Library::open(&stand_in.search()) {
        Ok(_) => everything(stand_in).expect_err("something fails"),
        Err(error) => error,
    }
}
