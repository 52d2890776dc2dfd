//! Pickles that request too much, or something that is not allowed.

use hearth_pickle::{Object, Options, PickleError, parse};
use proptest::prelude::*;

fn refused(pickle: &[u8], options: &Options) -> PickleError {
    parse(pickle, options).map(drop).expect_err("an error")
}

fn says(pickle: &[u8], options: &Options, part: &str) {
    let error = refused(pickle, options).to_string();
    assert!(error.contains(part), "no {part:?} in {error}");
}

#[test]
fn commands_are_refused_with_their_names_whatever_is_passed_over() {
    let commands: [(&[u8], &str); 6] = [
        (b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.", "posix.system"),
        (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.", "builtins.eval"),
        (b"c__builtin__\nexec\n(S'1'\ntR.", "__builtin__.exec"),
        (b"\x80\x02ctorch\nload\nX\x01\x00\x00\x00x\x85R.", "torch.load"),
        // A call whose result is dropped before a value follows.
        (b"\x80\x02csubprocess\nPopen\n)R0K\x01.", "subprocess.Popen"),
        // A function that is only named.
        (b"\x80\x02cos\nsystem\n.", "os.system"),
    ];
    for (pickle, name) in commands {
        for options in [Options::default(), Options::weights()] {
            assert_eq!(refused(pickle, &options), PickleError::Refused(name.to_owned()));
        }
    }
    let unknown = b"\x80\x02cmine.models\nNet\n)\x81.";
    assert_eq!(refused(unknown, &Options::default()), PickleError::Refused("mine.models.Net".to_owned()));
    let (pickled, _) = parse(unknown, &Options::weights()).expect("skipped");
    assert!(matches!(pickled.root(), Object::Foreign(foreign) if foreign.name == "mine.models.Net"));
}

#[test]
fn operations_that_are_not_read_are_named() {
    for (pickle, part) in [
        (&b"(ios\nsystem\n."[..], "operation 0x69"),
        (b"(cos\nsystem\no.", "os.system"),
        (b"\x80\x02\x82\x01.", "operation 0x82"),
        (b"\x80\x05\x97.", "operation 0x97"),
        (b"\x80\x06N.", "protocol 6"),
        (b"\x80\x02h\x07.", "recalls what it did not store"),
        (b"\x80\x02q\x00.", "does not have"),
        (b"\x80\x02(.", "does not have"),
        (b"\x80\x02K\x01(\x85.", "does not have"),
        (b"\x80\x02K\x01t.", "no mark"),
        (b"\x80\x02K\x01K\x02a.", "appends to a number"),
        (b"\x80\x02}(K\x01u.", "key without a value"),
        (b"\x80\x02X\xff\xff\xff\xff", "ends early"),
        (b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffa.", "ends early"),
        (b"X\x01\x00\x00\x00\xff.", "not UTF-8"),
        (b"I1x\n.", "the number \"1x\""),
        (b"Lx\n.", "the number \"x\""),
    ] {
        says(pickle, &Options::default(), part);
    }
}

/// Each of these would take gigabytes, or overflow the stack of a traversal.
#[test]
fn memory_is_limited_and_nothing_recurses() {
    let options = Options { objects: 1000, bytes: 100_000, ..Options::default() };
    // A list within itself, and a hundred thousand levels.
    let (pickled, _) = parse(b"\x80\x02]q\x00h\x00a.", &options).expect("a list");
    assert!(matches!(pickled.root(), Object::List(items) if items == &[0]));
    let mut deep = vec![b']'; 100_000];
    deep.extend(vec![b'a'; 99_999]);
    deep.push(b'.');
    drop(parse(&deep, &Options::default()).expect("lists within lists"));
    says(&deep, &options, "more than 1000 values");
    // The same value many times.
    let mut again = b"Nq\x00".to_vec();
    again.extend(b"h\x00".repeat(2000));
    says(&again, &options, "more than 1000 values");
    let mut doubled = b"N".to_vec();
    doubled.extend(b"2\x86".repeat(100));
    doubled.push(b'.');
    assert!(parse(&doubled, &options).is_ok());
    // A list of nine hundred values becomes a set many times.
    let mut sets = b"\x80\x02](".to_vec();
    sets.extend(vec![b'N'; 900]);
    sets.extend(b"eq\x00\x85q\x01cbuiltins\nset\nq\x02");
    sets.extend(b"h\x02h\x01R".repeat(50));
    says(&sets, &options, "more than 100000 bytes");
    // The same with bytes.
    let mut copies = b"\x80\x03B\x10\x27\x00\x00".to_vec();
    copies.extend(vec![0; 10_000]);
    copies.extend(b"\x85q\x01cbuiltins\nbytes\nq\x02");
    copies.extend(b"h\x02h\x01R".repeat(50));
    says(&copies, &options, "more than 100000 bytes");
    // A tensor subclass nested around another, fifty thousand times.
    let mut wrapped = b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\nq\x00Nq\x01)q\x02".to_vec();
    wrapped.extend(b"(h\x00h\x01h\x02h\x01tq\x02".repeat(50_000));
    wrapped.extend(b"h\x00h\x02R.");
    let (pickled, _) = parse(&wrapped, &Options::weights()).expect("skipped");
    assert!(matches!(pickled.root(), Object::Foreign(_)));
}

#[test]
fn large_whole_numbers_are_kept() {
    // 2**64 in protocols 2 and 0.
    let (pickled, _) =
        parse(b"\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", &Options::default()).expect("one");
    assert_eq!(pickled.whole(), Some(vec![0, 0, 0, 0, 0, 0, 0, 0, 1]));
    let (pickled, _) = parse(b"L18446744073709551616L\n.", &Options::default()).expect("one");
    assert!(matches!(pickled.root(), Object::Large(_)));
    let (pickled, _) = parse(b"\x80\x02\x8a\x01\xff.", &Options::default()).expect("one");
    assert_eq!(pickled.whole(), Some(vec![0xff; 8]));
}

const OPERATIONS: &[u8] = b"(02NKM)]}aesudtlhqRbQ.\x81\x85\x86\x87\x8f\x90\x91\x93\x94\x00\x01\x02";

proptest! {
    #[test]
    fn any_bytes_are_objects_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for options in [Options::default(), Options::weights()] {
            let _ = parse(&bytes, &options);
        }
    }

    /// Random operations, followed by small numbers.
    #[test]
    fn any_operations_are_objects_or_an_error(
        bytes in proptest::collection::vec(proptest::sample::select(OPERATIONS), 0..300)
    ) {
        for options in [Options::default(), Options::weights()] {
            let _ = parse(&bytes, &options);
        }
    }
}
