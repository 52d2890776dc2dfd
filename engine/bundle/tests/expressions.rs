//! Expressions, compared with the values that Python gives.

use std::path::Path;
use std::sync::Arc;

use hearth_bundle::{Config, Effect, Fault, FaultKind, Resolver, Value};
use serde_json::json;

fn resolver(config: &serde_json::Value, folder: &Path) -> Result<Resolver, Fault> {
    Resolver::new(Config::parse("c.json", &config.to_string())?, folder.to_owned())
}

fn value(expression: &str) -> Result<Value, Fault> {
    let config = json!({
        "imports": ["$import os", "$import numpy as np", "$from math import pi as tau_half", "$import copy"],
        "a": [1, 2, 3], "d": {"k": 4, "l": "$1 + 1"}, "t": "text", "f": false,
        "x": expression,
    });
    resolver(&config, Path::new("."))?.get("x")
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Float(number) if number.fract() == 0.0 => format!("{number:.1}"),
        value => value.to_json().map_or_else(|| value.kind(), |value| value.to_string()),
    }
}

#[test]
fn values_are_those_of_python() {
    for (expression, wanted) in [
        ("$map(lambda i: i * 2, @a)", "[2,4,6]"),
        ("$list(map(lambda p: p[0] + p[1], zip(@a, [4, 5, 6])))", "[5,7,9]"),
        ("$1/2", "0.5"),
        ("$-7 // 2", "-4"),
        ("$-7 % 3", "2"),
        ("$7.5 // 2", "3.0"),
        ("$2 ** 3 ** 2", "512"),
        ("$-2 ** 2", "-4"),
        ("$2 ** -1", "0.5"),
        ("$1 + 2 * 3 - (4 - 5)", "8"),
        ("$[] or 'x'", "\"x\""),
        ("$0 and 1", "0"),
        ("$not @f", "true"),
        ("$1 < 2 <= 2 != 3", "true"),
        ("$2 in @a and 'ex' in @t and 9 not in @a", "true"),
        ("$None is None and @f is not None", "true"),
        ("$@a[-1] + @d::k", "7"),
        ("$@a[1:] + [4] * 2", "[2,3,4,4]"),
        ("$@a[::-1]", "[3,2,1]"),
        ("$@a[: -2 if @f else None]", "[1,2,3]"),
        ("$'abc'[-2:]", "\"bc\""),
        ("$'a' 'b' + \"\\x41\\n\"", "\"abA\\n\""),
        ("$[x * y for x in range(3) for y in (1, 10) if x]", "[1,10,2,20]"),
        ("${k: v for k, v in zip(['a', 'b'], @a)}", "{\"a\":1,\"b\":2}"),
        ("${**@d, 'k': 5}", "{\"k\":5,\"l\":2}"),
        ("$[{'i': i, **@d} for i in @a[:1]]", "[{\"i\":1,\"k\":4,\"l\":2}]"),
        ("$list(set([i + 1 for i in range(5)]) - set([2, 4]))", "[1,3,5]"),
        ("$tuple(float(i >= 0) for i in range(2))", "[1.0,1.0]"),
        ("$((10 - 4) // 2,) * 2", "[3,3]"),
        ("$1.0 - float(@a[0]) / float(4)", "0.75"),
        ("$len(@a) + int(2.9) + round(2.5) + abs(-1) + max(1, 5) + min([3, 4]) + sum(@a)", "22"),
        ("$sorted(['b', 'a'], reverse=True)", "[\"b\",\"a\"]"),
        ("$[i for i, _ in enumerate(@a, start=1)]", "[1,2,3]"),
        ("$(lambda x, y=2: x + y)(3)", "5"),
        ("$(lambda x, *_, **__: x)(3, 4)", "3"),
        ("$os.path.join('a', 'b/', 'c')", "\"a/b/c\""),
        ("$@t.replace('te', 'x')", "\"xxt\""),
        ("$np.pi == tau_half", "true"),
        ("$monai.utils.CommonKeys.IMAGE", "\"image\""),
        ("$monai.utils.InterpolateMode.BICUBIC", "\"bicubic\""),
        ("$copy.deepcopy(@a)", "[1,2,3]"),
        ("$torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')", "a device"),
        ("$np.float32", "numpy.float32"),
        ("$1 if \\\n True else 2", "1"),
        ("@a::1", "2"),
        ("@d", "{\"k\":4,\"l\":2}"),
        (" @a", "\" @a\""),
        ("@a!", "\"@a!\""),
        ("a#b", "\"a::b\""),
    ] {
        let got = value(expression).map(|value| text_of(&value)).unwrap_or_else(|fault| fault.to_string());
        assert_eq!(got, wanted, "{expression}");
    }
}

#[test]
fn what_is_outside_is_named() {
    for (expression, part) in [
        ("$__import__('os').system('x')", "the name __import__ is not known"),
        ("$os.system('x')", "os.system(...) is not evaluated"),
        ("$(1).__class__", "__class__ of a whole number is not evaluated"),
        ("$scripts.run(1)", "the name scripts is not known"),
        ("$open('f', 'w')", "open() of a file to be written"),
        ("$f'{1}'", "a formatted text"),
        ("$x = 1", "assigns"),
        ("$1 +", "has its end where a value is expected"),
        ("$'a' + 1", "a sum (+) of a text and a whole number"),
        ("$@a[7]", "the index 7 of 3 elements"),
        ("$@zz + 1", "refers to @zz, which the config does not have"),
        ("@a::9", "refers to @a::9, which the config does not have"),
        ("$1 / 0", "a division by zero"),
        ("$'@a'", "@a stands inside a text"),
        ("$'x' * 100000000", "makes more than"),
        ("$range(10 ** 12)", "makes more than"),
        ("$10 ** 30", "more than 64 bits"),
        ("$9 & 'a'", "& of a whole number and a text"),
        ("$open('not/there.json')", "not/there.json cannot be read"),
    ] {
        let fault = value(expression).expect_err(expression).to_string();
        assert!(fault.contains(part), "{expression}: {fault}");
        assert!(fault.starts_with("c.json: x: "), "{fault}");
    }
    let deep = format!("${}1{}", "(".repeat(500), ")".repeat(500));
    assert!(value(&deep).expect_err("deep").to_string().contains("nested"));
}

#[test]
fn components_are_made_once_and_disabled_ones_left_out() -> Result<(), Fault> {
    let config = json!({
        "net": {"_target_": "UNet", "channels": [1, 2], "_desc_": "x", "_requires_": "@seed"},
        "seed": "$monai.utils.set_determinism(seed=7)",
        "network": "$@net.to('cpu')",
        "off": {"_target_": "A", "_disabled_": "TRUE"},
        "handlers": [{"_target_": "B", "_disabled_": "$not False"}, "@off", {"_target_": "C", "net": "@network"}],
        "width": "@net::channels::1",
        "evaluator": {"_target_": "SupervisedEvaluator", "network": "@network", "val_handlers": "@handlers"},
        "loader": {"_target_": "CheckpointLoader", "load_dict": {"model": "@network"}},
        "initialize": ["$@loader(@evaluator) if @load else None"], "load": true,
        "run": ["$@evaluator.run()"],
        "circle": "$@round + 1", "round": "@circle",
        "never": "$scripts.plot()",
    });
    let resolver = resolver(&config, Path::new("."))?;
    let (net, network) = (resolver.get("net")?, resolver.get("network")?);
    assert!(net.equals(&network));
    let handlers = resolver.get("handlers")?;
    let handlers = handlers.as_slice().expect("a list");
    assert!(matches!(handlers, [Value::None, Value::Component(c)] if c.name() == "C"));
    assert!(matches!(resolver.get("width")?, Value::Int(2)));
    let effects = [resolver.run("initialize")?, resolver.run("run")?, resolver.run("run")?].concat();
    let shown: Vec<String> = effects.iter().map(|effect| format!("{effect:?}").chars().take(4).collect()).collect();
    assert_eq!(shown, ["Seed", "Load", "Run(", "Run("]);
    let fault = resolver.get("circle").expect_err("a circle").to_string();
    assert!(fault.contains("refers to itself: circle -> round -> circle"), "{fault}");
    assert!(resolver.get("Run").expect_err("missing").to_string().contains("did you mean run?"));
    Ok(())
}

#[test]
fn faults_are_gathered() -> Result<(), Fault> {
    let config = json!({
        "files": "$open('no.json')", "data": "$json.load(@files)", "imports": ["$import json"],
        "run": ["$@evaluator.run()"], "step": {"_target_": "Lambdad", "func": "$skimage.x(1)"},
        "evaluator": {"_target_": "SupervisedEvaluator", "data": "@data", "post": ["@step", "@nothing"]},
    });
    let resolver = resolver(&config, Path::new("."))?.gathering();
    let effects = resolver.run("run")?;
    assert_eq!(effects.len(), 1);
    let faults: Vec<String> =
        resolver.faults().iter().map(|fault| format!("{}: {}", fault.kind.word(), fault.id)).collect();
    assert_eq!(faults, ["file: files", "expression: step::func", "config: evaluator::post::1"]);
    Ok(())
}

#[test]
fn files_are_read_from_the_folder() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("in"))?;
    for (name, text) in [
        ("in/b.nii.gz", ""),
        ("in/a.nii.gz", ""),
        (
            "list.json",
            r#"{"testing": [{"image": ["x.nii", "y.nii"], "label": "l.nii", "id": "a.nii.gz"}], "test": ["z.nii"]}"#,
        ),
        ("t.csv", "t2,n\n/p/1.nii,3\n/p/2.nii,4\n"),
    ] {
        std::fs::write(folder.path().join(name), text)?;
    }
    let config = json!({
        "imports": ["$import glob", "$import json", "$from pathlib import Path", "$import pandas as pd", "$import os"],
        "dir": "in",
        "glob": "$sorted(glob.glob(os.path.join(@dir, '*.nii*')))",
        "fp": "$open('list.json', 'r', encoding='utf8')", "json": "$json.load(@fp)['test']",
        "text": "$json.loads(Path('list.json').read_text())['test'][0]",
        "dec": "$monai.data.load_decathlon_datalist('list.json', data_list_key='testing', base_dir='in/../in')",
        "test": "$monai.data.load_decathlon_datalist('list.json', True, 'test')",
        "csv": "$list(@dir + pd.read_csv('t.csv').t2)", "n": "$list(pd.read_csv('t.csv')['n'])",
        "none": "$os.path.exists('zz')", "close": "$@fp.close()",
    });
    let resolver = resolver(&config, folder.path())?;
    for (id, wanted) in [
        ("glob", json!(["in/a.nii.gz", "in/b.nii.gz"])),
        ("json", json!(["z.nii"])),
        ("text", json!("z.nii")),
        ("dec", json!([{"image": ["in/x.nii", "in/y.nii"], "label": "in/l.nii", "id": "in/a.nii.gz"}])),
        ("test", json!([{"image": "z.nii"}])),
        ("csv", json!(["in/p/1.nii", "in/p/2.nii"])),
        ("n", json!([3, 4])),
        ("none", json!(false)),
        ("close", json!(null)),
    ] {
        assert_eq!(resolver.get(id)?.to_json(), Some(wanted), "{id}");
    }
    Ok(())
}

#[test]
fn what_computes_and_writes_is_described() -> Result<(), Box<dyn std::error::Error>> {
    let config = json!({
        "imports": ["$import torch", "$from PIL import Image", "$from scripts.utils import visualize_2d_image"],
        "network_def": {"_target_": "monai.networks.nets.AutoencoderKL", "spatial_dims": 2},
        "loader": {"_target_": "DataLoader", "dataset": []},
        "saver": {"_target_": "SaveImage", "output_dir": "out"},
        "sampler": {"_target_": "scripts.ldm_sampler.LDMSampler"},
        "noise": "$torch.randn([1] + [2, 8]).to('cpu')",
        "shown": "$@network_def(monai.utils.first(@loader)['image'].to('cpu'))[0][0, 0, ...]",
        "picture": "$Image.fromarray(visualize_2d_image(@shown), 'RGB')",
        "run": ["$@sampler.run(@noise, @network_def, saver=@saver)", "$@saver(@noise[0])", "$@picture.save('a.png')"],
        "group": "$@list.create_dataset('Test')[1][0]",
        "list": {"_target_": "scripts.createList.CreateImageLabelList", "filename": "list.json"},
    });
    let folder = tempfile::tempdir()?;
    let list = folder.path().join("list.json");
    std::fs::write(&list, r#"{"Test": [{"image": "a.png", "label": [0, 1]}]}"#)?;
    let known = resolver(&config, folder.path())?;
    let calls = known.run("run")?.into_iter().map(|effect| match effect {
        Effect::Call(call) => call,
        other => panic!("{other:?}"),
    });
    let calls: Vec<_> = calls.collect();
    let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["LDMSampler.run", "SaveImage.__call__", "PIL.Image.save"]);
    // The called component comes first, then the arguments, by position or name.
    assert_eq!(calls[0].args[0].as_component().map(|sampler| sampler.id.as_str()), Some("sampler"));
    let (Value::Call(noise), Some(Value::Component(saver))) = (&calls[0].args[1], calls[0].get(5, "saver")) else {
        panic!("{:?}", calls[0]);
    };
    assert_eq!((noise.name.as_str(), saver.id.as_str()), ("torch.randn", "saver"));
    // The same draw, indexed.
    let Value::Call(first) = &calls[1].args[1] else { panic!("{:?}", calls[1]) };
    assert!(first.name == "[]" && matches!(&first.args[0], Value::Call(other) if Arc::ptr_eq(other, noise)));
    // Each call contains the next one.
    let mut chain = Vec::new();
    let mut next = calls[2].args.first().cloned();
    while let Some(Value::Call(call)) = next {
        chain.push(call.name.clone());
        next = call.args.iter().find(|value| matches!(value, Value::Call(_))).cloned();
    }
    let wanted = [
        "PIL.Image.fromarray",
        "scripts.utils.visualize_2d_image",
        "[]",
        "[]",
        "AutoencoderKL.__call__",
        "[]",
        "monai.utils.first",
    ];
    assert_eq!(chain, wanted);
    assert_eq!(text_of(&known.get("group")?), "[0,1]");
    std::fs::remove_file(&list)?;
    let gone = resolver(&config, folder.path())?.get("group").expect_err("no file").to_string();
    assert!(gone.contains("group") && gone.contains("list.json cannot be read"), "{gone}");
    Ok(())
}

/// As in Python, where NumPy and pandas raise a `ValueError`. The value is never unknown: only
/// gathered faults have unknown values.
#[test]
fn the_truth_of_several_elements_is_a_fault() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("t.csv"), "a,b\n1,2\n3,4\n")?;
    std::fs::write(folder.path().join("one.csv"), "a\n1\n")?;
    let get = |expression: &str| {
        let config = json!({"imports": ["$import pandas as pd"], "x": expression});
        resolver(&config, folder.path())?.get("x")
    };
    for expression in [
        "$1 if pd.read_csv('t.csv') else 2",
        "$bool(pd.read_csv('t.csv').a)",
        "$not pd.read_csv('t.csv')",
        "$pd.read_csv('t.csv') and 1",
        "$list(filter(lambda x: x, [pd.read_csv('t.csv')]))",
    ] {
        let fault = get(expression).expect_err(expression);
        assert_eq!(fault.kind, FaultKind::Value, "{expression}: {fault}");
        assert!(fault.what.contains("is ambiguous"), "{expression}: {fault}");
    }
    assert_eq!(get("$1 if pd.read_csv('one.csv').a else 2")?.as_int(), Some(1));
    Ok(())
}

#[test]
fn faults_about_what_could_not_be_evaluated_are_consequences() {
    let fault = |value: &Value| Fault::new(FaultKind::Component, "x").about(value).kind;
    assert_eq!(fault(&Value::Int(1)), FaultKind::Component);
    assert_eq!(fault(&Value::text("an unknown value")), FaultKind::Component);
    assert_eq!(fault(&Value::Unknown), FaultKind::Unresolved);
    assert_eq!(fault(&Value::list([Value::Int(1), Value::list([Value::Unknown])])), FaultKind::Unresolved);
    assert_eq!(fault(&Value::Dict([(Value::text("a"), Value::Unknown)].into())), FaultKind::Unresolved);
}
