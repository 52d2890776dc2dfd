//! The plugin in a rehearsed iteration, without a host.

use hearth_ensemble::{Ensemble, Options};
use hearth_plugin::testkit::{Call, Rehearsal};
use hearth_plugin::{Combine, PluginOptions};

fn ensemble(options: &str) -> Result<Ensemble, String> {
    let options = Options::from_toml(options).map_err(|error| error.to_string())?;
    Ensemble::new(options).map_err(|fault| fault.text())
}

#[test]
fn predictions_are_combined_once_an_iteration() {
    let cases = [
        ("", Combine::Mean { weights: None }),
        ("weights = [0.95, 0.94]", Combine::Mean { weights: Some(vec![0.95, 0.94]) }),
        ("weights = [1.0, 2.0, 3.0, 4.0]", Combine::Mean { weights: Some(vec![1.0, 2.0, 3.0, 4.0]) }),
        ("method = 'vote'", Combine::Vote { num_classes: None }),
        ("method = 'vote'\nnum_classes = 3", Combine::Vote { num_classes: Some(3) }),
    ];
    for (options, how) in cases {
        let options = format!("pred_keys = ['pred_0', 'pred_1']\n{options}");
        let mut play = Rehearsal::new(ensemble(&options).expect("valid options"));
        play.iteration().expect("no error");
        let inputs = vec!["pred_0".to_owned(), "pred_1".to_owned()];
        assert_eq!(play.host.calls, [Call::Combine { inputs, how, output: "pred".to_owned() }]);
    }
}

#[test]
fn options_that_do_not_go_together_are_told() {
    for (options, word) in [
        ("", "option `pred_keys` is missing"),
        ("pred_keys = []", "`pred_keys` is empty"),
        ("pred_keys = ['a', 'b']\nweights = [1.0]", "1 `weights` for 2"),
        ("pred_keys = ['a', 'b']\nweights = [1.0, -1.0]", "must not sum to 0"),
        ("pred_keys = ['a', 'b']\nweights = [1.0, 2.0, 3.0]", "one for each channel of each"),
        ("pred_keys = ['a', 'b']\nweights = [1.0, 2.0, -1.0, 1.0]", "must not sum to 0"),
        ("pred_keys = ['a', 'b']\nweights = [nan, 1.0]", "must be finite"),
        ("pred_keys = ['a']\nnum_classes = 3", "`num_classes` is for"),
        ("pred_keys = ['a']\nmethod = 'vote'\nweights = [1.0]", "`weights` are for"),
        ("pred_keys = ['a']\nmethod = 'vote'\nnum_classes = 1", "2 or more"),
        ("pred_keys = ['a']\nmethod = 'median'", "unknown method `median`"),
    ] {
        let error = ensemble(options).expect_err(options);
        assert!(error.contains(word), "{options}: {error}");
    }
}
